package policy

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// A network is the computation of an ActorCritic, on plain slices instead of named tensors. The type is generic so that
// tests can check gradients in float64.
//
//	x → encoder → shared → actor trunk → actor head → distribution
//	                     → critic → value
//
// With Config.ShareTrunk all hidden layers are in the shared MLP. Otherwise actor trunk and critic have hidden layers
// of their own, and the shared MLP is empty: its output is its input.
type network[T nn.Float] struct {
	params *nn.Params[T]

	encoder        features[T] // nil if x has only numbers, which the next layer reads
	shared         *nn.MLP[T]
	actorTrunk     *nn.MLP[T]
	actorHead      *nn.Linear[T]
	critic         *nn.MLP[T] // nil if there is none
	dist           distribution[T]
	distLo, distHi int // range of the distribution's own parameters in the flat gradient

	dims   int // D of the distribution
	summed int // dimensions in one log-prob: L = D/summed
}

// newNetwork declares the parameters in params, in the order of the forward pass. obs is the shape of observations.
// Params.Alloc allocates the parameters.
func newNetwork[T nn.Float](cfg Config, act actionShape, params *nn.Params[T], obs obsShape) (*network[T], error) {
	f, _ := cfg.activation()
	var shared, own []int
	if cfg.ShareTrunk {
		shared = cfg.HiddenSizes
	} else {
		own = cfg.HiddenSizes
	}
	n := &network[T]{params: params, dims: act.dims, summed: act.summed}
	if len(shared) > 0 || obs.encoded() {
		params.Group("shared")
	}
	width := obs.numbers
	if obs.encoded() {
		var err error
		if n.encoder, err = newFeatures(cfg, params, obs); err != nil {
			return nil, err
		}
		width = n.encoder.Width()
	}
	n.shared = nn.NewMLP(params, "shared", width, shared, f)
	params.Group("actor")
	n.actorTrunk = nn.NewMLP(params, "actor", n.shared.Out, own, f)
	first := len(params.Fields)
	switch {
	case act.options != nil:
		n.dist = newCategorical(params, act.options)
	case cfg.UseSDE:
		n.dist = newSDE(params, "actor", n.actorTrunk.Out, act.dims, cfg.InitLogStd, cfg.SDESampleFreq,
			cfg.SDELearnFeatures)
	case !cfg.IndependentStd:
		n.dist = newHeteroscedastic[T](act.dims, cfg.InitLogStd, cfg.LearnStd)
	default:
		n.dist = newGaussian(params, "actor", act.dims, cfg.InitLogStd, cfg.LearnStd)
	}
	if last := len(params.Fields) - 1; last >= first {
		n.distLo, n.distHi = params.Range(first, last)
	}
	n.actorHead = nn.NewLinear(params, "actor.head", n.actorTrunk.Out, n.dist.Outputs())
	if cfg.AddValueHead {
		params.Group("critic")
		n.critic = nn.NewMLP(params, "critic", n.shared.Out, own, f).AddHead(params, "critic", cfg.Values(), 1)
	}
	return n, nil
}

// init draws the initial parameters: orthogonal weights, and biases of 0. The gain is √2 in the trunks and 1 in the
// critic's head. It is 0.01 in the actor's head, so that the initial policy hardly depends on the observation
// (Andrychowicz et al. 2021, arXiv:2006.05990; "37 implementation details of PPO", Huang et al. 2022, detail 2).
func (n *network[T]) init(seed uint64) {
	if n.encoder != nil {
		n.encoder.Init(seed)
	}
	n.shared.Init(seed, math.Sqrt2)
	n.actorTrunk.Init(seed, math.Sqrt2)
	n.actorHead.Init(seed, 0.01)
	n.dist.Init()
	if n.critic != nil {
		n.critic.Init(seed, math.Sqrt2)
	}
}

// networkWork is the state of one user of a network.
type networkWork[T nn.Float] struct {
	encoder                    featuresWork[T]
	shared, actorTrunk, critic *nn.MLPWork[T]
	dist                       distributionWork[T]

	out, dOut                []T // of the actor's head
	value                    []T // [n,V]
	logProb, entropy         []T // [n,L]
	dimLogProb, dimEntropy   []T // [n,D]; the same memory as logProb and entropy if L = D
	dDimLogProb, dDimEntropy []T // [n,D]
	zeros                    []T // [n,D]
	scratch                  []T // for the weights of the actor's head

	// inputs and results of the last evaluate, for backward
	x      batch[T]
	e, h   []T // the outputs of the encoder and the shared MLP
	in     inputs[T]
	action actions[T]

	dx []T // memory for the gradient with respect to x, in a network without trunks; nil if not needed
}

