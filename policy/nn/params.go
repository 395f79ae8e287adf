package nn

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlinf/rlinf/tensor"
)

// Float is the element type of layers: float32 in training, float64 in gradient checks.
type Float interface{ float32 | float64 }

// Params holds all parameters of a network in one flat buffer, and their gradients in a second buffer of the same
// layout. So optimisers and reducers see only two slices. Every tensor starts on a multiple of 64 bytes; the gaps
// between tensors hold zeros and stay zero. The zero Params is empty: declare its tensors with Group, Add and
// AddBuffer, then call Alloc.
type Params[T Float] struct {
	Data   []T
	Grad   []T
	Fields []ParamTensor // in the order of the layout
	Groups []ParamGroup  // ranges of Data with their own optimiser settings; they do not overlap, and cover Data
	// Buffers are saved and sent with the weights, but are not trained. Observation statistics (F64) are an example.
	Buffers tensor.Dict
	// Untrained makes Alloc allocate no gradients. Grad stays nil.
	Untrained bool

	index   map[string]int   // index in Fields, by name
	slices  map[string]Slice // by the name of a parameter or of a frozen weight; a tensor without an entry is whole
	size    int              // number of elements declared so far, gaps included
	buffers []tensor.Field
	frozen  []frozenField
	state   []byte // Data, then Buffers

	ops    Ops[T]
	device Device[T] // the same as ops, if they compute on a device; else nil
}

// A ParamTensor is one named parameter tensor.
type ParamTensor struct {
	Name  string // dotted: actor.0.weight
	Shape []int
	Off   int // index of the first element in Data
	// If Optional is set, loaded weights may lack this field, and the field keeps its initial values. For example, the
	// weights of a model without adapters lack the adapters.
	Optional bool
}

// Len returns the number of elements.
func (f ParamTensor) Len() int { return product(f.Shape) }

// A ParamGroup is a range of parameters with a name, such as "actor", "critic" or "shared".
type ParamGroup struct {
	Name      string
	Lo, Hi    int
	Trainable bool
}

// Group opens a trainable group. Parameters that are added before the next call of Group belong to it.
func (p *Params[T]) Group(name string) {
	p.Groups = append(p.Groups, ParamGroup{Name: name, Lo: p.size, Hi: p.size, Trainable: true})
}

// Add declares a parameter tensor and returns its index in Fields. It panics before the first Group, after Alloc, and
// if the name exists already.
func (p *Params[T]) Add(name string, shape ...int) int {
	if len(p.Groups) == 0 || p.Data != nil {
		panic(fmt.Sprintf("nn: parameter %q added before the first group or after Alloc", name))
	}
	if _, taken := p.index[name]; taken {
		panic(fmt.Sprintf("nn: two parameters %q", name))
	}
	if p.index == nil {
		p.index = map[string]int{}
	}
	p.index[name] = len(p.Fields)
	f := ParamTensor{Name: name, Shape: shape, Off: p.size}
	p.Fields = append(p.Fields, f)
	p.size += aligned[T](f.Len())
	p.Groups[len(p.Groups)-1].Hi = p.size
	return len(p.Fields) - 1
}

// AddBuffer declares an F64 buffer.
func (p *Params[T]) AddBuffer(name string, shape ...int) {
	p.buffers = append(p.buffers, tensor.Field{Name: name, DType: tensor.F64, Shape: shape})
}

// A frozenField is a weight that is not trained. It lies among the buffers.
type frozenField struct {
	buffer int // index in Params.buffers
	data   []byte
}

// AddFrozen declares a weight that is not trained and returns its index for FrozenOf. The weight lies
// among the buffers, and has the type of the parameters.
func (p *Params[T]) AddFrozen(name string, shape ...int) int {
	p.frozen = append(p.frozen, frozenField{buffer: len(p.buffers)})
	p.buffers = append(p.buffers, tensor.Field{Name: name, DType: dtypeOf[T](), Shape: shape})
	return len(p.frozen) - 1
}

// FrozenOf returns the elements of the weight for which AddFrozen returned i.
func (p *Params[T]) FrozenOf(i int) []T {
	return flat[T](p.frozen[i].data, len(p.frozen[i].data)/sizeOf[T]())
}

// A Slice is a part of a tensor: the indices [From, To) of axis Axis. Whole is the length of this axis in the whole
// tensor. The zero Slice is the whole tensor.
type Slice struct{ Axis, From, To, Whole int }

