package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// A network is the computation of an ActorCritic, on plain slices instead of named tensors. The type is generic so that
// tests can check gradients in float64.
//
//	x → front → actor trunk → actor head → distribution
//	          → critic → value
//
// The front has the encoder and the recurrent layer, if there are any. With Config.ShareTrunk, it also has all hidden
// layers. Otherwise actor trunk and critic have hidden layers of their own.
type network[T nn.Float] struct {
	params *nn.Params[T]

	front          *nn.Net[T] // nil if the next layers read x
	actorTrunk     *nn.Net[T] // nil if the head reads the output of the front
	actorHead      *nn.Linear[T]
	critic         *nn.Net[T] // nil if there is none
	dist           distribution[T]
	distLo, distHi int // range of the distribution's own parameters in the flat gradient

	numbers int // in a row of x
	dims    int // D of the distribution
	summed  int // dimensions in one log-prob: L = D/summed
}

// newNetwork declares the parameters in params, in the order of the forward pass. obs is the shape of observations.
// Params.Alloc allocates the parameters.
func newNetwork[T nn.Float](cfg Config, act actionShape, params *nn.Params[T], obs obsShape) (*network[T], error) {
	n := &network[T]{params: params, numbers: obs.numbers, dims: act.dims, summed: act.summed}
	hidden := cfg.hidden()
	width, err := n.addFront(cfg, obs)
	if err != nil {
		return nil, err
	}
	if cfg.ShareTrunk {
		hidden = nil
	}
	params.Group("actor")
	features := width
	if len(hidden) > 0 {
		n.actorTrunk = nn.NewStack(params, "actor", width, hidden...)
		features = n.actorTrunk.Out
	}
	first := len(params.Fields)
	switch {
	case act.options != nil:
		n.dist = newCategorical(params, act.options)
	case cfg.UseSDE:
		n.dist = newSDE(params, "actor", features, act.dims, cfg.InitLogStd, cfg.SDESampleFreq, cfg.SDELearnFeatures)
	case !cfg.IndependentStd:
		n.dist = newHeteroscedastic[T](act.dims, cfg.InitLogStd, cfg.LearnStd)
	default:
		n.dist = newGaussian(params, "actor", act.dims, cfg.InitLogStd, cfg.LearnStd)
	}
	if last := len(params.Fields) - 1; last >= first {
		n.distLo, n.distHi = params.Range(first, last)
	}
	n.actorHead = nn.NewLinear(params, "actor.head", features, n.dist.Outputs())
	if cfg.AddValueHead {
		params.Group("critic")
		n.critic = nn.NewStack(params, "critic", width, append(hidden, head(cfg.Values(), 1))...)
	}
	return n, nil
}

// addFront declares the layers that actor and critic share, in the group "shared". It returns the width of their
// output.
func (n *network[T]) addFront(cfg Config, obs obsShape) (int, error) {
	var shared []nn.Layer
	if cfg.ShareTrunk {
		shared = cfg.hidden()
	}
	if cfg.ModelType == rnnPolicy {
		shared = append(shared, cfg.recurrent().Named("rnn"))
	}
	if len(shared) == 0 && obs.encoder == nil {
		return obs.numbers, nil
	}
	n.params.Group("shared")
	parts, sources := obs.input()
	if len(shared) > 0 {
		parts = append(parts, nn.Sequence(shared...).Named("shared"))
	}
	var err error
	if n.front, err = nn.NewNet(n.params, "", nn.Sequence(parts...), sources); err != nil {
		return 0, fmt.Errorf("network encoder: %w", err)
	}
	return n.front.Out, nil
}

// head describes an output layer.
func head(width int, gain float64) nn.Layer { return nn.Dense(width).Named("head").Gain(gain) }

