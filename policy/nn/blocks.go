package nn

import (
	"fmt"
	"slices"
)

// A Block maps the elements of a part of a tensor to elements of the whole tensor. Both are flat in memory. The part
// consists of Count runs of Len elements. Run i begins at element At + i·Stride of the whole tensor, and at element
// Here + i·Len of the part.
type Block struct{ At, Here, Len, Stride, Count int }

// Block returns the Block of the slice s in a tensor of the given shape.
func (s Slice) Block(shape []int) Block {
	if s.All() {
		n := product(shape)
		return Block{Len: n, Stride: n, Count: 1}
	}
	inner := product(shape[s.Axis+1:])
	return Block{At: s.From * inner, Len: (s.To - s.From) * inner, Stride: s.Whole * inner,
		Count: product(shape[:s.Axis])}
}

// Common returns the indices that s and o have in common. Both must be slices along the same axis. If they have no
// index in common, Common returns false.
func (s Slice) Common(o Slice) (Slice, bool) {
	if s.Whole == 0 {
		s, o = o, s
	}
	if o.Whole > 0 {
		s.From, s.To = max(s.From, o.From), min(s.To, o.To)
	}
	return s, s.Whole == 0 || s.From < s.To
}

// Blocks returns a Block for each field of p. It maps the elements of the field in p.Data to full.Data. full declares
// the parameters of the whole network; it need not be allocated.
func (p *Params[T]) Blocks(full *Params[T]) []Block {
	blocks := make([]Block, len(p.Fields))
	for i, f := range p.Fields {
		s := p.SliceOf(f.Name)
		at, ok := full.index[f.Name]
		if !ok || !slices.Equal(s.WholeShape(f.Shape), full.Fields[at].Shape) {
			panic(fmt.Sprintf("nn: %s %v is no slice %v of the whole network's", f.Name, f.Shape, s))
		}
		blocks[i] = s.Block(full.Fields[at].Shape).Moved(full.Fields[at].Off, f.Off)
	}
	return blocks
}

// Moved returns b for larger memory, in which the whole tensor begins at element wholeOffset, and the part at element
// partOffset.
func (b Block) Moved(wholeOffset, partOffset int) Block {
	b.At, b.Here = b.At+wholeOffset, b.Here+partOffset
	return b
}

// Times returns b in smaller units, such as bytes. n is the number of units of an element.
func (b Block) Times(n int) Block {
	b.At, b.Here, b.Len, b.Stride = b.At*n, b.Here*n, b.Len*n, b.Stride*n
	return b
}

// Clip returns the blocks for elements [lo, hi) of the part of b alone.
func (b Block) Clip(lo, hi int) (blocks []Block) {
	for at, end := max(lo, b.Here), min(hi, b.Here+b.Len*b.Count); at < end; {
		run, from := (at-b.Here)/b.Len, (at-b.Here)%b.Len
		n, count := min(b.Len-from, end-at), 1
		if n == b.Len {
			count = (end - at) / b.Len
		}
		blocks = append(blocks, Block{At: b.At + run*b.Stride + from, Here: at - lo, Len: n, Stride: b.Stride,
			Count: count})
		at += n * count
	}
	return blocks
}

// Within calls f for the elements of the part that lie in [lo, hi) of the whole tensor. It calls f for runs of n
// elements. The first element of a run has index i in the whole tensor, and index j in the part.
func (b Block) Within(lo, hi int, f func(i, j, n int)) {
	if b.Len == 0 {
		return
	}
	for i := max(0, lo-b.At) / b.Stride; i < b.Count && b.At+i*b.Stride < hi; i++ {
		at := b.At + i*b.Stride
		if from, to := max(at, lo), min(at+b.Len, hi); from < to {
			f(from, b.Here+i*b.Len+from-at, to-from)
		}
	}
}

// Overlap calls f for each run of elements that two parts of a tensor have in common. A run has n elements. Its first
// element has index a in the first part, and index b in the second part.
func Overlap(first, second Block, f func(a, b, n int)) {
	for i := range first.Count {
		at, here := first.At+i*first.Stride, first.Here+i*first.Len
		second.Within(at, at+first.Len, func(x, b, n int) { f(here+x-at, b, n) })
	}
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
