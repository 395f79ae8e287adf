package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A trainState is a network in training: its parameters, their gradient, its sum over the replicas,
// its norm and the optimiser. An optimiser step is open, backward passes that call ready, step.
type trainState struct {
	params   *nn.Params[float32]
	adam     *Adam
	norm     *gradNorm
	clip     float64
	replicas Replicas
	sum      GradientStream
	ready    func(lo, hi int)
	final    func(lo, hi int)

	norms, steps float64 // since the last reset: sum of the gradients' norms before clipping, and how many
}

func newTrainState(p *nn.Params[float32], cfg OptimConfig, total int, r Replicas, alloc tensor.Allocator) (*trainState,
	error) {
	adam, err := NewAdam(p, cfg, total, alloc)
	if err != nil {
		return nil, err
	}
	l := &trainState{params: p, adam: adam, norm: newGradNorm(p), clip: float64(cfg.ClipGrad), replicas: r}
	l.ready = func(lo, hi int) { l.sum.Ready(lo, hi) }
	l.final = l.norm.final
	return l, nil
}

// open begins a new gradient.
func (l *trainState) open() {
	clear(l.params.Grad)
	l.sum = l.replicas.Gradient(l.params.Grad)
}

// readyAt returns the callback of a backward pass: that of the last one of a gradient marks final
// ranges, the others have none.
func (l *trainState) readyAt(last bool) func(lo, hi int) {
	if last {
		return l.ready
	}
	return nil
}

// step sums the gradient over the replicas and moves the parameters against it.
func (l *trainState) step(iteration int) error {
	l.norm.begin()
	if err := l.sum.Wait(l.final); err != nil {
		return fmt.Errorf("sum gradients: %w", err)
	}
	norm, err := l.norm.value()
	if err != nil {
		return err
	}
	l.adam.Step(iteration, clipScale(norm, l.clip))
	l.norms += norm
	l.steps++
	return nil
}

// meanNorm returns the mean norm of the gradients since the last call; NaN where there were none.
func (l *trainState) meanNorm() float64 {
	mean := l.norms / l.steps
	l.norms, l.steps = 0, 0
	return mean
}

// save adds views of the optimiser's state to d, and with parameters those too, all under prefix.
func (l *trainState) save(d *tensor.Dict, prefix string, parameters bool) {
	var optim tensor.Dict
	l.adam.Save(&optim)
	for i := range optim.Len() {
		name, t := optim.Entry(i)
		d.Set(prefix+"."+name, t)
	}
	if parameters {
		saveParams(d, prefix, l.params)
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

// restore copies into the tensors of state those of the same names in from, which must be of the
// same shapes.
func restore(state, from tensor.Dict) error {
	for i := range state.Len() {
		name, t := state.Entry(i)
		saved, ok := from.Get(name)
		if !ok {
			return fmt.Errorf("no %s", name)
		}
		if !saved.SameShape(t) {
			return fmt.Errorf("%s is %v, want %v", name, saved, t)
		}
	}
	state.CopyFrom(from)
	return nil
}