// init draws the initial parameters: orthogonal weights, and biases of 0. The gain is √2 in the trunks and 1 in the
// critic's head. It is 0.01 in the actor's head, so that the initial policy hardly depends on the observation
// (Andrychowicz et al. 2021, arXiv:2006.05990; "37 implementation details of PPO", Huang et al. 2022, detail 2).
func (n *network[T]) init(seed uint64) {
	for _, net := range []*nn.Net[T]{n.front, n.actorTrunk, n.critic} {
		if net != nil {
			net.Init(seed)
		}
	}
	n.actorHead.Init(seed, 0.01)
	n.dist.Init()
}

// networkWork is the state of one user of a network.
type networkWork[T nn.Float] struct {
	front, actorTrunk, critic *nn.NetWork[T]
	dist                      distributionWork[T]

	out, dOut                []T // of the actor's head
	value                    []T // [n,V]
	logProb, entropy         []T // [n,L]
	dimLogProb, dimEntropy   []T // [n,D]; the same memory as logProb and entropy if L = D
	dDimLogProb, dDimEntropy []T // [n,D]
	zeros                    []T // [n,D]
	scratch                  []T // for the weights of the actor's head
	dActor                   []T // the actor's term of the gradient of h

	input []T // mirror of the numbers of x

	// The inputs and results of the last evaluate, for backward.
	x      batch[T]
	h      []T // the output of the front
	in     inputs[T]
	action actions[T]
}

func (n *network[T]) newWork(maxRows int) *networkWork[T] {
	perRow := func(width int) []T { return nn.Vector[T](maxRows * width) }
	shared := func(width int) []T { return n.params.Shared(maxRows * width) }
	w := &networkWork[T]{
		dist: n.dist.NewWork(maxRows), out: shared(n.dist.Outputs()), dOut: shared(n.dist.Outputs()),
		logProb: perRow(n.dims / n.summed), entropy: perRow(n.dims / n.summed),
		zeros: perRow(n.dims), input: n.params.Mirror(maxRows * n.numbers),
		scratch: n.params.Vector(n.actorHead.In * max(1, n.actorHead.Out)),
	}
	w.dimLogProb, w.dimEntropy = w.logProb, w.entropy
	if n.summed > 1 {
		w.dimLogProb, w.dimEntropy = perRow(n.dims), perRow(n.dims)
		w.dDimLogProb, w.dDimEntropy = perRow(n.dims), perRow(n.dims)
	}
	if n.front != nil {
		w.front, w.dActor = n.front.NewWork(maxRows), n.params.Vector(maxRows*n.front.Out)
	}
	if n.actorTrunk != nil {
		w.actorTrunk = n.actorTrunk.NewWork(maxRows)
	}
	if n.critic != nil {
		w.critic, w.value = n.critic.NewWork(maxRows), shared(n.critic.Out)
	}
	return w
}

// forward writes actions for the rows of x to dst, and sets w.logProb and w.value.
func (n *network[T]) forward(w *networkWork[T], x *batch[T], dst actions[T], mode Mode, noise Noise) {
	n.run(w, x)
	w.dist.Choose(dst, w.dimLogProb, w.in, mode, noise)
	n.sumDims(w.logProb, w.dimLogProb, x.Rows)
}

// evaluate sets w.logProb, w.entropy and w.value, and keeps x and action for backward.
func (n *network[T]) evaluate(w *networkWork[T], x *batch[T], action actions[T]) {
	n.run(w, x)
	w.action = action
	w.dist.Evaluate(w.dimLogProb, w.dimEntropy, action, w.in)
	n.sumDims(w.logProb, w.dimLogProb, x.Rows)
	n.sumDims(w.entropy, w.dimEntropy, x.Rows)
}

// values sets w.value, if there is a critic.
func (n *network[T]) values(w *networkWork[T], x *batch[T]) {
	n.runFront(w, x)
	n.runCritic(w)
}

// run computes the outputs of the actor's head, and the values.
func (n *network[T]) run(w *networkWork[T], x *batch[T]) {
	n.runFront(w, x)
	features := w.h
	if n.actorTrunk != nil {
		features = n.actorTrunk.Forward(w.actorTrunk, w.rows())
	}
	n.actorHead.Forward(w.out, features, x.Rows)
	n.params.Download(w.out[:x.Rows*n.dist.Outputs()])
	w.in = inputs[T]{n: x.Rows, out: w.out, features: features, mask: x.mask}
	n.runCritic(w)
}

