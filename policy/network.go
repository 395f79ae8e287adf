package policy

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// network is what an ActorCritic computes, without tensors and names: generic, so that its
// gradients can be checked in float64.
//
//	x → encoder → shared → actor trunk  → actor head  → distribution
//	                     → critic trunk → critic head → value
//
// Trunks that are not there are empty: they pass their input on. With a shared trunk the other two
// are empty, else the shared one is.
type network[T nn.Float] struct {
	params *nn.Params[T]

	encoder                 features[T] // nil: x is vectors, which pass as they are
	shared                  *nn.MLP[T]
	actorTrunk, criticTrunk *nn.MLP[T]
	actorHead, criticHead   *nn.Linear[T] // criticHead is nil without a critic
	dist                    distribution[T]
	distLo, distHi          int // the distribution's own parameters in the flat gradient

	dims   int // D of the distribution
	summed int // dimensions in one log-prob: L = D/summed
}

// newNetwork declares the parameters in params, in the order of the forward pass, for rows of obs.
// They have no memory yet.
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
	width := obs.vector
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
		n.dist = newCategorical[T](act.options)
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
		n.criticTrunk = nn.NewMLP(params, "critic", n.shared.Out, own, f)
		n.criticHead = nn.NewLinear(params, "critic.head", n.criticTrunk.Out, cfg.Values())
	}
	return n, nil
}

// init draws the initial parameters: orthogonal weights, and biases of 0. The gain is √2 in the
// trunks and 1 in the critic's head. It is 0.01 in the actor's head, so that the first policy
// hardly depends on what it sees (Andrychowicz et al. 2021, arXiv:2006.05990; "37 implementation
// details of PPO", Huang et al. 2022, detail 2).
func (n *network[T]) init(seed uint64) {
	if n.encoder != nil {
		n.encoder.Init(seed)
	}
	n.shared.Init(seed, math.Sqrt2)
	n.actorTrunk.Init(seed, math.Sqrt2)
	n.actorHead.Init(seed, 0.01)
	n.dist.Init()
	if n.criticHead != nil {
		n.criticTrunk.Init(seed, math.Sqrt2)
		n.criticHead.Init(seed, 1)
	}
}

// networkWork is the state of one user of a network.
type networkWork[T nn.Float] struct {
	encoder                         featuresWork[T]
	shared, actorTrunk, criticTrunk *nn.MLPWork[T]
	dist                            distributionWork[T]

	out, dOut, value         []T // of the heads
	logProb, entropy         []T // [n,L]
	dimLogProb, dimEntropy   []T // [n,D]; the same memory when L = D
	dDimLogProb, dDimEntropy []T // [n,D]
	zeros                    []T // [n,D], at least [n,1]
	scratch                  []T // for the heads' weights

	// what the last evaluate saw, for backward
	x        sight[T] // the observations
	e, h     []T      // what encoder and shared trunk made of them
	in       inputs[T]
	features []T // the inputs of the critic's head
	action   actions[T]

	dx []T // where backward leaves the derivative by x, of a network without trunks; nil: nobody asks
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
	if n.criticHead != nil {
		w.criticTrunk, w.value = n.criticTrunk.NewWork(maxRows), perRow(n.criticHead.Out)
	}
	return w
}

// forward chooses actions a for rows of x and leaves their log-probs in w.logProb, the values in
// w.value.
func (n *network[T]) forward(w *networkWork[T], x sight[T], rows int, a actions[T], mode Mode, noise Noise) {
	n.run(w, x, rows)
	w.dist.Choose(a, w.dimLogProb, w.in, mode, noise)
	n.sumDims(w.logProb, w.dimLogProb, rows)
}

// evaluate leaves log-probs, entropies and values in w, which keeps x and a for backward.
func (n *network[T]) evaluate(w *networkWork[T], x sight[T], rows int, a actions[T]) {
	n.run(w, x, rows)
	w.action = a
	w.dist.Evaluate(w.dimLogProb, w.dimEntropy, a, w.in)
	n.sumDims(w.logProb, w.dimLogProb, rows)
	n.sumDims(w.entropy, w.dimEntropy, rows)
}

// values leaves the values in w.
func (n *network[T]) values(w *networkWork[T], x sight[T], rows int) {
	n.look(w, x, rows)
	n.critic(w, rows)
}

// look computes what all heads build on.
func (n *network[T]) look(w *networkWork[T], x sight[T], rows int) {
	w.x, w.e = x, x.vector
	if n.encoder != nil {
		w.e = w.encoder.Forward(x, rows)
	}
	w.h = n.shared.Forward(w.shared, w.e, rows)
}

// run computes the outputs of the actor's head and the values.
func (n *network[T]) run(w *networkWork[T], x sight[T], rows int) {
	n.look(w, x, rows)
	features := n.actorTrunk.Forward(w.actorTrunk, w.h, rows)
	n.actorHead.Forward(w.out, features, rows)
	w.in = inputs[T]{n: rows, out: w.out, features: features, mask: x.mask}
	if n.criticHead != nil {
		n.critic(w, rows)
	}
}

func (n *network[T]) critic(w *networkWork[T], rows int) {
	w.features = n.criticTrunk.Forward(w.criticTrunk, w.h, rows)
	n.criticHead.Forward(w.value, w.features, rows)
}

// backward adds the gradients of a loss, given its derivatives by what the last evaluate left; nil
// is zero. It works down the parameters in the opposite order of their declaration, so the ranges
// that it reports as ready go down without a gap.
func (n *network[T]) backward(w *networkWork[T], dLogProb, dEntropy, dValue []T, ready func(lo, hi int)) {
	rows := w.in.n
	dh := n.shared.OutGrad(w.shared, rows) // nil without a shared trunk
	de, dActor := w.dx, []T(nil)           // by the features of the encoder, or by x; the part of the actor's own trunk
	if n.encoder != nil {
		de, dActor = w.encoder.OutGrad(rows)
	}
	if dh == nil {
		dh = de
	}
	if n.criticHead != nil {
		if dValue == nil {
			dValue = w.zeros
		}
		n.criticHead.Backward(below(n.criticTrunk, w.criticTrunk, dh, rows), w.features, dValue, rows, false, w.scratch)
		if ready != nil {
			ready(n.criticHead.Range())
		}
		n.criticTrunk.Backward(w.criticTrunk, dh, w.e, rows, ready)
	} else {
		dActor = dh
	}

	w.dist.Backward(w.dOut, n.spread(w.dDimLogProb, dLogProb, w.zeros, rows),
		n.spread(w.dDimEntropy, dEntropy, w.zeros, rows),
		w.action, w.in)
	dFeatures := below(n.actorTrunk, w.actorTrunk, dh, rows)
	added := n.actorTrunk.Empty() && n.criticHead != nil // dh holds the critic's part already
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
	if !n.actorTrunk.Empty() && n.criticHead != nil {
		kernel.Axpy(de, 1, dActor)
	}
	w.encoder.Backward(w.x, rows, ready)
}

// below returns where a head leaves the derivative by its input: with its trunk, or with the shared
// one where it has none.
func below[T nn.Float](trunk *nn.MLP[T], w *nn.MLPWork[T], shared []T, rows int) []T {
	if trunk.Empty() {
		return shared
	}
	return trunk.OutGrad(w, rows)
}

// sumDims sets dst, [n,L], to the sums over the dimensions of each log-prob in src, [n,D]; nothing
// is to be done when they are one.
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

// spread is sumDims backwards: the derivatives by the dimensions, [n,D], from those by their sums,
// [n,L]; nil is zeros.
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
