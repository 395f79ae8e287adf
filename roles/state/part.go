package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// The files of a checkpoint. Moves stands for no file: only moves carry the part.
const (
	Moves       = ""
	ModelFile   = job.ModelFile         // parameters and buffers of the model
	TrainerFile = "trainer.safetensors" // the rest of the algorithm's state: optimiser, counters, statistics
	// Weights of the next rollout. The file exists only if these weights are older than the model.
	RolloutFile = "rollout.safetensors"
	// States of environments, last observations, sums of running episodes. All tensors are [N, ...], in the order of
	// the environments' global indices.
	EnvFile = "env.safetensors"
)

// A Part is one worker's part of a tensor of the state. If it has Make or Fill, it stands for the parts that these
// functions return: tensors that exist only while they are saved, or that depend on what there is to load.
type Part struct {
	File   string       // the file that has the tensor, or Moves
	Field  tensor.Field // the whole tensor
	Memory []byte       `json:"-"`
	// Blocks has the positions of Memory in the whole tensor, in bytes and in ascending order. It is empty if the
	// worker holds nothing of the tensor.
	Blocks  []nn.Block
	Gaps    bool // the whole tensor has elements that no worker holds; they are 0
	Partial bool // the file omits the tensor if workers hold only some of it
	// Order sorts the tensors in a file. Tensors with the same Order keep the order of the first rank that has them.
	Order    int
	Spare    bool `json:"-"` // another worker has the same bytes; checkpoints take those
	Optional bool `json:"-"` // a file may lack the tensor

	// Make returns the parts to save or to send.
	Make func() ([]Part, error) `json:"-"`
	// Fill returns the parts to load, and a function that is called when all parts of the rank are filled. The function
	// may be nil.
	Fill func(Given) ([]Part, func() error) `json:"-"`
}

// A Purpose tells a worker why it lists its parts: for a checkpoint or for a move.
type Purpose struct {
	Step int64            // number of iterations so far
	Move bool             // a move, and no checkpoint
	Warn func(say string) // warns of data that a checkpoint lacks
}

// Given has the tensors that can be loaded, by file. In a move, the key Moves has those that only moves carry.
type Given map[string][]tensor.Field

// Has reports whether g has tensors of the file.
func (g Given) Has(file string) bool {
	_, ok := g[file]
	return ok
}

// Find returns the tensor of a file, and whether there is one.
func (g Given) Find(file, name string) (f tensor.Field, ok bool) {
	i := slices.IndexFunc(g[file], func(f tensor.Field) bool { return f.Name == name })
	if i >= 0 {
		f = g[file][i]
	}
	return f, i >= 0
}

// made returns the parts to save or to send. It replaces a part that has Make by the parts that Make returns.
func made(list []Part, move bool) (parts []Part, err error) {
	skip := func(p *Part) bool { return !move && (p.Spare || p.File == Moves) }
	for _, p := range list {
		switch {
		case skip(&p):
		case p.Make != nil:
			more, err := p.Make()
			if err != nil {
				return nil, err
			}
			for _, m := range more {
				if m.Order = p.Order; !skip(&m) {
					parts = append(parts, m)
				}
			}
		case p.Fill == nil:
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// wanted returns the parts to fill, and the functions to call afterwards. It replaces a part that has Fill by the parts
// that Fill returns. It omits parts of files that are not in given.
func wanted(list []Part, given Given) (parts []Part, after []func() error) {
	for _, p := range list {
		switch {
		case p.Fill != nil:
			more, then := p.Fill(given)
			parts = append(parts, more...)
			if then != nil {
				after = append(after, func() error {
					if err := then(); err != nil {
						return fmt.Errorf("%s: %w", cmp.Or(p.File, "move"), err)
					}
					return nil
				})
			}
		case p.Make == nil && given.Has(p.File):
			parts = append(parts, p)
		}
	}
	return parts, after
}

// Tensors describes tensors that Save makes and Load takes.
type Tensors struct {
	File   string
	Prefix string   // begins the names of the tensors in the file
	Except string   // begins the names of other tensors in the file; "" for none
	Slice  nn.Slice // the slice of each tensor
	Save   func() (tensor.Dict, error)
	Load   func(tensor.Dict) error // not called if there is no File
}

// Part returns the part that stands for the tensors of d.
func (d Tensors) Part() Part {
	return Part{File: d.File, Make: func() (parts []Part, err error) {
		made, err := d.Save()
		if err != nil {
			return nil, err
		}
		for i := range made.Len() {
			name, t := made.Entry(i)
			p := PartOf(d.File, d.Prefix+name, t, d.Slice)
			p.Partial = d.Slice.Whole > 0
			parts = append(parts, p)
		}
		return parts, nil
	}, Fill: func(given Given) (parts []Part, then func() error) {
		if !given.Has(d.File) {
			return nil, nil
		}
		var into tensor.Dict
		for _, f := range given[d.File] {
			name, ok := strings.CutPrefix(f.Name, d.Prefix)
			if !ok || d.Except != "" && strings.HasPrefix(f.Name, d.Except) {
				continue
			}
			into.Set(name, tensor.New(f.DType, Sliced(f.Shape, d.Slice)...))
			parts = append(parts, PartOf(d.File, f.Name, into.Must(name), d.Slice))
		}
		return parts, func() error { return d.Load(into) }
	}}
}

// Number returns the part that stores n. Loading calls set with the stored number. If there is no stored number, set is
// not called.
func Number(file, name string, n int64, set func(int64)) Part {
	t := tensor.FromI64([]int64{n}, 1)
	parts := []Part{PartOf(file, name, t, nn.Slice{})}
	return Part{File: file, Make: func() ([]Part, error) { return parts, nil }, Fill: func(given Given) ([]Part,
		func() error) {
		if _, ok := given.Find(file, name); !ok {
			return nil, nil
		}
		return parts, func() error {
			set(t.I64()[0])
			return nil
		}
	}}
}

// Sliced returns the shape of the slice s of a tensor.
func Sliced(whole []int, s nn.Slice) []int {
	shape := slices.Clone(whole)
	if !s.All() {
		shape[s.Axis] = s.To - s.From
	}
	return shape
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
	for i, f := range network.Layout().Fields() {
		part := Part{File: file, Field: tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: f.Shape},
			Optional: i < len(network.Fields) && network.Fields[i].Optional}
		if i, ok := index[f.Name]; ok {
			part.Memory = p.State()[mine.Offset(i):][:mine.Fields()[i].Bytes()]
			part.Blocks = []nn.Block{p.SliceOf(f.Name).Block(f.Shape).Times(f.DType.Size())}
		}
		parts = append(parts, part)
	}
	return parts
}

// RingPart returns the part for a tensor t of n rings, [n, capacity, ...]. Only the first steps of each ring are part
// of the state, whose tensor is [N, steps, ...]. rows are the rings in it.
func RingPart(file, name string, t tensor.Tensor, steps int, rows nn.Slice) Part {
	n, capacity := t.Dim(0), t.Dim(1)
	p := PartOf(file, name, t, rows)
	if steps == capacity {
		return p
	}
	p.Field.Shape[1], p.Blocks = steps, nil
	ring := len(p.Memory) / n
	used := ring / capacity * steps
	for i := range n {
		b := nn.Block{Len: used, Stride: used, Count: 1}
		p.Blocks = append(p.Blocks, b.Moved((rows.From+i)*used, i*ring))
	}
	return p
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
