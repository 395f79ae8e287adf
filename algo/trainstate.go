package algo

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A trainState is a network in training: the parameters, the gradient and its sum over the replicas, the norm of this
// sum, and the optimiser. For an optimiser step, call open, make backward passes that call ready, and call step.
type trainState struct {
	params   *nn.Params[float32]
	lo, hi   int // the range of params that the network has
	adam     *Adam
	clip     float64
	replicas Replicas
	shares   []int          // number of parameters that each replica updates; nil if every replica updates all
	sum      GradientStream // sum of the gradient over the replicas; nil before it begins
	ready    func(lo, hi int)
	fetched  [][2]int // the ranges of the gradient for which ready has started a copy from the device, in order
	only     string   // name of the only group to update; "" means all groups
	witness  Witness

	// beside is another network that learns in the same steps, or nil. Both are clipped by the norm of their common
	// gradient. The gradient of beside is summed after the gradient of this network.
	beside *trainState

	norm     gradNorm                // the zero gradNorm for a language model
	final    func(lo, hi int)        // receives ranges of the sum; nil if stays is set
	uploaded bool                    // the device has the newest parameters
	stays    bool                    // the gradient stays on its device, because there is one replica
	squares  func() (float64, error) // returns the sum of squares of the final gradient

	norms, steps float64 // sum and number of the gradients' norms, before clipping, since the last meanNorm
}

// newTrainState returns the training state of p. The defaults of s must be filled in.
func (s *Setup) newTrainState(p *nn.Params[float32], cfg OptimConfig) (*trainState, error) {
	return s.newRangeState(p, cfg, 0, len(p.Data))
}

// newGroupState is newTrainState for a network whose parameters are the named group of p.
func (s *Setup) newGroupState(p *nn.Params[float32], cfg OptimConfig, name string) (*trainState, error) {
	g := p.Groups[slices.IndexFunc(p.Groups, func(g nn.ParamGroup) bool { return g.Name == name })]
	return s.newRangeState(p, cfg, g.Lo, g.Hi)
}

func (s *Setup) newRangeState(p *nn.Params[float32], cfg OptimConfig, lo, hi int) (*trainState, error) {
	t, err := s.newShare(p, cfg, lo, hi)
	if err != nil {
		return nil, err
	}
	replicas, _ := s.Replicas.Count()
	t.lo, t.hi, t.stays = lo, hi, p.OnDevice() && replicas == 1
	if t.norm, err = newGradNorm(p, lo, hi, t.stays); err != nil {
		return nil, fmt.Errorf("memory of the gradient's norm: %w", err)
	}
	if !t.stays {
		t.final = func(lo, hi int) {
			t.send(lo, hi)
			t.norm.sumFinal(lo, hi)
		}
	}
	t.squares = func() (float64, error) { return t.norm.squares(), nil }
	return t, nil
}

// newTextTrainState returns the training state of m, which is trained with w. With cfg.UseDistributedOptimizer, each
// replica updates a range of the parameters; then m is not on a device.
func (s *Setup) newTextTrainState(m *lm.Model, w *lm.Work, cfg OptimConfig) (*trainState, error) {
	n := len(m.Params.Data)
	lo, hi := cfg.Share(n, s.Replicas)
	t, err := s.newShare(m.Params, cfg, lo, hi)
	if err != nil {
		return nil, err
	}
	t.final = t.send
	replicas, _ := s.Replicas.Count()
	if t.stays = m.Params.OnDevice() && replicas == 1; t.stays {
		t.final = nil
		if err := m.MeasureOnDevice(w); err != nil {
			return nil, fmt.Errorf("memory of the gradient's norm: %w", err)
		}
	}
	t.squares = func() (float64, error) { return m.GradSquares(w) } // of all shards of the model
	if cfg.UseDistributedOptimizer {
		for r := range replicas {
			lo, hi := shareOf(n, replicas, r)
			t.shares = append(t.shares, hi-lo)
		}
	}
	return t, nil
}

// newShare returns a training state that updates only p.Data[lo:hi]. The caller must set the field squares.
func (s *Setup) newShare(p *nn.Params[float32], cfg OptimConfig, lo, hi int) (*trainState, error) {
	adam, err := newAdam(p, lo, hi, cfg, s.Iterations, p.Sharing(s.Alloc))
	if err != nil {
		return nil, err
	}
	t := &trainState{params: p, hi: len(p.Data), adam: adam, clip: float64(cfg.ClipGrad), replicas: s.Replicas,
		witness: s.Witness}
	t.ready = func(lo, hi int) {
		if !p.OnDevice() {
			t.sum.Ready(lo-t.lo, hi-t.lo)
		} else if lo < hi {
			p.Fetch(p.Grad[lo:hi])
			t.fetched = append(t.fetched, [2]int{lo, hi})
		}
	}
	return t, nil
}

// open begins a new gradient.
func (t *trainState) open() {
	t.params.Clear(t.params.Grad[t.lo:t.hi])
	if b := t.beside; b != nil {
		b.params.Clear(b.params.Grad[b.lo:b.hi])
	}
	t.begin()
}

// begin starts the sum of the gradient over the replicas.
func (t *trainState) begin() {
	t.sum, t.fetched = t.replicas.Gradient(t.params.Grad[t.lo:t.hi]), t.fetched[:0]
}

