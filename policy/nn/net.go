package nn

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/graph"
)

// A Net is a network made of layers. Its backward pass runs the backward passes of the layers.
//
//	net, err := nn.NewNet(p, "encoder", layer, sources)     // declares its parameters in p
//	err = p.Alloc(tensor.Heap)
//	net.Init(seed)
//
//	w := net.NewWork(128)                                    // activations of one user
//	y := net.Forward(w, batch)                               // [rows,Out]; nothing is allocated
//	copy(net.OutGrad(w), dy)
//	net.Backward(w, nil, ready)
type Net[T Float] struct {
	Out   int // width of a row of output
	State int // length of the recurrent state of one sequence

	params *Params[T]
	root   unit[T]
	norms  []*BatchRenorm[T]
	node   graph.Node
}

// A Batch is the input of a Net: the rows of every source. It must not change before Backward.
type Batch[T Float] struct {
	Rows    int
	Numbers []T       // [Rows, Σ Width]: the sources of numbers side by side
	Images  [][]uint8 // [Rows, Frames, H, W, C] for each source that is an image
	Maps    [][]T     // [Rows, H, W, C] for each source that is a feature map
	Choices []int32   // [Rows, Σ places]: the choices side by side

	// Renorm makes BatchNorm layers use the statistics of these rows. The NetWork keeps the statistics for AddStats. If
	// Renorm is false, they use their running statistics.
	Renorm bool

	Drop Drop // for Dropout layers

	// This field and the next three are for a Net with recurrent layers. Row t·Sequences + i is step t of sequence i.
	Sequences int
	State     []T    // [Sequences, State] before the first step
	Next      []T    // [Sequences, State]: Forward sets it to the state after the last step
	Begins    []byte // [Rows]: if not 0, Forward clears the state before the step; nil means 0 everywhere
}

// Drop turns Dropout layers on. Row i of a batch draws from the random stream First + i.
type Drop struct {
	On          bool
	Seed, First uint64
}

// A unit is a layer of a Net, with its parameters. A builder makes units in the order of the forward pass.
type unit[T Float] interface {
	Init(seed uint64)
	// NewWork returns the memory of one user for at most w.maxRows rows. Units share the scratch memory of w, one after
	// the other.
	NewWork(w *NetWork[T]) unitWork[T]
}

// A unitWork holds one user's activations of a unit.
type unitWork[T Float] interface {
	// Forward returns the output for x. It lies in memory of the unitWork or in x itself. x must not change before
	// Backward.
	Forward(b *Batch[T], x []T) []T
	// Backward adds the gradients of the last Forward. dy is the gradient of the output, and Backward may overwrite it.
	// Unless dx is nil, Backward returns the gradient of x. It lies in dx or in dy. Backward calls ready for ranges
	// whose gradients are complete, from the last parameters to the first.
	Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T
}

// NewNet declares the parameters of l in p, in the order of the forward pass. The error names the
// layer that does not fit.
func NewNet[T Float](p *Params[T], name string, l Layer, sources []Source) (*Net[T], error) {
	net, err := newNet(p, name, l, sources, nil)
	if err != nil && name != "" {
		err = fmt.Errorf("network %s: %w", name, err)
	}
	return net, err
}

// NewStack declares a Net that passes Batch.Numbers, rows of width numbers, through the layers. It panics if a layer
// does not fit.
func NewStack[T Float](p *Params[T], name string, width int, layers ...Layer) *Net[T] {
	net, err := newNet(p, name, Sequence(layers...), nil, &Image{1, 1, width})
	if err != nil {
		panic(fmt.Sprintf("nn: network %s: %v", name, err))
	}
	return net
}

func newNet[T Float](p *Params[T], name string, l Layer, sources []Source, in *Image) (*Net[T], error) {
	b := &builder[T]{params: p, sources: sources}
	root, out, err := b.build(l, name, in)
	if err != nil {
		return nil, err
	}
	for _, c := range b.cells {
		c.total = b.state
	}
	return &Net[T]{Out: out.Len(), State: b.state, params: p, root: root, norms: b.norms, node: b.nodes[0]}, nil
}

// Graph describes the layers.
func (n *Net[T]) Graph() graph.Node { return n.node }

// Init draws the initial parameters.
func (n *Net[T]) Init(seed uint64) { n.root.Init(seed) }