// All reports whether s is the whole tensor.
func (s Slice) All() bool { return s.Whole == 0 || s.To-s.From == s.Whole }

// WholeShape returns the shape of the whole tensor, given the shape of its slice s.
func (s Slice) WholeShape(shape []int) []int {
	whole := slices.Clone(shape)
	if !s.All() {
		whole[s.Axis] = s.Whole
	}
	return whole
}

// Cut records that the parameter or frozen weight with the given name is the slice s of a larger tensor.
func (p *Params[T]) Cut(name string, s Slice) {
	if p.slices == nil {
		p.slices = map[string]Slice{}
	}
	p.slices[name] = s
}

// SliceOf returns the Slice that Cut recorded for the named parameter or frozen weight.
func (p *Params[T]) SliceOf(name string) Slice { return p.slices[name] }

// Alloc takes zeroed memory from alloc: one piece for Data and Buffers, and one for Grad unless Untrained is set.
func (p *Params[T]) Alloc(alloc tensor.Allocator) error {
	size := p.Layout().Size()
	state, err := p.Sharing(alloc)(size)
	if err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	p.View(state[:size])
	if p.Untrained {
		return nil
	}
	grad, err := p.Sharing(alloc)(p.size * sizeOf[T]())
	if err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	p.Grad = flat[T](grad, p.size)
	return nil
}

// Layout returns the layout of State: the fields, then the buffers.
func (p *Params[T]) Layout() *tensor.Layout {
	fields := make([]tensor.Field, 0, len(p.Fields)+len(p.buffers))
	for _, f := range p.Fields {
		fields = append(fields, tensor.Field{Name: f.Name, DType: dtypeOf[T](), Shape: f.Shape})
	}
	return tensor.NewLayout(append(fields, p.buffers...)...)
}

// State returns the memory of Data and Buffers, which is one piece.
func (p *Params[T]) State() []byte { return p.state }

// View makes Data and Buffers views of state, the result of State of other parameters with the same layout. The network
// then computes with the values in state, without a copy. No layer may compute during View. View does not allocate.
func (p *Params[T]) View(state []byte) {
	at := p.size * sizeOf[T]()
	if p.state != nil && len(state) != len(p.state) {
		panic(fmt.Sprintf("nn: view of %d bytes, the state has %d", len(state), len(p.state)))
	}
	p.state, p.Data = state, flat[T](state, p.size)
	frozen := p.frozen
	for i, f := range p.buffers {
		n := f.Bytes()
		if len(frozen) > 0 && frozen[0].buffer == i {
			frozen[0].data, frozen = state[at:at+n:at+n], frozen[1:]
		}
		p.Buffers.Set(f.Name, tensor.Of(state[at:at+n:at+n], f.DType, f.Shape...))
		at += (n + tensor.Align - 1) &^ (tensor.Align - 1)
	}
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
func (p *Params[T]) Of(i int) []T { return within(p.Data, &p.Fields[i]) }

// GradOf returns the gradient of field i, a view of Grad.
func (p *Params[T]) GradOf(i int) []T { return within(p.Grad, &p.Fields[i]) }

// Range returns the range [lo,hi) of Data and Grad that holds the fields from first to last, including gaps.
func (p *Params[T]) Range(first, last int) (lo, hi int) {
	f := &p.Fields[last]
	return p.Fields[first].Off, f.Off + aligned[T](product(f.Shape))
}

func within[T Float](flat []T, f *ParamTensor) []T {
	hi := f.Off + product(f.Shape)
	return flat[f.Off:hi:hi]
}

// aligned rounds n elements up to a whole number of tensor.Align bytes.
func aligned[T Float](n int) int {
	per := tensor.Align / sizeOf[T]()
	return (n + per - 1) / per * per
}

// Vector returns n zeros on the Go heap, aligned like parameters. Layers keep activations in it.
func Vector[T Float](n int) []T {
	b, _ := tensor.Heap(n * sizeOf[T]()) // the heap's allocator never fails
	return flat[T](b, n)
}

// flat returns b as n elements, or nil if n is 0.
func flat[T Float](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func sizeOf[T Float]() int { return int(unsafe.Sizeof(*new(T))) }

func dtypeOf[T Float]() tensor.DType {
	if sizeOf[T]() == 8 {
		return tensor.F64
	}
	return tensor.F32
}
