package member

import (
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// The files of a state that is saved in parts.
const (
	ModelPart   = "model"
	TrainerPart = "trainer"
)

// A Part is one member's part of a tensor of the state.
type Part struct {
	File   string       // ModelPart or TrainerPart
	Field  tensor.Field // the whole tensor
	Memory []byte       `json:"-"`
	// Blocks has the positions of Memory in the whole tensor, in bytes and in ascending order. It is empty if the
	// member holds nothing of the tensor.
	Blocks []nn.Block
	Gaps   bool // the whole tensor has elements that no member holds; they are 0
	// Order sorts the tensors in a file. Tensors with the same Order keep the order of the first rank that has them.
	Order int
}

// PartOf returns t as a Part. t is the slice s of a whole tensor.
func PartOf(file, name string, t tensor.Tensor, s nn.Slice) Part {
	whole := s.WholeShape(t.Shape())
	return Part{File: file, Field: tensor.Field{Name: name, DType: t.DType(), Shape: whole}, Memory: t.Bytes(),
		Blocks: []nn.Block{s.Block(whole).Times(t.DType().Size())}}
}

// PartsOf returns a Part for every parameter and buffer of network, in order. network declares the whole network, and p
// holds the member's part of it. A tensor that p lacks has a Part without memory. The names begin with prefix.
func PartsOf(file, prefix string, p, network *nn.Params[float32]) (parts []Part) {
	mine, index := p.Layout(), map[string]int{}
	for i, f := range mine.Fields() {
		index[f.Name] = i
	}
	for _, f := range network.Layout().Fields() {
		part := Part{File: file, Field: tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: f.Shape}}
		if i, ok := index[f.Name]; ok {
			part.Memory = p.State()[mine.Offset(i):][:mine.Fields()[i].Bytes()]
			part.Blocks = []nn.Block{p.SliceOf(f.Name).Block(f.Shape).Times(f.DType.Size())}
		}
		parts = append(parts, part)
	}
	return parts
}

// FlatPart returns t as a Part of a flat tensor, which has one element for each parameter of the whole network and for
// each gap between parameters. network declares this network. t has the elements for p.Data[lo:lo+t.Len()].
func FlatPart(file, name string, t tensor.Tensor, lo int, p, network *nn.Params[float32]) Part {
	_, n := network.Range(0, len(network.Fields)-1)
	part := Part{File: file, Field: tensor.Field{Name: name, DType: t.DType(), Shape: []int{n}}, Memory: t.Bytes(),
		Gaps: true}
	blocks := []nn.Block{{Len: n, Stride: n, Count: 1}}
	if len(p.Data) < n {
		blocks = p.Blocks(network)
	}
	for _, b := range blocks {
		for _, c := range b.Clip(lo, lo+t.Len()) {
			part.Blocks = append(part.Blocks, c.Times(t.DType().Size()))
		}
	}
	return part
}

// within calls f for each contiguous run of the part's bytes in [lo, hi) of the whole tensor. f gets the offset of the
// run in the whole tensor, its offset in Memory, and its length.
func (p *Part) within(lo, hi int, f func(offset, inMemory, n int)) {
	for _, b := range p.Blocks {
		b.Within(lo, hi, f)
	}
}

// count returns the number of bytes that blocks have in [lo, hi) of the whole tensor, and the number of contiguous
// runs.
func count(blocks []nn.Block, lo, hi int) (n, runs int) {
	for _, b := range blocks {
		b.Within(lo, hi, func(_, _, more int) { n, runs = n+more, runs+1 })
	}
	return n, runs
}

// pack returns the bytes of the part in [lo, hi) of the whole tensor, one run after the other. If there is one run, the
// result is a slice of Memory. Otherwise it is a copy in buf: see copyTo.
func (p *Part) pack(buf *[]byte, lo, hi int) []byte {
	if _, runs := count(p.Blocks, lo, hi); runs != 1 {
		return p.copyTo(buf, lo, hi)
	}
	var run []byte
	p.within(lo, hi, func(_, here, n int) { run = p.Memory[here : here+n] })
	return run
}

// copyTo copies the bytes of the part in [lo, hi) of the whole tensor to buf, one run after the other, and returns the
// copy. buf grows if it is too short.
func (p *Part) copyTo(buf *[]byte, lo, hi int) []byte {
	size, _ := count(p.Blocks, lo, hi)
	packed := grown(buf, size)[:0]
	p.within(lo, hi, func(_, here, n int) { packed = append(packed, p.Memory[here:here+n]...) })
	return packed
}

// grown returns the first n bytes of buf. buf grows if it is too short.
func grown(buf *[]byte, n int) []byte {
	if len(*buf) < n {
		*buf = make([]byte, n)
	}
	return (*buf)[:n]
}
