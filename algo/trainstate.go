package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A trainState is a network in training: its parameters, their gradient with its sum over the
// replicas and its norm, and the optimiser. An optimiser step is a call of open, backward passes
// that call ready, and a call of step.
type trainState struct {
	params   *nn.Params[float32]
	adam     *Adam
	norm     norm
	clip     float64
	replicas Replicas
	shares   []int          // elements of the ranges that the replicas move; nil: every replica moves all
	sum      GradientStream // nil: it has not begun
	ready    func(lo, hi int)
	final    func(lo, hi int)
	only     string // the group that alone moves; "": all

	norms, steps float64 // since the last meanNorm: sum of the gradients' norms before clipping, and their number
}

// A norm computes the Euclidean norm of a gradient. begin starts the norm of a new gradient, and final marks a range
// of it as final. value returns the norm, once all of the gradient is final.
type norm interface {
	begin()
	final(lo, hi int)
	value() (float64, error)
}

// newTrainState returns the training state of p. The defaults of s must be filled in.
func (s *Setup) newTrainState(p *nn.Params[float32], cfg OptimConfig) (*trainState, error) {
	return s.newShare(p, cfg, 0, len(p.Data))
}

// newShare is newTrainState for an optimiser that moves p.Data[lo:hi] alone.
func (s *Setup) newShare(p *nn.Params[float32], cfg OptimConfig, lo, hi int) (*trainState, error) {
	adam, err := newAdam(p, lo, hi, cfg, s.Iterations, s.Alloc)
	if err != nil {
		return nil, err
	}
	t := &trainState{params: p, adam: adam, norm: newGradNorm(p), clip: float64(cfg.ClipGrad), replicas: s.Replicas}
	t.ready = func(lo, hi int) { t.sum.Ready(lo, hi) }
	t.final = t.norm.final
	return t, nil
}

// open begins a new gradient.
func (t *trainState) open() {
	clear(t.params.Grad)
	t.begin()
}

// begin begins to sum the gradient over the replicas.
func (t *trainState) begin() { t.sum = t.replicas.Gradient(t.params.Grad) }

// readyAt returns the callback of a backward pass, which marks ranges of the gradient as final. It
// returns nil except for the last pass of a gradient.
func (t *trainState) readyAt(last bool) func(lo, hi int) {
	if last {
		return t.ready
	}
	return nil
}

// step sums the gradient over the replicas, unless the sum has begun, and moves the parameters against it.
func (t *trainState) step(iteration int) error {
	t.norm.begin()
	if t.sum == nil {
		t.begin()
	}
	err := t.sum.Wait(t.final)
	if t.sum = nil; err != nil {
		return fmt.Errorf("sum gradients: %w", err)
	}
	norm, err := t.norm.value()
	if err != nil {
		return err
	}
	t.adam.step(iteration, clipScale(norm, t.clip), t.only)
	t.norms += norm
	t.steps++
	if t.shares == nil {
		return nil
	}
	if err := t.replicas.Gather(t.params.Data, t.shares); err != nil {
		return fmt.Errorf("gather parameters: %w", err)
	}
	return nil
}

// meanNorm returns the mean norm of the gradients since the last call; NaN where there were none.
func (t *trainState) meanNorm() float64 {
	mean := t.norms / t.steps
	t.norms, t.steps = 0, 0
	return mean
}

// save adds views of the optimiser's state to d, under prefix. With parameters it adds views of the
// parameters, too.
func (t *trainState) save(d *tensor.Dict, prefix string, parameters bool) {
	var optim tensor.Dict
	t.adam.Save(&optim)
	for i := range optim.Len() {
		name, x := optim.Entry(i)
		d.Set(prefix+"."+name, x)
	}
	if parameters {
		saveParams(d, prefix, t.params)
	}
}

// saveParams adds views of the fields and buffers of p to d, under prefix.
func saveParams(d *tensor.Dict, prefix string, p *nn.Params[float32]) {
	for i, f := range p.Fields {
		d.Set(prefix+"."+f.Name, tensor.FromF32(p.Of(i), f.Shape...))
	}
	for i := range p.Buffers.Len() {
		name, t := p.Buffers.Entry(i)
		d.Set(prefix+"."+name, t)
	}
}

// restore copies tensors of from into the tensors of state with the same names. The shapes must be
// the same.
func restore(state, from tensor.Dict) error {
	for i := range state.Len() {
		name, t := state.Entry(i)
		saved, ok := from.Get(name)
		if !ok {
			return fmt.Errorf("no %s", name)
		}
		if !saved.SameShape(t) {
			return fmt.Errorf("%s is %v, expected %v", name, saved, t)
		}
	}
	state.CopyFrom(from)
	return nil
}
