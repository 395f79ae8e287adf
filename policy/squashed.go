package policy

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// squashed is the actor of soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905, appendix C): D numbers in (-1,
// 1), each of them the tanh of a normally distributed number. The mean and deviation of this number depend on the
// observation. For the outputs μ and z of a dimension, and ε from the standard normal distribution,
//
//	log σ = lo + (hi - lo)(tanh z + 1)/2,    u = μ + σε,    a = tanh u
//	log p(a) = log N(ε) - log σ - log(1 - a²),    log(1 - tanh² u) = 2 (log 2 - u - softplus(-2u))
//
// If clipped is set, log σ is z instead, within log 1e-5 and log 5, as in RLinf's cnn_policy.
//
// For a given ε, the action a and its log-prob are differentiable functions of the parameters. backward takes the
// gradients with respect to the action and the log-prob in one call.
//
// With Config.ExplorationNoise, squashed is the actor of TD3. The outputs are then u. Mode Sample adds normal noise
// with the standard deviation Config.ExplorationNoise to the action a, and clips the sum to ±1. All log-probs are 0.
type squashed[T nn.Float] struct {
	params  *nn.Params[T]
	net     *nn.Net[T] // its outputs are the means, then z of each dimension
	width   int        // of a row of its input
	dims    int        // D
	initial float64
	noise   T // ExplorationNoise; if 0, actions are drawn from the normal distribution
	clipped bool
}

// The bounds of log σ.
const (
	minLogStd = -5.0
	maxLogStd = 2.0
	halfRange = (maxLogStd - minLogStd) / 2
)

// The bounds of log σ if it is clipped.
var leastLogStd, mostLogStd = math.Log(1e-5), math.Log(5)

// newSquashed declares the parameters in the group "actor" of params. Observations have width elements. Params.Alloc
// allocates the parameters.
func newSquashed[T nn.Float](cfg Config, dims int, params *nn.Params[T], width int) *squashed[T] {
	params.Group(ActorGroup)
	outputs := 2 * dims
	if cfg.ExplorationNoise > 0 {
		outputs = dims
	}
	layers := append(cfg.valueTrunk(cfg.Frozen != ""), head(outputs, 0.01))
	return &squashed[T]{
		params: params, net: nn.NewStack(params, "actor", width, layers...), width: width,
		dims: dims, initial: cfg.InitLogStd, noise: T(cfg.ExplorationNoise), clipped: cfg.Frozen != "",
	}
}

// init draws the initial parameters. For all observations, means are near 0, and deviations are near exp(initial).
func (s *squashed[T]) init(seed uint64) {
	s.net.Init(seed)
	if s.noise > 0 {
		return
	}
	initial := min(max(s.initial, minLogStd+0.01), maxLogStd-0.01)
	bias := s.params.Of(len(s.params.Fields) - 1) // of the head
	if s.clipped {
		fill(bias[s.dims:], T(s.initial))
		return
	}
	fill(bias[s.dims:], T(math.Atanh(2*(initial-minLogStd)/(maxLogStd-minLogStd)-1)))
}

// A squashedWork is the state of one user of a squashed, after forward or evaluate of n rows.
type squashedWork[T nn.Float] struct {
	net               *nn.NetWork[T]
	n                 int
	out               []T // [n,2D]
	u, a, zt, std, se []T // [n,D]: u, tanh u, tanh z, σ, σε; after evaluate se is ε. If clipped, zt is ∂log σ/∂z
	logProb           []T // [n]
	scratch           []T
	input, results    []T // mirrors of x and out
}

func (s *squashed[T]) newWork(maxRows int) *squashedWork[T] {
	per := func(width int) []T { return nn.Vector[T](maxRows * width) }
	d := s.dims
	return &squashedWork[T]{
		net: s.net.NewWork(maxRows), u: per(d), a: per(d), zt: per(d), std: per(d), se: per(d), logProb: per(1),
		scratch: per(d), input: s.params.Mirror(maxRows * s.width), results: s.params.Mirror(maxRows * s.net.Out),
	}
}