// fetch completes the copy of the gradient from a device. Sums of ranges begin as soon as the ranges are there; the
// device may still compute others. The order of these sums is that on the CPU.
func (t *trainState) fetch() {
	p, rest, end := t.params, 0, t.hi
	t.fetched = append(t.fetched, [2]int{t.lo, t.lo})
	for _, r := range t.fetched { // from the end of the gradient to its beginning
		if r[1] < end {
			p.Fetch(p.Grad[r[1]:end])
			rest++
		}
		end = r[0]
	}
	for _, r := range t.fetched[:len(t.fetched)-1] {
		p.Fetched()
		t.sum.Ready(r[0]-t.lo, r[1]-t.lo)
	}
	for range rest {
		p.Fetched()
	}
}

// send starts the copy of a range of the summed gradient to a device.
func (t *trainState) send(lo, hi int) { t.params.Send(t.params.Grad[t.lo+lo : t.lo+hi]) }

// upload copies the parameters to the device, for a pass between updates, unless the device has them.
func (t *trainState) upload() {
	if !t.uploaded {
		t.params.Upload(t.params.Data)
		t.uploaded = true
	}
}

// A transfer is the method Upload or Download of nn.Params. Between updates, the newest parameters and moments are in
// the program's memory, where they are published, saved, restored and compared. During an update they are on the
// device, if there is one.
type transfer func(p *nn.Params[float32], x []float32)

// transfer transfers the parameters and the optimiser's moments.
func (t *trainState) transfer(to transfer) {
	t.uploaded = true // either way, both sides are equal afterwards
	for _, x := range [][]float32{t.params.Data[t.lo:t.hi], t.adam.m.F32(), t.adam.v.F32()} {
		to(t.params, x)
	}
}

// readyAt returns the callback by which a backward pass marks ranges of the gradient as final. It returns nil unless
// last is set, because only the last backward pass of a gradient makes ranges final. It also returns nil if the
// gradient stays on its device.
func (t *trainState) readyAt(last bool) func(lo, hi int) {
	if last && !t.stays {
		return t.ready
	}
	return nil
}

// step completes the sum of the gradient over the replicas, and makes an optimiser step.
func (t *trainState) step(iteration int) error {
	norm, err := t.sumGradient()
	if err != nil {
		return err
	}
	if t.beside != nil {
		other, err := t.beside.sumGradient()
		if err != nil {
			return err
		}
		norm = math.Hypot(norm, other)
		if err := t.beside.move(iteration, clipScale(norm, t.clip)); err != nil {
			return err
		}
	}
	t.norms += norm
	t.steps++
	return t.move(iteration, clipScale(norm, t.clip))
}

// move changes the parameters by the gradient times scale.
func (t *trainState) move(iteration int, scale float32) error {
	t.show(PhaseGradient, t.params.Grad)
	t.adam.step(iteration, scale, t.only)
	if t.shares != nil {
		if err := t.replicas.Gather(t.params.Data, t.shares); err != nil {
			return fmt.Errorf("gather parameters: %w", err)
		}
	}
	t.show(PhaseWeights, t.params.Data)
	return nil
}

// show shows data to the witness. data has the layout of the parameters.
func (t *trainState) show(phase string, data []float32) {
	if t.witness != nil {
		t.params.Download(data[t.lo:t.hi])
		t.witness.network(phase, t.params, data)
	}
}

// sumGradient completes the sum of the gradient over the replicas, and returns its norm.
func (t *trainState) sumGradient() (float64, error) {
	clear(t.norm.known)
	if t.sum == nil {
		t.begin()
	}
	if !t.stays {
		t.fetch()
	}
	err := t.sum.Wait(t.final)
	if t.sum = nil; err != nil {
		return 0, fmt.Errorf("sum gradients: %w", err)
	}
	squares, err := t.squares()
	if err != nil {
		return 0, err
	}
	if t.stays && squares-squares != 0 { // the sum is not finite: root names the tensor
		t.params.Download(t.params.Grad[t.lo:t.hi])
		t.params.Download(t.params.Data[t.lo:t.hi])
	}
	return root(squares, t.params)
}

// meanNorm returns the mean norm of the gradients since the last call, or None if there were none.
func (t *trainState) meanNorm() float64 {
	mean := quotient(t.norms, t.steps)
	t.norms, t.steps = 0, 0
	return mean
}

// save adds views of the optimiser's state to d, under the given prefix. If parameters is set, it also adds views of
// the parameters. The caller may write to them.
func (t *trainState) save(d *tensor.Dict, prefix string, parameters bool) {
	t.uploaded = false
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

// saveParams adds views of the fields and buffers of p to d, under the given prefix.
func saveParams(d *tensor.Dict, prefix string, p *nn.Params[float32]) {
	for i, f := range p.Fields {
		d.Set(prefix+"."+f.Name, tensor.FromF32(p.Of(i), f.Shape...))
	}
	for i := range p.Buffers.Len() {
		name, t := p.Buffers.Entry(i)
		d.Set(prefix+"."+name, t)
	}
}

// restore copies tensors of source into the tensors of state with the same names. The shapes must be the same.
func restore(state, source tensor.Dict) error {
	for i := range state.Len() {
		name, t := state.Entry(i)
		saved, ok := source.Get(name)
		if !ok {
			return fmt.Errorf("no %s", name)
		}
		if !saved.SameShape(t) {
			return fmt.Errorf("%s is %v, expected %v", name, saved, t)
		}
	}
	state.CopyFrom(source)
	return nil
}
