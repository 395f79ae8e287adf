package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// An ensemble is H networks of the same shape. Each network makes its own estimate for every row.
type ensemble[T nn.Float] struct {
	params *nn.Params[T]
	heads  []*nn.Net[T]
	width  int // number of elements of a row
}

// newEnsemble declares the parameters in the group "critic" of params. The networks read rows of width elements. With
// Config.LayerNorm their hidden layers normalise. Params.Alloc allocates the parameters.
func newEnsemble[T nn.Float](cfg Config, params *nn.Params[T], width int) *ensemble[T] {
	e := &ensemble[T]{params: params, width: width}
	params.Group("critic")
	for h := range cfg.NumQHeads {
		e.heads = append(e.heads, nn.NewStack(params, fmt.Sprintf("critic.%d", h), width,
			append(cfg.valueTrunk(cfg.LayerNorm || cfg.Frozen != ""), head(1, 1))...))
	}
	return e
}

// valueTrunk describes the hidden layers of an actor or a critic for Config.AddQHead. If Config.QHeadType is crossq,
// the layers normalise their inputs over a batch. With layerNorm they normalise the rows of their outputs.
func (c *Config) valueTrunk(layerNorm bool) []nn.Layer {
	f, _ := c.activation()
	norms := nn.NoNorms
	switch {
	case c.QHeadType == QHeadCrossQ:
		norms = nn.BatchNorms
	case layerNorm:
		norms = nn.LayerNorms
	}
	return nn.Hidden(c.HiddenSizes, f, norms)
}

func (e *ensemble[T]) init(seed uint64) {
	for _, head := range e.heads {
		head.Init(seed)
	}
}

// ensembleWork is the state of one user of an ensemble.
type ensembleWork[T nn.Float] struct {
	n          int // rows of the last forward
	heads      []*nn.NetWork[T]
	q          []T // [H,n]
	dx         []T // [n,width]
	sum        []T // [n,width], used by backward if dFirst is not nil
	input, out []T // mirrors of x and of the values of a head
}

func (e *ensemble[T]) newWork(maxRows int) *ensembleWork[T] {
	p := e.params
	w := &ensembleWork[T]{q: nn.Vector[T](len(e.heads) * maxRows), dx: p.Shared(maxRows * e.width),
		sum: p.Mirror(maxRows * e.width), input: p.Mirror(maxRows * e.width), out: p.Mirror(maxRows)}
	for _, head := range e.heads {
		w.heads = append(w.heads, head.NewWork(maxRows))
	}
	return w
}

// forward returns the values, [H,n], of the rows x. x must not change before backward. If batch is true, layers that
// normalise use the statistics of x.
func (e *ensemble[T]) forward(w *ensembleWork[T], x []T, n int, batch bool) []T {
	w.n = n
	x = e.params.Import(w.input, x[:n*e.width])
	for h, head := range e.heads {
		y := head.Forward(w.heads[h], nn.Batch[T]{Rows: n, Numbers: x, Renorm: batch})
		copy(w.q[h*n:(h+1)*n], e.params.Export(w.out, y))
	}
	return w.q[:len(e.heads)*n]
}

// backward adds the gradients of a loss. dq, [H,n], is the gradient of the loss with respect to the values. Unless
// dFirst, [n,first], is nil, backward sets it to the gradient with respect to the first columns of x. backward calls
// ready for ranges from the end of the flat gradient to its beginning.
func (e *ensemble[T]) backward(w *ensembleWork[T], dq, dFirst []T, ready func(lo, hi int)) {
	var dx, sum []T
	if dFirst != nil {
		if w.sum == nil {
			w.sum = e.params.Shared(len(w.dx))
		}
		dx, sum = w.dx[:w.n*e.width], w.sum[:w.n*e.width]
		e.params.Clear(sum)
	}
	for h := len(e.heads) - 1; h >= 0; h-- {
		e.heads[h].SetOutGrad(w.heads[h], dq[h*w.n:(h+1)*w.n])
		e.heads[h].Backward(w.heads[h], dx, ready)
		if dx != nil {
			e.params.Ops().Axpy(sum, 1, dx)
		}
	}
	if dFirst != nil {
		first := len(dFirst) / w.n
		e.params.Download(sum)
		e.params.Host().CopyColumns(dFirst, first, sum, e.width, first, w.n)
	}
}

// inputGrad adds to dst, [n,width-first], the gradient with respect to the columns [first, width) of x. It does not
// change the gradients of the parameters.
func (e *ensemble[T]) inputGrad(w *ensembleWork[T], dst, dq []T, first int) {
	dx := w.dx[:w.n*(e.width-first)]
	for h, head := range e.heads {
		head.SetOutGrad(w.heads[h], dq[h*w.n:(h+1)*w.n])
		head.InputGrad(w.heads[h], dx, first)
		e.params.Download(dx)
		for i, d := range dx {
			dst[i] += d
		}
	}
}

// statsLen, addStats and mergeStats handle the statistics of layers that normalise, one head after the other.
func (e *ensemble[T]) statsLen() int { return len(e.heads) * e.heads[0].StatsLen() }

func (e *ensemble[T]) addStats(sums []float64, w *ensembleWork[T]) {
	n := e.heads[0].StatsLen()
	for h, head := range e.heads {
		head.AddStats(sums[h*n:(h+1)*n], w.heads[h])
	}
}

func (e *ensemble[T]) mergeStats(sums []float64) {
	n := e.heads[0].StatsLen()
	for h, head := range e.heads {
		head.MergeStats(sums[h*n : (h+1)*n])
	}
}