func (n *network[T]) newWork(maxRows int) *networkWork[T] {
	perRow := func(width int) []T { return nn.Vector[T](maxRows * width) }
	w := &networkWork[T]{
		shared: n.shared.NewWork(maxRows), actorTrunk: n.actorTrunk.NewWork(maxRows), dist: n.dist.NewWork(maxRows),
		out: perRow(n.dist.Outputs()), dOut: perRow(n.dist.Outputs()),
		logProb: perRow(n.dims / n.summed), entropy: perRow(n.dims / n.summed),
		zeros:   perRow(n.dims),
		scratch: nn.Vector[T](n.actorHead.In * max(1, n.actorHead.Out)),
	}
	if n.encoder != nil {
		w.encoder = n.encoder.NewWork(maxRows)
	}
	w.dimLogProb, w.dimEntropy = w.logProb, w.entropy
	if n.summed > 1 {
		w.dimLogProb, w.dimEntropy = perRow(n.dims), perRow(n.dims)
		w.dDimLogProb, w.dDimEntropy = perRow(n.dims), perRow(n.dims)
	}
	if n.critic != nil {
		w.critic, w.value = n.critic.NewWork(maxRows), perRow(n.critic.Out)
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
	n.runShared(w, x)
	n.runCritic(w)
}

// run computes the outputs of the actor's head, and the values.
func (n *network[T]) run(w *networkWork[T], x *batch[T]) {
	n.runShared(w, x)
	features := n.actorTrunk.Forward(w.actorTrunk, w.h, x.Rows)
	n.actorHead.Forward(w.out, features, x.Rows)
	w.in = inputs[T]{n: x.Rows, out: w.out, features: features, mask: x.mask}
	n.runCritic(w)
}

// runShared computes the inputs of actor and critic.
func (n *network[T]) runShared(w *networkWork[T], x *batch[T]) {
	w.x, w.e = *x, x.Numbers
	if n.encoder != nil {
		w.e = w.encoder.Forward(*x)
	}
	w.h = n.shared.Forward(w.shared, w.e, x.Rows)
}

func (n *network[T]) runCritic(w *networkWork[T]) {
	if n.critic != nil {
		copy(w.value, n.critic.Forward(w.critic, w.h, w.x.Rows))
	}
}

// backward adds the gradients of a loss. The arguments are the gradients of the loss with respect to the results of the
// last evaluate; nil stands for zeros. backward calls ready for ranges from the end of the flat gradient to its
// beginning, without gaps.
func (n *network[T]) backward(w *networkWork[T], dLogProb, dEntropy, dValue []T, ready func(lo, hi int)) {
	rows := w.x.Rows
	dh := n.shared.OutGrad(w.shared, rows) // nil without a shared trunk
	de, dActor := w.dx, []T(nil)           // de is the gradient with respect to w.e; dActor is the actor's term of de
	if n.encoder != nil {
		de, dActor = w.encoder.OutGrad(rows)
	}
	if dh == nil {
		dh = de
	}
	if n.critic != nil {
		dOut := n.critic.OutGrad(w.critic, rows)
		clear(dOut)
		copy(dOut, dValue)
		n.critic.Backward(w.critic, dh, w.h, rows, ready)
	} else {
		dActor = dh
	}

	w.dist.Backward(w.dOut, n.spread(w.dDimLogProb, dLogProb, w.zeros, rows),
		n.spread(w.dDimEntropy, dEntropy, w.zeros, rows), w.action, w.in)
	dFeatures, added := n.actorTrunk.OutGrad(w.actorTrunk, rows), false
	if n.actorTrunk.Empty() {
		dFeatures, added = dh, n.critic != nil // the critic's term is in dh
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
	n.actorTrunk.Backward(w.actorTrunk, dActor, w.e, rows, ready)
	n.shared.Backward(w.shared, de, w.e, rows, ready)
	if n.encoder == nil {
		return
	}
	if !n.actorTrunk.Empty() && n.critic != nil {
		n.params.Ops().Axpy(de, 1, dActor)
	}
	w.encoder.Backward(w.x, ready)
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

// spread is the backward pass of sumDims. It takes src, [n,L], the gradient with respect to the sums, and returns the
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