// runFront computes the inputs of actor and critic.
func (n *network[T]) runFront(w *networkWork[T], x *batch[T]) {
	w.x = *x
	w.x.Numbers = n.params.Import(w.input, x.Numbers)
	if w.h = w.x.Numbers; n.front != nil {
		w.h = n.front.Forward(w.front, w.x.Batch)
	}
}

// rows returns the inputs of actor and critic.
func (w *networkWork[T]) rows() nn.Batch[T] { return nn.Batch[T]{Rows: w.x.Rows, Numbers: w.h} }

func (n *network[T]) runCritic(w *networkWork[T]) {
	if n.critic != nil {
		y := n.critic.Forward(w.critic, w.rows())
		n.params.Ops().CopyColumns(w.value, len(y), y, len(y), len(y), 1)
		n.params.Download(w.value[:len(y)])
	}
}

// backward adds the gradients of a loss. The arguments are the gradients of the loss with respect to the results of the
// last evaluate; nil stands for zeros. backward calls ready for ranges from the end of the flat gradient to its
// beginning, without gaps.
func (n *network[T]) backward(w *networkWork[T], dLogProb, dEntropy, dValue []T, ready func(lo, hi int)) {
	rows := w.x.Rows
	var dh, dActor []T // the gradient of the output of the front, and the actor's term of it
	if n.front != nil {
		dh = n.front.OutGrad(w.front)
		dActor = dh
	}
	if n.critic != nil {
		dOut := n.critic.OutGrad(w.critic)
		clear(dOut)
		copy(dOut, dValue)
		n.params.Upload(dOut)
		n.critic.Backward(w.critic, dh, ready)
		dActor = w.dActor[:len(dh)]
	}

	w.dist.Backward(w.dOut, n.spread(w.dDimLogProb, dLogProb, w.zeros, rows),
		n.spread(w.dDimEntropy, dEntropy, w.zeros, rows), w.action, w.in)
	n.params.Upload(w.dOut[:rows*n.dist.Outputs()])
	dFeatures, added := dh, n.critic != nil // if dh already has the critic's term, the head adds its own
	if n.actorTrunk != nil {
		dFeatures, added = n.actorTrunk.OutGrad(w.actorTrunk), false
	}
	n.actorHead.Backward(dFeatures, w.in.features, w.dOut, rows, added, w.scratch)
	if dFeatures != nil {
		w.dist.BackwardFeatures(dFeatures, w.in)
	}
	if ready != nil {
		ready(n.actorHead.Range())
		if n.distHi > n.distLo {
			ready(n.distLo, n.distHi)
		}
	}
	if n.actorTrunk != nil {
		n.actorTrunk.Backward(w.actorTrunk, dActor, ready)
		if dh != nil && n.critic != nil {
			n.params.Ops().Axpy(dh, 1, dActor)
		}
	}
	if n.front != nil {
		n.front.Backward(w.front, nil, ready)
	}
}

// sumDims sets dst, [n,L], to the sums of src, [n,D], over the dimensions of each log-prob. If L = D, sumDims does
// nothing, because dst is src.
func (n *network[T]) sumDims(dst, src []T, rows int) {
	if n.summed == 1 {
		return
	}
	for i := range rows * n.dims / n.summed {
		var s T
		for _, v := range src[i*n.summed : (i+1)*n.summed] {
			s += v
		}
		dst[i] = s
	}
}

// spread is the backward pass of sumDims. src, [n,L], is the gradient with respect to the sums. spread returns the
// gradient with respect to the dimensions, [n,D]. If src is nil, spread returns zeros.
func (n *network[T]) spread(dst, src, zeros []T, rows int) []T {
	switch {
	case src == nil:
		return zeros
	case n.summed == 1:
		return src
	}
	for i, v := range src[:rows*n.dims/n.summed] {
		fill(dst[i*n.summed:(i+1)*n.summed], v)
	}
	return dst
}
