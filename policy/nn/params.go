package nn

import (
	"fmt"
	"unsafe"

	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// Float is what layers compute in: float32 in training, float64 in gradient checks.
type Float interface{ float32 | float64 }

// Params are all parameters of a network in one flat buffer, with their gradients in another of the same layout, so that
// optimisers and reducers see two slices and no structure. Every tensor starts on 64 bytes; the gaps hold zeros and stay zero.
// The zero Params is empty: declare what it holds with Group, Add and AddBuffer, then call Alloc.
type Params[T Float] struct {
	Data    []T
	Grad    []T
	Fields  []Field     // in the order of the layout
	Groups  []Group     // ranges of Data that an optimiser may treat apart; they do not overlap and cover Data
	Buffers tensor.Dict // state that is not trained but belongs to the weights, as observation statistics (F64); travels with them

	size    int // elements declared so far, gaps included
	buffers []tensor.Field

	products Products[T]
}

// A Field is one named parameter tensor.
type Field struct {
	Name  string // dotted: actor.0.weight
	Shape []int
	Off   int // of its first element in Data
}

// Len returns the number of elements.
func (f Field) Len() int {
	n := 1
	for _, d := range f.Shape {
		n *= d
	}
	return n
}

// A Group is a range of parameters with a name of its own in the config: "actor", "critic", "shared".
type Group struct {
	Name      string
	Lo, Hi    int
	Trainable bool
}

// Group opens a trainable group: what is added from here on belongs to it.
func (p *Params[T]) Group(name string) {
	p.Groups = append(p.Groups, Group{Name: name, Lo: p.size, Hi: p.size, Trainable: true})
}

// Add declares a parameter tensor and returns its index in Fields. It panics outside of a group, for a name that stands twice,
// and after Alloc.
func (p *Params[T]) Add(name string, shape ...int) int {
	if len(p.Groups) == 0 || p.Data != nil {
		panic(fmt.Sprintf("nn: parameter %q added before the first group or after Alloc", name))
	}
	for _, f := range p.Fields {
		if f.Name == name {
			panic(fmt.Sprintf("nn: two parameters %q", name))
		}
	}
	f := Field{Name: name, Shape: shape, Off: p.size}
	p.Fields = append(p.Fields, f)
	p.size += aligned[T](f.Len())
	p.Groups[len(p.Groups)-1].Hi = p.size
	return len(p.Fields) - 1
}

// AddBuffer declares an F64 buffer.
func (p *Params[T]) AddBuffer(name string, shape ...int) {
	p.buffers = append(p.buffers, tensor.Field{Name: name, DType: tensor.F64, Shape: shape})
}

// Alloc takes zeroed memory for data, gradients and buffers, one piece each.
func (p *Params[T]) Alloc(alloc tensor.Allocator) error {
	if p.products.Gemm == nil {
		p.products = Products[T]{kernel.Gemm[T], kernel.GemmTA[T], kernel.GemmBias[T]}
	}
	var e T
	flat := func() ([]T, error) {
		b, err := alloc(p.size * int(unsafe.Sizeof(e)))
		if err != nil || p.size == 0 {
			return nil, err
		}
		return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), p.size), nil
	}
	var err error
	if p.Data, err = flat(); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if p.Grad, err = flat(); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	layout := tensor.NewLayout(p.buffers...)
	mem, err := alloc(layout.Size())
	if err != nil {
		return fmt.Errorf("parameter buffers: %w", err)
	}
	p.Buffers = layout.Bind(mem[:layout.Size()])
	return nil
}

// Len returns the number of parameters: Data without the gaps.
func (p *Params[T]) Len() int {
	n := 0
	for _, f := range p.Fields {
		n += f.Len()
	}
	return n
}

// Of returns the elements of field i, a view of Data.
func (p *Params[T]) Of(i int) []T { return within(p.Data, p.Fields[i]) }

// GradOf returns the gradient of field i, a view of Grad.
func (p *Params[T]) GradOf(i int) []T { return within(p.Grad, p.Fields[i]) }

// Range returns the part [lo,hi) of the flat buffers that fields first to last take, the gaps behind them included.
func (p *Params[T]) Range(first, last int) (lo, hi int) {
	f := p.Fields[last]
	return p.Fields[first].Off, f.Off + aligned[T](f.Len())
}

func within[T Float](flat []T, f Field) []T {
	hi := f.Off + f.Len()
	return flat[f.Off:hi:hi]
}

// aligned rounds n elements up to a whole number of tensor.Align bytes.
func aligned[T Float](n int) int {
	var e T
	per := tensor.Align / int(unsafe.Sizeof(e))
	return (n + per - 1) / per * per
}

// Vector returns n zeros on the Go heap, aligned as parameters are: what a layer's activations are made of.
func Vector[T Float](n int) []T {
	var e T
	b, _ := tensor.Heap(n * int(unsafe.Sizeof(e))) // the heap's allocator never fails
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
