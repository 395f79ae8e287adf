package lm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
)

// A Shard describes the part of a model on this rank. The zero Shard is the whole model.
type Shard struct {
	// Index is the number of this rank among the Size tensor-parallel ranks. These ranks split the heads and the
	// feed-forward width of every layer, and the vocabulary. A Size of 0 means 1.
	Index, Size int
	// This pipeline stage has the layers [First, End). An End of 0 means Config.Layers. The first stage also has the
	// embedding, and the last stage also has the final norm and the output matrix.
	First, End int
}

// An Axis connects the tensor-parallel ranks, each of which has a part of every layer. All ranks must make the same
// calls in the same order.
type Axis interface {
	Size() int
	Index() int
	// Sum replaces x with the sum of x over the ranks. The sum is a binary tree over the indices of the ranks.
	Sum(x []float32) error
	// Sum64 is Sum for float64.
	Sum64(x []float64) error
	// Gather fills x with the blocks of all ranks, in the order of the ranks. counts has the length of each block.
	// Before the call, the block of this rank must already be at its place in x.
	Gather(x []float32, counts []int) error
}

// A Pipe connects the pipeline stages, each of which has a range of the model's layers. Messages from one stage to
// another arrive in order. The receiver knows the length of each message.
type Pipe interface {
	Axis
	// Send sends a copy of x to another stage. It may wait until that stage has received the previous message.
	Send(to int, x []float32) error
	// Recv waits for the next message from another stage and copies it to x. The message has the length of x.
	Recv(from int, x []float32) error
	// Flush waits until the other stages have received all messages of this stage.
	Flush() error
}

// complete returns p with defaults in place of zeros. If p is not valid for a model of c, complete returns an error
// that names the valid values.
func (c *Config) complete(p Shard) (Shard, error) {
	p.Size = max(p.Size, 1)
	if p.End == 0 {
		p.End = c.Layers
	}
	if sizes := c.Sizes(); !slices.Contains(sizes, p.Size) {
		return p, fmt.Errorf("a layer divided among %d ranks: expected one of %v", p.Size, sizes)
	}
	if p.Index < 0 || p.Index >= p.Size || p.First < 0 || p.First >= p.End || p.End > c.Layers {
		return p, fmt.Errorf("part %d of %d with the layers [%d, %d): expected a part of 0..%d and layers in [0, %d)",
			p.Index, p.Size, p.First, p.End, p.Size-1, c.Layers)
	}
	return p, nil
}

// Sizes returns the valid numbers of tensor-parallel ranks for a model of c. Each number divides Blocks and KVHeads.
func (c *Config) Sizes() []int {
	sizes, blocks := []int{1}, c.Blocks()
	for n := 2; n <= blocks && c.KVHeads%n == 0 && c.KVHeads*c.HeadDim%blocks == 0; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// local returns c with the sizes of part p: its numbers of heads, its widths and its vocabulary size.
func (c *Config) local(p Shard) Config {
	l, size := *c, p.Size
	l.Heads, l.KVHeads, l.Intermediate = c.Heads/size, c.KVHeads/size, c.Intermediate/size
	l.Experts.Intermediate = c.Experts.Intermediate / size
	l.Experts.SharedIntermediate = c.Experts.SharedIntermediate / size
	ids := c.slice(p, 0, c.Vocab)
	l.Vocab = ids.To - ids.From
	return l
}

// slice returns part p's slice of an axis of n elements. The slice has whole blocks.
func (c *Config) slice(p Shard, axis, n int) nn.Slice {
	per := c.Blocks() / p.Size * c.blockWidth(n)
	return nn.Slice{Axis: axis, From: min(p.Index*per, n), To: min((p.Index+1)*per, n), Whole: n}
}

// blockWidth returns the number of elements per block, for an axis of n elements.
func (c *Config) blockWidth(n int) int { return (n + c.Blocks() - 1) / c.Blocks() }

// owner returns the rank whose part of the vocabulary has the token.
func (m *Model) owner(token int32) int {
	return int(token) / (m.own * m.Config.blockWidth(m.Config.Vocab))
}

// Shard returns the part of the model on this rank.
func (m *Model) Part() Shard { return m.part }

// A Mesh connects the ranks that have the parts of a model. The zero Mesh is for a whole model on one rank.
type Mesh struct {
	Layer  Axis // the tensor-parallel ranks; nil for one rank
	Stages Pipe // the pipeline stages; nil for one stage
}

// Join connects w with the ranks of the other parts of the model. Call it before the first pass.
func (w *Work) Join(mesh Mesh) {
	p := w.m.part
	if a := mesh.Layer; a != nil && a.Size() > 1 {
		if a.Size() != p.Size || a.Index() != p.Index {
			panic(fmt.Sprintf("lm: part %d of %d joins as %d of %d", p.Index, p.Size, a.Index(), a.Size()))
		}
		w.axis = a
	}
	if a := mesh.Stages; a != nil && a.Size() > 1 {
		if (a.Index() == 0) != w.m.first() || (a.Index() == a.Size()-1) != w.m.last() {
			panic(fmt.Sprintf("lm: layers %d to %d join as stage %d of %d", p.First, p.End, a.Index(), a.Size()))
		}
		w.pipe = a
	}
}

// first reports whether m has the first layer, and last reports whether m has the last layer.
func (m *Model) first() bool { return m.part.First == 0 }
func (m *Model) last() bool  { return m.part.End == m.Config.Layers }

// Err returns the first error of a message to or from another rank. It also returns an error if the model is only a
// part and w has not joined the other parts. After an error, results are undefined and w sends no more messages.
// Forward and Extend return the error, too.
func (w *Work) Err() error {
	if w.axis == nil && w.m.part.Size > 1 || w.pipe == nil && !(w.m.first() && w.m.last()) {
		return errors.New("a part of a model, without the other parts")
	}
	return w.err
}

// counts returns w.sizes with a zero for each tensor-parallel rank.
func (w *Work) counts() []int {
	w.sizes = resize(w.sizes, w.m.part.Size)
	clear(w.sizes)
	return w.sizes
}

// sum adds x over the tensor-parallel ranks, unless sums are deferred.
func (w *Work) sum(x []float32) {
	if w.axis != nil && w.err == nil && !w.deferred && len(x) > 0 {
		w.err = w.axis.Sum(x)
	}
}

// sumDeferred ends the deferral of sums and then adds x over the ranks. If sums are not deferred, it does nothing.
func (w *Work) sumDeferred(x []float32) {
	if w.deferred {
		w.deferred = false
		w.sum(x)
	}
}

// collect fills x with the blocks of all tensor-parallel ranks: see Axis.Gather.
func (w *Work) collect(x []float32, counts []int) {
	if w.axis != nil && w.err == nil && len(x) > 0 {
		w.err = w.axis.Gather(x, counts)
	}
}
