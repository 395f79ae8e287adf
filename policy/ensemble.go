package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/nn"
)

// ensemble is H networks of one shape that value the same rows, each by itself.
type ensemble[T nn.Float] struct {
	params *nn.Params[T]
	trunks []*nn.MLP[T]
	heads  []*nn.Linear[T]
	in     int
}

// newEnsemble declares the parameters in params, a group critic, for rows of in elements. They have
// no memory yet.
func newEnsemble[T nn.Float](cfg Config, params *nn.Params[T], in int) *ensemble[T] {
	e := &ensemble[T]{params: params, in: in}
	params.Group("critic")
	for h := range cfg.NumQHeads {
		name := fmt.Sprintf("critic.%d", h)
		trunk := newTrunk(cfg, params, name, in)
		e.trunks, e.heads = append(e.trunks, trunk), append(e.heads, nn.NewLinear(params, name+".head", trunk.Out, 1))
	}
	return e
}

// newTrunk declares the hidden layers of a critic of actions, or of the actor that comes with it:
// with norms where Config.QHeadType is crossq.
func newTrunk[T nn.Float](cfg Config, params *nn.Params[T], name string, in int) *nn.MLP[T] {
	f, _ := cfg.activation()
	if cfg.QHeadType == QHeadCrossQ {
		return nn.NewNormedMLP(params, name, in, cfg.HiddenSizes, f)
	}
	return nn.NewMLP(params, name, in, cfg.HiddenSizes, f)
}

func (e *ensemble[T]) init(seed uint64) {
	for h := range e.heads {
		e.trunks[h].Init(seed, math.Sqrt2)
		e.heads[h].Init(seed, 1)
	}
}

// ensembleWork is the state of one user of an ensemble.
type ensembleWork[T nn.Float] struct {
	x        []T // what the last forward saw
	n        int
	trunks   []*nn.MLPWork[T]
	features [][]T
	q        []T // [H,n]
	dx       []T // [n,in]
	scratch  []T
}

func (e *ensemble[T]) newWork(maxRows int) *ensembleWork[T] {
	w := &ensembleWork[T]{
		q: nn.Vector[T](len(e.heads) * maxRows), dx: nn.Vector[T](maxRows * e.in), features: make([][]T, len(e.heads)),
		scratch: nn.Vector[T](e.heads[0].In),
	}
	for _, t := range e.trunks {
		w.trunks = append(w.trunks, t.NewWork(maxRows))
	}
	return w
}

// forward returns the values [H,n] of rows x, which must not change before backward; with batch,
// norms go by the statistics of these rows.
func (e *ensemble[T]) forward(w *ensembleWork[T], x []T, n int, batch bool) []T {
	w.x, w.n = x, n
	for h, head := range e.heads {
		forward := e.trunks[h].Forward
		if batch {
			forward = e.trunks[h].ForwardBatch
		}
		w.features[h] = forward(w.trunks[h], x, n)
		head.Forward(w.q[h*n:(h+1)*n], w.features[h], n)
	}
	return w.q[:len(e.heads)*n]
}

// backward adds the gradients of a loss, given its derivatives by the values, [H,n]. Ranges become
// ready from the end to the beginning.
func (e *ensemble[T]) backward(w *ensembleWork[T], dq []T, ready func(lo, hi int)) {
	for h := len(e.heads) - 1; h >= 0; h-- {
		e.heads[h].Backward(e.trunks[h].OutGrad(w.trunks[h], w.n), w.features[h], dq[h*w.n:(h+1)*w.n], w.n, false,
			w.scratch)
		if ready != nil {
			ready(e.heads[h].Range())
		}
		e.trunks[h].Backward(w.trunks[h], nil, w.x, w.n, ready)
	}
}

// inputGrad adds to dst, [n,in-first], the derivative by the columns of x from first on, and leaves
// the gradients of the parameters as they are.
func (e *ensemble[T]) inputGrad(w *ensembleWork[T], dst, dq []T, first int) {
	dx := w.dx[:w.n*(e.in-first)]
	for h, head := range e.heads {
		below := e.trunks[h].OutGrad(w.trunks[h], w.n)
		if below == nil {
			head.InputGrad(dx, dq[h*w.n:(h+1)*w.n], w.n, first, w.scratch)
		} else {
			head.InputGrad(below, dq[h*w.n:(h+1)*w.n], w.n, 0, w.scratch)
			e.trunks[h].InputGrad(w.trunks[h], dx, w.n, first)
		}
		for i, d := range dx {
			dst[i] += d
		}
	}
}

// statsLen, addStats and mergeStats are those of all trunks' norms, one after the other.
func (e *ensemble[T]) statsLen() int { return len(e.trunks) * e.trunks[0].StatsLen() }

func (e *ensemble[T]) addStats(sums []float64, w *ensembleWork[T]) {
	n := e.trunks[0].StatsLen()
	for h, t := range e.trunks {
		t.AddStats(sums[h*n:(h+1)*n], w.trunks[h])
	}
}

func (e *ensemble[T]) mergeStats(sums []float64) {
	n := e.trunks[0].StatsLen()
	for h, t := range e.trunks {
		t.MergeStats(sums[h*n : (h+1)*n])
	}
}
