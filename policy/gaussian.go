package policy

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// gaussian is the distribution of D independent normal dimensions. The head's outputs are the means. The log standard
// deviations are parameters, the same for every observation (Schulman et al. 2015, arXiv:1502.05477, appendix D).
// Actions are not squashed. The stored action is the drawn action, even if Act.Feed clips it for the environment.
type gaussian[T nn.Float] struct {
	p       *nn.Params[T]
	logStd  int // field of p, [D]
	dims    int
	initial float64
	learn   bool // whether the log standard deviations are trained
}

func newGaussian[T nn.Float](p *nn.Params[T], name string, dims int, initial float64, learn bool) *gaussian[T] {
	return &gaussian[T]{p: p, logStd: p.Add(name+".log_std", dims), dims: dims, initial: initial, learn: learn}
}

var _ distribution[float32] = (*gaussian[float32])(nil)

func (g *gaussian[T]) Outputs() int { return g.dims }

func (g *gaussian[T]) Init() { fill(g.p.Of(g.logStd), T(g.initial)) }

func (g *gaussian[T]) NewWork(maxRows int) distributionWork[T] {
	return &gaussianWork[T]{
		gaussian: g,
		std:      make([]T, g.dims),
		u:        nn.Vector[T](maxRows * g.dims),
		dLogStd:  make([]float64, g.dims),
	}
}

type gaussianWork[T nn.Float] struct {
	*gaussian[T]
	std     []T       // [D]
	u       []T       // [n,D]: (a - μ)/σ
	dLogStd []float64 // [D]
}

func (w *gaussianWork[T]) Choose(a actions[T], logProb []T, in inputs[T], mode Mode, noise Noise) {
	copy(a.box, in.out[:in.n*w.dims])
	w.deviations()
	if mode == Sample {
		addNoise(a.box[:in.n*w.dims], w.std, w.dims, noise)
	}
	w.logProbs(logProb, a, in)
}

func (w *gaussianWork[T]) Evaluate(logProb, entropy []T, a actions[T], in inputs[T]) {
	w.deviations()
	w.logProbs(logProb, a, in)
	for k, l := range w.p.Of(w.logStd) {
		h := normalEntropy(l)
		for i := k; i < in.n*w.dims; i += w.dims {
			entropy[i] = h
		}
	}
}

// Backward uses, with u = (a - μ)/σ:
//
//	∂ log p / ∂μ = u/σ,    ∂ log p / ∂ log σ = u² - 1,    ∂H / ∂ log σ = 1
func (w *gaussianWork[T]) Backward(dOut, dLogProb, dEntropy []T, _ actions[T], in inputs[T]) {
	clear(w.dLogStd)
	i := 0
	for range in.n {
		for k := range w.dims {
			u, dl := w.u[i], dLogProb[i]
			dOut[i] = dl * u / w.std[k]
			w.dLogStd[k] += float64(dl*(u*u-1) + dEntropy[i])
			i++
		}
	}
	if !w.learn {
		return
	}
	grad := w.p.GradOf(w.logStd)
	w.p.Download(grad)
	for k, d := range w.dLogStd {
		grad[k] += T(d)
	}
	w.p.Upload(grad)
}

func (w *gaussianWork[T]) BackwardFeatures([]T, inputs[T]) {}

func (w *gaussianWork[T]) deviations() {
	w.p.Download(w.p.Of(w.logStd))
	for k, l := range w.p.Of(w.logStd) {
		w.std[k] = T(math.Exp(float64(l)))
	}
}

func (w *gaussianWork[T]) logProbs(logProb []T, a actions[T], in inputs[T]) {
	logStd := w.p.Of(w.logStd)
	i := 0
	for range in.n {
		for k, l := range logStd {
			u := (a.box[i] - in.out[i]) / w.std[k]
			w.u[i] = u
			logProb[i] = normalLogProb(u, l)
			i++
		}
	}
}

func fill[T nn.Float](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}