// forward sets w.a to actions and w.logProb to their log-probs. In mode Deterministic, ε is 0. If batch is true, layers
// that normalise use the statistics of x.
func (s *squashed[T]) forward(w *squashedWork[T], x []T, n int, mode Mode, noise Noise, batch bool) {
	s.outputs(w, x, n, batch)
	if s.noise > 0 {
		s.forwardNoisy(w, n, mode, noise)
		return
	}
	d := s.dims
	u, a, std, se := w.u[:n*d], w.a[:n*d], w.std[:n*d], w.se[:n*d]
	logStd := s.moments(w)
	clear(se)
	for row := range n {
		var sum T
		if mode == Sample {
			random := noise.Stream(row)
			Normals(se[row*d:(row+1)*d], &random)
		}
		for i := row * d; i < (row+1)*d; i++ {
			sum -= se[i]*se[i]/2 + logStd[i] + halfLog2Pi
			se[i] *= std[i]
			u[i] += se[i]
		}
		w.logProb[row] = sum
	}
	s.params.Host().Activate(nn.Tanh, a, u)
	s.addCorrection(w)
}

// evaluate sets w.logProb to the log-probs of the actions a, [n,D] in [-1, 1]. It moves actions at ±1 slightly inward.
func (s *squashed[T]) evaluate(w *squashedWork[T], x, a []T, n int) {
	s.outputs(w, x, n, false)
	logStd := s.moments(w)
	for row := range n {
		var sum T
		for i := row * s.dims; i < (row+1)*s.dims; i++ {
			u := T(math.Atanh(min(max(float64(a[i]), -maxUnit), maxUnit)))
			e := (u - w.u[i]) / w.std[i]
			w.u[i], w.se[i] = u, e
			sum += normalLogProb(e, logStd[i])
		}
		w.logProb[row] = sum
	}
	s.addCorrection(w)
}

// maxUnit is the largest action with a log-prob, about tanh 7.25. Larger actions get the log-prob of maxUnit.
const maxUnit = 1 - 1e-6

// outputs computes the outputs of the network.
func (s *squashed[T]) outputs(w *squashedWork[T], x []T, n int, batch bool) {
	w.n = n
	x = s.params.Import(w.input, x[:n*s.width])
	w.out = s.params.Export(w.results, s.net.Forward(w.net, nn.Batch[T]{Rows: n, Numbers: x, Renorm: batch}))
}

// moments sets w.u to μ, w.zt to tanh z and w.std to σ, from the outputs of the network. It returns log σ in w.scratch.
func (s *squashed[T]) moments(w *squashedWork[T]) (logStd []T) {
	n, d := w.n, s.dims
	u, zt := w.u[:n*d], w.zt[:n*d]
	o := s.params.Host()
	o.CopyColumns(u, d, w.out, 2*d, d, n)
	o.CopyColumns(zt, d, w.out[d:], 2*d, d, n)
	logStd = w.scratch[:n*d]
	if s.clipped {
		for i, z := range zt {
			logStd[i], zt[i] = min(max(z, T(leastLogStd)), T(mostLogStd)), 1
			if logStd[i] != z {
				zt[i] = 0
			}
		}
	} else {
		o.Activate(nn.Tanh, zt, zt)
		for i, t := range zt {
			logStd[i] = minLogStd + halfRange*(t+1)
		}
	}
	o.Exp(w.std[:n*d], logStd)
	return logStd
}

// forwardNoisy is forward for an actor with ExplorationNoise.
func (s *squashed[T]) forwardNoisy(w *squashedWork[T], n int, mode Mode, noise Noise) {
	d := s.dims
	s.params.Host().Activate(nn.Tanh, w.a[:n*d], w.out[:n*d])
	clear(w.logProb[:n])
	if mode != Sample {
		return
	}
	for row := range n {
		a, eps := w.a[row*d:(row+1)*d], w.se[row*d:(row+1)*d]
		random := noise.Stream(row)
		Normals(eps, &random)
		for k, e := range eps {
			a[k] = min(max(a[k]+s.noise*e, -1), 1)
		}
	}
}

