package policy

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
)

// categorical is the distribution of D independent choices. The head's outputs are the logits of all options of all
// choices, side by side. Discrete actions have one dimension, and multi-discrete actions have several. Options that a
// mask does not allow have probability 0 and get no gradient; the other options are renormalised (Huang and Ontañón
// 2022, arXiv:2006.14171).
type categorical[T nn.Float] struct {
	p       *nn.Params[T]
	options []int // number of options of each dimension
	width   int   // sum of options
}

func newCategorical[T nn.Float](p *nn.Params[T], options []int) *categorical[T] {
	c := &categorical[T]{p: p, options: options}
	for _, k := range options {
		c.width += k
	}
	return c
}

var _ distribution[float32] = (*categorical[float32])(nil)

func (c *categorical[T]) Outputs() int { return c.width }

func (c *categorical[T]) Init() {}

func (c *categorical[T]) NewWork(maxRows int) distributionWork[T] {
	return &categoricalWork[T]{
		categorical: c,
		logp:        nn.Vector[T](maxRows * c.width),
		prob:        nn.Vector[T](maxRows * c.width),
		entropy:     nn.Vector[T](maxRows * len(c.options)),
	}
}

type categoricalWork[T nn.Float] struct {
	*categorical[T]
	logp, prob []T // [n,width]: log-prob and probability of every option
	entropy    []T // [n,D]
}

func (w *categoricalWork[T]) Choose(a actions[T], logProb []T, in inputs[T], mode Mode, noise Noise) {
	w.normalize(in)
	d, o := 0, 0
	for row := range in.n {
		var s philox.Stream
		if mode == Sample {
			s = noise.Stream(row)
		}
		for _, k := range w.options {
			var j int
			if mode == Sample {
				j = Draw(w.prob[o:o+k], s.Float64())
			} else {
				j = Argmax(w.logp[o : o+k])
			}
			a.choice[d] = int32(j)
			logProb[d] = w.logp[o+j]
			d++
			o += k
		}
	}
}

func (w *categoricalWork[T]) Evaluate(logProb, entropy []T, a actions[T], in inputs[T]) {
	w.normalize(in)
	d, o := 0, 0
	for range in.n {
		for _, k := range w.options {
			var h T // H = -Σ p log p; an impossible option has log p = -Inf and adds 0
			for j := o; j < o+k; j++ {
				if w.prob[j] > 0 {
					h -= w.prob[j] * w.logp[j]
				}
			}
			w.entropy[d], entropy[d] = h, h
			logProb[d] = w.logp[o+int(a.choice[d])]
			d++
			o += k
		}
	}
}

// Backward uses these derivatives, for a choice with logits z, probabilities p = softmax(z) and entropy H:
//
//	∂ log p_a / ∂z_j = [j=a] - p_j,    ∂H / ∂z_j = -p_j (log p_j + H)
func (w *categoricalWork[T]) Backward(dOut, dLogProb, dEntropy []T, a actions[T], in inputs[T]) {
	d, o := 0, 0
	for range in.n {
		for _, k := range w.options {
			dl, de, h := dLogProb[d], dEntropy[d], w.entropy[d]
			for j := o; j < o+k; j++ {
				dOut[j] = 0
				if p := w.prob[j]; p > 0 {
					dOut[j] = -p * (dl + de*(w.logp[j]+h))
				}
			}
			dOut[o+int(a.choice[d])] += dl
			d++
			o += k
		}
	}
}

func (w *categoricalWork[T]) BackwardFeatures([]T, inputs[T]) {}

// normalize sets logp and prob from the outputs: log p_j = z_j - max z - log Σ_i exp(z_i - max z) over the allowed
// options, and -Inf for other options.
func (w *categoricalWork[T]) normalize(in inputs[T]) {
	n := in.n * w.width
	logp, prob := w.logp[:n], w.prob[:n]
	copy(logp, in.out)
	forbid(logp, in.mask, in.n)
	o := 0
	for range in.n {
		for _, k := range w.options {
			z := logp[o : o+k]
			top := z[0]
			for _, v := range z {
				if v > top {
					top = v
				}
			}
			for j := range z {
				z[j] -= top
			}
			o += k
		}
	}
	w.p.Host().Exp(prob, logp)
	o = 0
	for range in.n {
		for _, k := range w.options {
			var sum float64
			for _, e := range prob[o : o+k] {
				sum += float64(e)
			}
			log, inv := T(math.Log(sum)), T(1/sum)
			for j := o; j < o+k; j++ {
				logp[j] -= log
				prob[j] *= inv
			}
			o += k
		}
	}
}

// Draw returns the first option at which the cumulative probability exceeds u, a number in [0,1). If there is none
// because of rounding, Draw returns the last option whose probability is above 0.
func Draw[T nn.Float](prob []T, u float64) int {
	last := 0
	for j, p := range prob {
		if u -= float64(p); u < 0 {
			return j
		}
		if p > 0 {
			last = j
		}
	}
	return last
}

// Argmax returns the first index of the largest element.
func Argmax[T nn.Float](x []T) int {
	best := 0
	for j, v := range x {
		if v > x[best] {
			best = j
		}
	}
	return best
}