// A NetWork holds the activations of one user of a Net, for batches up to a fixed number of rows.
type NetWork[T Float] struct {
	params  *Params[T]
	maxRows int
	root    unitWork[T]
	batch   Batch[T] // argument of the last Forward
	dy      []T

	conv   ConvWork[T] // scratch memory for one convolution at a time
	weight []T         // scratch memory for the weights of one Dense at a time
	norms  []*BatchRenormWork[T]
}

// NewWork returns working memory for at most maxRows rows.
func (n *Net[T]) NewWork(maxRows int) *NetWork[T] {
	w := &NetWork[T]{params: n.params, maxRows: maxRows, dy: n.params.Shared(maxRows * n.Out)}
	w.root = n.root.NewWork(w)
	return w
}

// rows returns memory for rows of the given width.
func (w *NetWork[T]) rows(width int) []T { return w.params.Vector(w.maxRows * width) }

// Forward returns the output [Rows,Out] for b, in memory of w.
func (n *Net[T]) Forward(w *NetWork[T], b Batch[T]) []T {
	w.batch = b
	return w.root.Forward(&w.batch, b.Numbers)
}

// OutGrad returns shared memory, [Rows,Out], for the gradient of the output. Fill it before Backward or InputGrad.
func (n *Net[T]) OutGrad(w *NetWork[T]) []T { return w.dy[:w.batch.Rows*n.Out] }

// SetOutGrad sets OutGrad to dy, [Rows,Out].
func (n *Net[T]) SetOutGrad(w *NetWork[T], dy []T) {
	copy(n.OutGrad(w), dy)
	n.params.Upload(n.OutGrad(w))
}

// Backward adds the gradients of the last Forward on w. It reads the gradient of the output from OutGrad, and
// overwrites this memory. Unless ready is nil, Backward calls ready as soon as the gradients of a layer are complete,
// beginning with the last layer. dx must be nil unless the Net is a stack. If dx, [Rows,width], is not nil, Backward
// sets it to the gradient of the numbers.
func (n *Net[T]) Backward(w *NetWork[T], dx []T, ready func(lo, hi int)) {
	if ready == nil {
		ready = unreported
	}
	if d := w.root.Backward(&w.batch, dx, n.OutGrad(w), ready); dx != nil && !same(d, dx) {
		copy(dx, d)
	}
}

// unreported is a ready function that does nothing.
func unreported(lo, hi int) {}

// same reports whether a and b begin at the same address.
func same[T Float](a, b []T) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

// InputGrad sets dx, [Rows,width-first], to the gradient of the columns [first,width) of the numbers in the last
// Forward. It reads the gradient of the output from OutGrad, and overwrites this memory. InputGrad does not change the
// gradients of the parameters. The Net must be a stack of Dense, Activate and BatchNorm layers, and of Norm layers that
// follow a Dense. The last Forward must have used running statistics.
func (n *Net[T]) InputGrad(w *NetWork[T], dx []T, first int) {
	if d := w.root.(inputGrader[T]).InputGrad(&w.batch, dx, n.OutGrad(w), first); !same(d, dx) {
		copy(dx, d)
	}
}

// An inputGrader is a unitWork that can compute the gradient of its input alone.
type inputGrader[T Float] interface {
	// InputGrad is Backward for the columns of x from first on, without the gradients of parameters. It returns the
	// gradient of these columns. If each column of the output depends only on the same column of x, dy also has only
	// these columns.
	InputGrad(b *Batch[T], dx, dy []T, first int) []T
}

// StatsLen returns the number of sums that AddStats needs for all BatchNorm layers.
func (n *Net[T]) StatsLen() (sums int) {
	for _, b := range n.norms {
		sums += b.StatsLen()
	}
	return sums
}

// AddStats adds the batch statistics of all BatchNorm layers to sums, one layer after the other; see
// BatchRenorm.AddStats.
func (n *Net[T]) AddStats(sums []float64, w *NetWork[T]) {
	for i, b := range n.norms {
		b.AddStats(sums[:b.StatsLen()], w.norms[i])
		sums = sums[b.StatsLen():]
	}
}

// MergeStats updates the running statistics of every BatchNorm layer with sums.
func (n *Net[T]) MergeStats(sums []float64) {
	for _, b := range n.norms {
		b.MergeStats(sums[:b.StatsLen()])
		sums = sums[b.StatsLen():]
	}
}
