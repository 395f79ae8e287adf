package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Adam is the optimiser of Kingma and Ba 2015, arXiv:1412.6980, with the decoupled weight decay of
// Loshchilov and Hutter 2019, arXiv:1711.05101 (AdamW). It updates the parameter groups of a network.
type Adam struct {
	params *nn.Params[float32]
	cfg    OptimConfig
	sched  Schedule
	lo, hi int           // the range of params.Data that the optimiser updates
	m, v   tensor.Tensor // moments of the parameters in this range, F32
	steps  tensor.Tensor // I64 [1]: steps taken since the moments were 0
}

// NewAdam makes an optimiser of p, with moments in memory from alloc. horizon is the number of iterations of the run.
// Schedules end with the run, unless cfg.TotalTrainingSteps is set.
func NewAdam(p *nn.Params[float32], cfg OptimConfig, horizon int, alloc tensor.Allocator) (*Adam, error) {
	return newAdam(p, 0, len(p.Data), cfg, horizon, alloc)
}

// newAdam is NewAdam for an optimiser that updates only p.Data[lo:hi].
func newAdam(p *nn.Params[float32], lo, hi int, cfg OptimConfig, horizon int, alloc tensor.Allocator) (*Adam, error) {
	if cfg.TotalTrainingSteps > 0 {
		horizon = cfg.TotalTrainingSteps
	}
	layout := tensor.NewLayout(
		tensor.Field{Name: "m", DType: tensor.F32, Shape: []int{hi - lo}},
		tensor.Field{Name: "v", DType: tensor.F32, Shape: []int{hi - lo}},
		tensor.Field{Name: "steps", DType: tensor.I64, Shape: []int{1}},
	)
	mem, err := alloc(layout.Size())
	if err != nil {
		return nil, fmt.Errorf("memory of the optimiser: %w", err)
	}
	state := layout.Bind(mem)
	return &Adam{
		params: p, cfg: cfg, sched: Schedule{Kind: string(cfg.LRScheduler), Warmup: cfg.LRWarmupSteps, Total: horizon},
		lo: lo, hi: hi, m: state.Must("m"), v: state.Must("v"), steps: state.Must("steps"),
	}, nil
}

// LR returns the learning rates of the policy and of the critic in iteration i.
func (a *Adam) LR(i int) (lr, valueLR float64) {
	end := float64(a.cfg.MinLR)
	return a.sched.At(i, float64(a.cfg.LR), end), a.sched.At(i, float64(a.cfg.CriticLR()), end)
}

// Steps returns the number of steps taken since the moments were 0.
func (a *Adam) Steps() int { return int(a.steps.I64()[0]) }

// Step makes one Adam step on the trainable groups, at the learning rates of iteration i. It multiplies the gradient by
// scale.
func (a *Adam) Step(i int, scale float32) { a.step(i, scale, "") }

// step is Step for the parameter group with the given name. The name "" means all groups.
func (a *Adam) step(i int, scale float32, group string) {
	lr, valueLR := a.LR(i)
	t := a.steps.I64()
	t[0]++
	c1 := float32(1 - math.Pow(float64(a.cfg.AdamBeta1), float64(t[0])))
	c2 := float32(1 - math.Pow(float64(a.cfg.AdamBeta2), float64(t[0])))
	m, v := a.m.F32(), a.v.F32()
	for _, g := range a.params.Groups {
		lo, hi := max(g.Lo, a.lo), min(g.Hi, a.hi)
		if !g.Trainable || group != "" && g.Name != group || lo >= hi {
			continue
		}
		rate := lr
		switch {
		case g.Name == "critic":
			rate = valueLR
		case g.Name == "vision" && a.cfg.VisionLR > 0:
			rate = a.sched.At(i, float64(a.cfg.VisionLR), float64(a.cfg.MinLR))
		}
		a.params.Ops().AdamStep(a.params.Data[lo:hi], a.params.Grad[lo:hi], m[lo-a.lo:hi-a.lo], v[lo-a.lo:hi-a.lo],
			float32(rate), a.cfg.AdamBeta1, a.cfg.AdamBeta2, a.cfg.AdamEps, a.cfg.WeightDecay, c1, c2, scale)
	}
}

// Reset sets the moments and the number of steps to 0.
func (a *Adam) Reset() {
	for _, x := range []tensor.Tensor{a.m, a.v} {
		x.Zero()
		a.params.Clear(x.F32()) // on a device, too
	}
	a.steps.Zero()
}

// Save adds views of the state to d, under names that begin with "optim.".
func (a *Adam) Save(d *tensor.Dict) {
	d.Set("optim.m", a.m)
	d.Set("optim.v", a.v)
	d.Set("optim.steps", a.steps)
}

// IsMoment reports whether name is one of the names under which Save adds moments. A moment has one element for each
// parameter. If OptimConfig.Share gives a smaller range, it has elements only for the parameters in this range.
func IsMoment(name string) bool { return name == "optim.m" || name == "optim.v" }
