package lm

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Weight is one weight of a model. Name is the name of the weight in a checkpoint folder.
type Weight struct {
	Name  string
	Shape []int    // shape of Data: matrices are [in, out], embeddings [vocabulary, width]
	Slice nn.Slice // the part of the whole weight that Data holds; Slice.Axis is an axis of Shape
	// If Transposed is true, the checkpoint has the transpose of Data. This holds for every matrix [in, out], and for
	// an embedding that is also the output matrix and has the shape [width, vocabulary].
	Transposed bool
	Data       []float32
	Grad       []float32 // nil if the weight is frozen
}

// A weight locates one tensor of the model, in the trainable parameters or in frozen memory. It has an index, not a
// slice, because the memory of the parameters may move.
type weight struct {
	m     *Model
	field int // index in m.Params or m.frozen
	fixed bool
}

func (w *weight) data() []float32 {
	switch {
	case w.fixed && w.m.kept:
		return w.m.Params.FrozenOf(w.field)
	case w.fixed:
		return w.m.frozen.of(w.field)
	}
	return w.m.Params.Of(w.field)
}

// grad returns the gradient, or nil if the weight is frozen.
func (w *weight) grad() []float32 {
	if w.fixed || w.m.Params.Grad == nil {
		return nil
	}
	return w.m.Params.GradOf(w.field)
}

// frozen holds weights that have no gradient.
type frozen struct {
	places [][2]int // the range of each weight's elements in data
	size   int      // elements, including gaps
	mem    []byte
	data   []float32 // mem as float32s

	uploaded bool // the device has the present weights
}

func (f *frozen) add(shape []int) int {
	end := f.size + nn.ParamTensor{Shape: shape}.Len()
	f.places = append(f.places, [2]int{f.size, end})
	f.size = (end + 15) &^ 15
	return len(f.places) - 1
}

func (f *frozen) of(i int) []float32 {
	lo, hi := f.places[i][0], f.places[i][1]
	return f.data[lo:hi:hi]
}

func (f *frozen) alloc(alloc tensor.Allocator) error {
	if f.size == 0 {
		return nil
	}
	mem, err := alloc(4 * f.size)
	if err != nil {
		return fmt.Errorf("frozen weights: %w", err)
	}
	f.mem, f.data = mem, tensor.Of(mem[:4*f.size], tensor.F32, f.size).F32()
	return nil
}

// declare adds a weight of the model: a trainable parameter, or a frozen weight. shape is the shape of the whole
// weight. The weight is split among the ranks along axis. If axis is -1, every rank has the whole weight.
func (m *Model) declare(name string, transposed bool, start initial, axis int, shape ...int) weight {
	w := weight{m: m, fixed: m.fixed}
	var slice nn.Slice
	if axis >= 0 {
		slice = m.Config.slice(m.part, axis, shape[axis])
		shape[axis] = slice.To - slice.From
		m.Params.Cut(name, slice)
	}
	switch {
	case m.fixed && m.kept:
		w.field = m.Params.AddFrozen(name, shape...)
	case m.fixed:
		w.field = m.frozen.add(shape)
	default:
		w.field = m.Params.Add(name, shape...)
	}
	m.index[name] = len(m.list)
	m.list = append(m.list, listed{name, shape, slice, transposed, start, w})
	return w
}

// An initial is the rule for the values of a weight in a new model.
type initial uint8

const (
	zeros  initial = iota // 0, for biases
	ones                  // 1, for weights of norms
	normal                // normal numbers with deviation Config.InitRange
)

type listed struct {
	name       string
	shape      []int
	slice      nn.Slice
	transposed bool
	start      initial
	weight     weight
}

// Tensors returns all weights of the model in the order of the forward pass, without adapters.
// Before Alloc they have no Data. The caller may change the weights until the next pass.
func (m *Model) Tensors() []Weight {
	m.frozen.uploaded = false
	all := make([]Weight, len(m.list))
	for i, l := range m.list {
		all[i] = Weight{Name: l.name, Shape: l.shape, Slice: l.slice, Transposed: l.transposed}
		if m.ready {
			all[i].Data, all[i].Grad = l.weight.data(), l.weight.grad()
		}
	}
	return all
}

// Count returns the number of elements of all weights, without adapters.
func (m *Model) Count() int {
	n := 0
	for _, l := range m.list {
		n += nn.ParamTensor{Shape: l.shape}.Len()
	}
	return n
}

// Whole returns the whole model that m is a part of, without memory for the weights.
func (m *Model) Whole() *Model {
	o := Options{Frozen: m.fixed, LoRA: m.lora, Kept: m.kept, Headless: m.headless, Values: m.values}
	whole, err := New(new(nn.Params[float32]), m.Config, o)
	if err != nil {
		panic(fmt.Sprintf("lm: the whole of a model: %v", err)) // New has made m of the same configuration
	}
	return whole
}

// Init draws the weights of a new model: normal numbers with deviation Config.InitRange, 0 for biases, 1 for norms. A
// part of a model gets the same numbers as in the whole model. For the adapters, see InitAdapters.
func (m *Model) Init(seed uint64) {
	m.frozen.uploaded = false
	for key, w := range m.Whole().list {
		i, here := m.index[w.name]
		if !here {
			continue
		}
		data := m.list[i].weight.data()
		switch w.start {
		case zeros:
			clear(data)
		case ones:
			for j := range data {
				data[j] = 1
			}
		case normal:
			fillNormal(data, m.Params.SliceOf(w.name).Block(w.shape), m.Config.InitRange, seed, uint64(key))
		}
	}
	m.InitAdapters(seed)
}

// fillNormal sets x to normal numbers from the stream of seed and key. x is block b of a whole tensor. Element i of the
// whole tensor is normal number i.
func fillNormal(x []float32, b nn.Block, deviation float64, seed, key uint64) {
	const perStream = 1 << 20 // numbers per stream, so that no stream runs out
	b.Within(0, math.MaxInt, func(at, here, n int) {
		for n > 0 {
			s := philox.New(seed, philox.Init, key, uint64(at/perStream))
			s.Skip(at % perStream / 2)
			part := x[here:][:min(n, perStream-at%perStream)]
			i := at % 2
			if i == 1 { // the second number of a pair
				_, second := s.Normal()
				part[0] = float32(deviation * second)
			}
			for ; i < len(part); i += 2 {
				first, second := s.Normal()
				part[i] = float32(deviation * first)
				if i+1 < len(part) {
					part[i+1] = float32(deviation * second)
				}
			}
			at, here, n = at+len(part), here+len(part), n-len(part)
		}
	})
}
