package policy

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// heteroscedastic is the distribution of D independent normal dimensions whose means and deviations
// both depend on the observation. The head's outputs are D means, then D numbers s. Each s gives a log
// standard deviation, within the same bounds as in squashed:
//
//	log σ = -5 + 3.5 (tanh(s + s₀) + 1),    in (-5, 2)
//
// s₀ is chosen so that s = 0 gives the initial deviation.
type heteroscedastic[T nn.Float] struct {
	dims  int
	shift T // s₀
	learn bool
}

func newHeteroscedastic[T nn.Float](dims int, initial float64, learn bool) *heteroscedastic[T] {
	return &heteroscedastic[T]{dims: dims, learn: learn, shift: T(math.Atanh((initial-minLogStd)/halfRange - 1))}
}

var _ distribution[float32] = (*heteroscedastic[float32])(nil)

func (h *heteroscedastic[T]) Outputs() int { return 2 * h.dims }

func (h *heteroscedastic[T]) Init() {}

func (h *heteroscedastic[T]) NewWork(maxRows int) distributionWork[T] {
	perDim := func() []T { return nn.Vector[T](maxRows * h.dims) }
	return &heteroscedasticWork[T]{heteroscedastic: h, logStd: perDim(), std: perDim(), slope: perDim(), u: perDim()}
}

type heteroscedasticWork[T nn.Float] struct {
	*heteroscedastic[T]
	logStd, std []T // [n,D]
	slope       []T // [n,D]: ∂ log σ / ∂s
	u           []T // [n,D]: (a - μ)/σ
}

func (w *heteroscedasticWork[T]) Choose(a actions[T], logProb []T, in inputs[T], mode Mode, noise Noise) {
	w.deviations(in)
	for row := range in.n {
		copy(a.box[row*w.dims:(row+1)*w.dims], w.means(in, row))
	}
	if n := in.n * w.dims; mode == Sample {
		addNoise(a.box[:n], w.std[:n], w.dims, noise)
	}
	w.logProbs(logProb, a, in)
}

func (w *heteroscedasticWork[T]) Evaluate(logProb, entropy []T, a actions[T], in inputs[T]) {
	w.deviations(in)
	w.logProbs(logProb, a, in)
	for i, l := range w.logStd[:in.n*w.dims] {
		entropy[i] = normalEntropy(l)
	}
}

// Backward uses, with u = (a - μ)/σ:
//
//	∂ log p / ∂μ = u/σ,    ∂ log p / ∂ log σ = u² - 1,    ∂H / ∂ log σ = 1
func (w *heteroscedasticWork[T]) Backward(dOut, dLogProb, dEntropy []T, _ actions[T], in inputs[T]) {
	i := 0
	for row := range in.n {
		d := dOut[2*row*w.dims:]
		for k := range w.dims {
			u, dl := w.u[i], dLogProb[i]
			d[k] = dl * u / w.std[i]
			d[w.dims+k] = 0
			if w.learn {
				d[w.dims+k] = (dl*(u*u-1) + dEntropy[i]) * w.slope[i]
			}
			i++
		}
	}
}

func (w *heteroscedasticWork[T]) BackwardFeatures([]T, inputs[T]) {}

// means returns the means of a row.
func (w *heteroscedasticWork[T]) means(in inputs[T], row int) []T {
	return in.out[2*row*w.dims : (2*row+1)*w.dims]
}

// deviations sets logStd, std and slope.
func (w *heteroscedasticWork[T]) deviations(in inputs[T]) {
	i := 0
	for row := range in.n {
		for _, s := range in.out[(2*row+1)*w.dims : (2*row+2)*w.dims] {
			y := math.Tanh(float64(s + w.shift))
			l := minLogStd + halfRange*(y+1)
			w.logStd[i], w.std[i], w.slope[i] = T(l), T(math.Exp(l)), T(halfRange*(1-y*y))
			i++
		}
	}
}

func (w *heteroscedasticWork[T]) logProbs(logProb []T, a actions[T], in inputs[T]) {
	i := 0
	for row := range in.n {
		for _, mean := range w.means(in, row) {
			u := (a.box[i] - mean) / w.std[i]
			w.u[i] = u
			logProb[i] = normalLogProb(u, w.logStd[i])
			i++
		}
	}
}