// addCorrection subtracts log(1 - a²) from the log-probs. It computes this logarithm as
// 2 (log 2 - |u| - log(1 + exp(-2|u|))). This is finite for every u.
func (s *squashed[T]) addCorrection(w *squashedWork[T]) {
	n := w.n * s.dims
	e := w.scratch[:n]
	for i, u := range w.u[:n] {
		e[i] = -2 * max(u, -u)
	}
	s.params.Host().Exp(e, e)
	for i := range e {
		e[i]++
	}
	s.params.Host().Log(e, e)
	for i, u := range w.u[:n] {
		w.logProb[i/s.dims] -= 2 * (math.Ln2 - max(u, -u) - e[i])
	}
}

// backward adds the gradients of a loss. dAction, [n,D], and dLogProb, [n], are the gradients of the loss with respect
// to the results of the last forward; nil stands for zeros. With ExplorationNoise the last forward must have mode
// Deterministic, and dAction must not be nil. Unless dx, [n,width], is nil, backward sets it to the gradient with
// respect to the rows. backward calls ready for ranges from the end of the flat gradient to its beginning. With t =
// tanh z and δ = ∂L/∂a (1 - a²) + ∂L/∂log p · 2a,
//
//	∂L/∂μ = δ,    ∂L/∂z = (δ σε - ∂L/∂log p) (hi - lo)/2 (1 - t²)
func (s *squashed[T]) backward(w *squashedWork[T], dAction, dLogProb, dx []T, ready func(lo, hi int)) {
	d, dOut := s.dims, s.net.OutGrad(w.net)
	if s.noise > 0 {
		for i, g := range dAction[:w.n*d] {
			dOut[i] = g * (1 - w.a[i]*w.a[i])
		}
		s.params.Upload(dOut)
		s.net.Backward(w.net, dx, ready)
		return
	}
	for row := range w.n {
		var dl T
		if dLogProb != nil {
			dl = dLogProb[row]
		}
		out := dOut[2*row*d : 2*(row+1)*d]
		for k := range d {
			i := row*d + k
			du := dl * 2 * w.a[i]
			if dAction != nil {
				du += dAction[i] * (1 - w.a[i]*w.a[i])
			}
			out[k] = du
			out[d+k] = s.throughLogStd(du*w.se[i]-dl, w.zt[i])
		}
	}
	s.params.Upload(dOut)
	s.net.Backward(w.net, dx, ready)
}

// throughLogStd returns the gradient with respect to z, for the gradient g with respect to log σ. zt is from moments.
func (s *squashed[T]) throughLogStd(g, zt T) T {
	if s.clipped {
		return g * zt
	}
	return g * halfRange * (1 - zt*zt)
}

// backwardEvaluate adds the gradients of a loss. dLogProb, [n], is the gradient of the loss with respect to the
// log-probs of the last evaluate. The method backward describes dx and ready. With ε = (u - μ)/σ,
//
//	∂ log p / ∂μ = ε/σ,    ∂ log p / ∂ log σ = ε² - 1
func (s *squashed[T]) backwardEvaluate(w *squashedWork[T], dLogProb, dx []T, ready func(lo, hi int)) {
	d, dOut := s.dims, s.net.OutGrad(w.net)
	for row := range w.n {
		out := dOut[2*row*d : 2*(row+1)*d]
		for k := range d {
			i := row*d + k
			e := w.se[i]
			out[k] = dLogProb[row] * e / w.std[i]
			out[d+k] = s.throughLogStd(dLogProb[row]*(e*e-1), w.zt[i])
		}
	}
	s.params.Upload(dOut)
	s.net.Backward(w.net, dx, ready)
}
