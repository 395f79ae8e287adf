package export

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/tensor"
)

// Versions of the format.
const (
	irVersion = 8
	opset     = 17
)

// onnx returns a ModelProto for p. It accepts a batch of any size N.
func (p *program) onnx(d *Manifest) []byte {
	o := &onnx{program: p, flats: map[value]string{}, pictures: map[value]string{}}
	o.read(d)
	for i := range p.steps {
		o.translate(&p.steps[i])
	}
	o.write(d)
	o.graph.text(2, d.Task)
	var set, model message
	set.text(1, "")
	set.int(2, opset)
	model.int(1, irVersion)
	model.text(2, "rlinf")
	model.text(3, d.Build)
	model.bytes(7, o.graph)
	model.bytes(8, set)
	return model
}

// An onnx is a GraphProto that grows step by step. A value has one or two forms: a row [N, len], and an image [N, C, H,
// W] for ONNX's convolutions. Images of rlinf are [H, W, C].
type onnx struct {
	*program
	graph    message
	count    int // number of new names so far
	flats    map[value]string
	pictures map[value]string
	begin    string   // [N, 1]: true where an episode begins
	state    string   // [N, M], zeros where an episode begins
	next     []string // states of the recurrent cells
	older    []string // the next frames of each stacked observation, [N, frames-1, …]
}

// name returns a new name. It begins with a slash, which names of observations do not contain.
func (o *onnx) name() string {
	o.count++
	return fmt.Sprintf("/%d", o.count)
}

// op appends a node with one output and returns the name of the output.
func (o *onnx) op(kind string, in ...string) string { return o.opWith(kind, nil, in...) }

func (o *onnx) opWith(kind string, attributes []attribute, in ...string) string {
	out := o.name()
	o.node(kind, attributes, in, out)
	return out
}

func (o *onnx) node(kind string, attributes []attribute, in []string, out ...string) {
	var m message
	for _, name := range in {
		m.text(1, name)
	}
	for _, name := range out {
		m.text(2, name)
	}
	m.text(3, kind+out[len(out)-1])
	m.text(4, kind)
	for _, a := range attributes {
		m.bytes(5, a.proto())
	}
	o.graph.bytes(1, m)
}

// floats appends a constant of float32 and returns its name. Without dims, the constant is a scalar.
func (o *onnx) floats(x []float32, dims ...int) string {
	name := o.name()
	o.graph.bytes(5, tensorProto(name, elementTypes[tensor.F32], dims, rawF32(x)))
	return name
}

func (o *onnx) float(x float64) string { return o.floats([]float32{float32(x)}) }

// ints appends a vector of int64.
func (o *onnx) ints(x ...int) string { return o.whole(x, len(x)) }

func (o *onnx) whole(x []int, dims ...int) string {
	name := o.name()
	o.graph.bytes(5, tensorProto(name, elementTypes[tensor.I64], dims, rawI64(x)))
	return name
}

// shaped appends a node that reshapes its input to [N, dims…].
func (o *onnx) shaped(in string, dims ...int) string {
	return o.op("Reshape", in, o.ints(append([]int{-1}, dims...)...))
}

func (o *onnx) turned(in string, axes ...int) string {
	return o.opWith("Transpose", []attribute{{"perm", axes}}, in)
}

func (o *onnx) cast(in string, elementType int64) string {
	return o.opWith("Cast", []attribute{{"to", int(elementType)}}, in)
}

func (o *onnx) concat(axis int, in ...string) string {
	if len(in) == 1 {
		return in[0]
	}
	return o.opWith("Concat", []attribute{{"axis", axis}}, in...)
}

// slice appends a node that takes the elements [lo, hi) along an axis.
func (o *onnx) slice(in string, axis, lo, hi int) string {
	return o.op("Slice", in, o.ints(lo), o.ints(hi), o.ints(axis))
}

func (o *onnx) sum(in string, axis int) string {
	return o.opWith("ReduceSum", []attribute{{"keepdims", 0}}, in, o.ints(axis))
}

// flat returns a value as rows [N, len], with the elements of an image in the order [H, W, C].
func (o *onnx) flat(v value) string {
	if name, ok := o.flats[v]; ok {
		return name
	}
	o.flats[v] = o.shaped(o.turned(o.pictures[v], 0, 2, 3, 1), o.values[v].len())
	return o.flats[v]
}

// picture returns a value as images [N, C, H, W].
func (o *onnx) picture(v value) string {
	if name, ok := o.pictures[v]; ok {
		return name
	}
	h, w, c := o.values[v].image()
	o.pictures[v] = o.turned(o.shaped(o.flats[v], h, w, c), 0, 3, 1, 2)
	return o.pictures[v]
}

// image returns the shape of k as an image. A vector is an image of one pixel.
func (k kind) image() (h, w, c int) {
	if len(k.shape) == 3 {
		return k.shape[0], k.shape[1], k.shape[2]
	}
	return 1, 1, k.len()
}

// each appends a node that works on single elements. If the first input has the form of images, the node takes images;
// otherwise it takes rows.
func (o *onnx) each(s *step, kind string) {
	forms, form := o.flats, o.flat
	if _, have := o.pictures[s.in[0]]; have {
		forms, form = o.pictures, o.picture
	}
	var in []string
	for _, v := range s.in {
		in = append(in, form(v))
	}
	forms[s.out] = o.op(kind, in...)
}

// read appends the inputs.
func (o *onnx) read(d *Manifest) {
	for _, in := range d.Inputs {
		o.graph.bytes(11, valueInfo(in.Name, in.elementType(), in.row()))
	}
	for i, f := range o.inputs {
		o.flats[value(i)] = f.Name
		if len(f.Shape) != 1 {
			o.flats[value(i)] = o.shaped(f.Name, f.Dim())
		}
	}
	if o.noise != none {
		o.flats[o.noise] = o.shaped(noiseName, o.values[o.noise].len())
	}
	if o.begins() {
		o.begin = o.shaped(beginName, 1)
	}
	if o.memory > 0 {
		o.state = o.op("Where", o.begin, o.float(0), memoryName)
	}
}

// write appends the outputs.
func (o *onnx) write(d *Manifest) {
	results := map[string]string{actionName: o.flat(o.action)}
	if o.critic != none {
		results[valueName] = o.flat(o.critic)
	}
	if o.memory > 0 {
		results[memoryName+nextSuffix] = o.concat(1, o.next...)
	}
	at := 0
	for _, out := range d.Outputs {
		name, known := results[out.Name]
		if !known {
			name = o.older[at]
			at++
		}
		o.node("Reshape", nil, []string{name, o.ints(append([]int{-1}, out.row()...)...)}, out.Name)
		o.graph.bytes(12, valueInfo(out.Name, out.elementType(), out.row()))
	}
}

// translate appends the nodes of a step.
func (o *onnx) translate(s *step) {
	first := ""
	if len(s.in) > 0 && s.in[0] != none {
		switch s.op {
		case graph.Conv, graph.MaxPool, graph.Softmax2D, graph.Coordinates, graph.Point, graph.FiLM:
			first = o.picture(s.in[0])
		case graph.Tanh, graph.ReLU, graph.Residual:
		default:
			first = o.flat(s.in[0])
		}
	}
	h, w, c := o.values[s.out].image()
	switch s.op {
	case elements:
		o.flats[s.out] = o.opWith("Gather", []attribute{{"axis", 1}}, first, o.ints(s.ints("elements")...))
	case stack:
		o.flats[s.out] = o.stack(s, first)
	case columns:
		o.flats[s.out] = o.slice(first, 1, s.int("first"), s.int("first")+o.values[s.out].len())
	case graph.Concat:
		var in []string
		for _, v := range s.in {
			in = append(in, o.flat(v))
		}
		o.flats[s.out] = o.concat(1, in...)
	case graph.Byte:
		n := len(s.params[0])
		x := o.op("Sub", o.cast(first, elementTypes[tensor.F32]), o.floats(s.params[0], n))
		o.flats[s.out] = o.op("Mul", x, o.floats(s.params[1], n))
	case affine:
		n := len(s.params[0])
		x := o.op("Mul", o.op("Sub", first, o.floats(s.params[0], n)), o.floats(s.params[1], n))
		o.flats[s.out] = o.op("Add", x, o.floats(s.params[2], n))
	case graph.Clip:
		n := len(s.params[0])
		o.flats[s.out] = o.op("Min", o.op("Max", first, o.floats(s.params[0], n)), o.floats(s.params[1], n))
	case spread:
		o.flats[s.out] = o.op("Add", first, o.op("Mul", o.floats(s.params[0], len(s.params[0])), o.flats[o.noise]))
	case deviate:
		o.flats[s.out] = o.deviate(s, first)
	case graph.Categorical, graph.Greedy:
		o.flats[s.out] = o.choose(s, first)
	case graph.OneHot:
		o.flats[s.out] = o.oneHot(s, first)
	case graph.Image:
		o.pictures[s.out] = o.image(s, first)
	case graph.Dense:
		n := len(s.params[1])
		o.flats[s.out] = o.op("Gemm", first, o.floats(s.params[0], len(s.params[0])/n, n), o.floats(s.params[1], n))
	case graph.Tanh:
		o.each(s, "Tanh")
	case graph.ReLU:
		o.each(s, "Relu")
	case graph.Residual:
		o.each(s, "Add")
	case graph.LayerNorm:
		n := len(s.params[0])
		o.flats[s.out] = o.opWith("LayerNormalization", []attribute{{"epsilon", float32(s.number("epsilon"))}}, first,
			o.floats(s.params[0], n), o.floats(s.params[1], n))
	case graph.Conv:
		_, _, channels := o.values[s.in[0]].image()
		size := s.int("size")
		o.pictures[s.out] = o.opWith("Conv", s.windows(), first, o.floats(
			filters(s.params[0], size*size, channels, c), c, channels, size, size), o.floats(s.params[1], c))
	case graph.MaxPool:
		o.pictures[s.out] = o.opWith("MaxPool", s.windows(), first)
	case graph.FiLM:
		film := o.flat(s.in[1])
		gamma := o.shaped(o.slice(film, 1, 0, c), c, 1, 1)
		beta := o.shaped(o.slice(film, 1, c, 2*c), c, 1, 1)
		o.pictures[s.out] = o.op("Add", o.op("Add", first, o.op("Mul", gamma, first)), beta)
	case graph.Softmax2D:
		h, w, c := o.values[s.in[0]].image()
		o.flats[s.out] = o.shaped(o.turned(o.positions(s, o.shaped(first, c, h*w), h, w), 0, 2, 1), 2*c)
	case graph.Coordinates:
		x := grid(h, w)
		size := o.concat(0, o.opWith("Shape", []attribute{{"end", 1}}, first), o.ints(2, h, w))
		o.pictures[s.out] = o.concat(1, first, o.op("Expand", o.floats(x, 1, 2, h, w), size))
	case graph.Point:
		o.flats[s.out] = o.point(s, first)
	case graph.Embedding:
		o.flats[s.out] = o.sum(o.rows(s, s.params[0], c, first, s.ints("zero")), 1)
	case graph.Sentence:
		places := s.int("places")
		x := o.rows(s, withNone(s.params[0], c), c, first, s.words())
		o.flats[s.out] = o.sum(o.op("Mul", x, o.floats(s.params[1], places, c)), 1)
	case graph.GRU, graph.LSTM:
		o.flats[s.out] = o.cell(s, first, c)
	default:
		panic(fmt.Sprintf("export: onnx: no operation %s", s.op))
	}
}

// stack appends nodes for frame stacking. It returns the newest frames, [N, frames·len], and keeps all but the oldest
// of them for the next step.
func (o *onnx) stack(s *step, frame string) string {
	k, row := o.frames, o.values[s.in[0]]
	last := o.shaped(s.name+framesSuffix, (k-1)*row.len())
	x := o.op("Where", o.begin, o.op("Tile", frame, o.ints(1, k)), o.concat(1, last, frame))
	o.older = append(o.older, o.slice(x, 1, row.len(), k*row.len()))
	return x
}

// oneHot appends nodes for one-hot codes. It returns rows with the numbers, and then a number for each option of each
// choice.
func (o *onnx) oneHot(s *step, choices string) string {
	zero, width := slices.Clone(s.ints("zero")), o.values[s.out].len()
	numbers := 0
	if len(s.in) > 1 {
		numbers = o.values[s.in[1]].len()
	}
	for k := range zero {
		zero[k] -= numbers
	}
	index := o.op("Add", o.cast(choices, elementTypes[tensor.I64]), o.ints(zero...))
	codes := o.sum(o.op("OneHot", index, o.whole([]int{width - numbers}), o.floats([]float32{0, 1}, 2)), 1)
	if numbers == 0 {
		return codes
	}
	return o.concat(1, o.flat(s.in[1]), codes)
}

// image converts bytes [frames, H, W, C] to images of numbers, [N, frames·C, H, W].
func (o *onnx) image(s *step, bytes string) string {
	h, w, c := o.values[s.out].image()
	frames := s.int("frames")
	x := o.turned(o.shaped(o.cast(bytes, elementTypes[tensor.F32]), frames, h, w, c/frames), 0, 1, 4, 2, 3)
	x = o.op("Mul", o.shaped(x, c, h, w), o.float((s.number("high")-s.number("low"))/255))
	if low := s.number("low"); low != 0 {
		x = o.op("Add", x, o.float(low))
	}
	return x
}

// windows returns the attributes of a convolution or of a pooling.
func (s *step) windows() []attribute {
	size, stride, pad := s.int("size"), s.int("stride"), s.int("pad")
	return []attribute{{"kernel_shape", []int{size, size}}, {"strides", []int{stride, stride}},
		{"pads", []int{pad, pad, pad, pad}}}
}

// filters reorders weights from [pixels, channels, filters] to [filters, channels, pixels].
func filters(w []float32, pixels, channels, count int) []float32 {
	turned := make([]float32, len(w))
	for p := range pixels {
		for c := range channels {
			for f := range count {
				turned[(f*channels+c)*pixels+p] = w[(p*channels+c)*count+f]
			}
		}
	}
	return turned
}

// grid returns the positions of the pixels' centres in [-1, 1]: all x, then all y.
func grid(h, w int) (x []float32) {
	for i := range h * w {
		x = append(x, float32(2*(i%w)+1)/float32(w)-1)
	}
	for i := range h * w {
		x = append(x, float32(2*(i/w)+1)/float32(h)-1)
	}
	return x
}

// positions returns the positions [N, C, 2] of the channels u, [N, C, H·W]. It first scales the channels to the
// standard deviation of the step.
func (o *onnx) positions(s *step, u string, h, w int) string {
	mean := func(x string) string {
		return o.opWith("ReduceMean", []attribute{{"axes", []int{2}}, {"keepdims", 1}}, x)
	}
	u = o.op("Sub", u, mean(u))
	root := o.op("Sqrt", o.op("Add", mean(o.op("Mul", u, u)), o.float(s.number("epsilon"))))
	u = o.op("Mul", u, o.op("Div", o.float(s.number("deviation")), root))
	prob := o.opWith("Softmax", []attribute{{"axis", 2}}, u)
	return o.op("MatMul", prob, o.turned(o.floats(grid(h, w), 2, h*w), 1, 0))
}

// rows returns rows of the table, [N, places, width]. The index of a row is a choice plus its element of zero. The
// choices begin at column first, a constant of the step.
func (o *onnx) rows(s *step, table []float32, width int, choices string, zero []int) string {
	first := s.int("first")
	index := o.cast(o.slice(choices, 1, first, first+len(zero)), elementTypes[tensor.I64])
	return o.op("Gather", o.floats(table, len(table)/width, width), o.op("Add", index, o.ints(zero...)))
}

// withNone returns the table with zeros in its first row. This row belongs to the lowest option, which means no word.
func withNone(table []float32, width int) []float32 {
	table = slices.Clone(table)
	clear(table[:width])
	return table
}

// words returns what must be added to the options of a sentence to get rows of a table.
func (s *step) words() []int { return slices.Repeat([]int{-s.int("none")}, s.int("places")) }

// point returns the positions of the objects that words mean, [N, 2·places]: all x, then all y.
func (o *onnx) point(s *step, image string) string {
	h, w, c := o.values[s.in[0]].image()
	choices, places := o.flat(s.in[1]), s.int("places")
	words := o.rows(s, s.params[0], c, choices, s.words())
	at := o.positions(s, o.op("MatMul", words, o.shaped(image, c, h*w)), h, w)
	first := s.int("first")
	word := o.op("Add", o.cast(o.slice(choices, 1, first, first+places), elementTypes[tensor.I64]),
		o.ints(s.words()...))
	said := o.cast(o.cast(word, boolType), elementTypes[tensor.F32])
	return o.shaped(o.turned(o.op("Mul", at, o.shaped(said, places, 1)), 0, 2, 1), 2*places)
}

// cell returns the output of a recurrent cell of the given width.
func (o *onnx) cell(s *step, x string, width int) string {
	at, in := s.int("state_first"), o.values[s.in[0]].len()
	order, kind := []int{1, 0, 2}, "GRU" // ONNX's order: r, z, g become z, r, h
	attributes := []attribute{{"hidden_size", width}}
	if s.op == graph.LSTM {
		order, kind = []int{0, 2, 1, 3}, "LSTM" // ONNX's order: i, f, o, g become i, o, f, c
	} else {
		attributes = append(attributes, attribute{"linear_before_reset", 1})
	}
	g := len(order) * width
	// gates transposes w, [rows, gates·width], and puts the gates in the order of ONNX.
	gates := func(w []float32) (turned []float32) {
		for _, gate := range order {
			for k := range width {
				for at := gate*width + k; at < len(w); at += g {
					turned = append(turned, w[at])
				}
			}
		}
		return turned
	}
	weights := []string{o.shapedOne(x, in), o.floats(gates(s.params[0]), 1, g, in),
		o.floats(gates(s.params[2]), 1, g, width),
		o.floats(slices.Concat(gates(s.params[1]), gates(s.params[3])), 1, 2*g), "",
		o.shapedOne(o.slice(o.state, 1, at, at+width), width)}
	outs := []string{"", o.name()}
	if s.op == graph.LSTM {
		weights = append(weights, o.shapedOne(o.slice(o.state, 1, at+width, at+2*width), width))
		outs = append(outs, o.name())
	}
	o.node(kind, attributes, weights, outs...)
	for i, out := range outs[1:] {
		outs[1+i] = o.shaped(out, width)
	}
	o.next = append(o.next, outs[1:]...)
	return outs[1]
}

// shapedOne reshapes rows to [1, N, width]. ONNX's recurrent nodes need the first axis: one step, or one direction.
func (o *onnx) shapedOne(in string, width int) string {
	return o.op("Reshape", in, o.ints(1, -1, width))
}

// deviate adds noise to the first half of x. The rest of x gives the standard deviations of the noise.
func (o *onnx) deviate(s *step, x string) string {
	n := o.values[s.out].len()
	rest := o.slice(x, 1, n, 2*n)
	if shift, ok := s.node.Const("shift").(float32); ok {
		rest = o.op("Add", rest, o.float(float64(shift)))
	}
	log := o.op("Add", o.op("Mul", o.op("Add", o.op("Tanh", rest), o.float(1)), o.float(s.number("half"))),
		o.float(s.number("low")))
	return o.op("Add", o.slice(x, 1, 0, n), o.op("Mul", o.op("Exp", log), o.flats[o.noise]))
}

// choose returns the chosen options, int32 [N, choices].
func (o *onnx) choose(s *step, x string) string {
	options := []int{o.values[s.in[0]].len()}
	if s.op == graph.Categorical {
		options = s.ints("options")
	}
	if mask := s.in[1]; mask != none {
		times := o.values[s.in[0]].len() / o.values[mask].len()
		allowed := o.op("Tile", o.cast(o.flat(mask), boolType), o.ints(1, times))
		x = o.op("Where", allowed, x, o.float(math.Inf(-1)))
	}
	largest := func(x string, last int) string {
		return o.opWith("ArgMax", []attribute{{"axis", 1}, {"keepdims", 1}, {"select_last_index", last}}, x)
	}
	var chosen []string
	at := 0
	for d, n := range options {
		part := x
		if len(options) > 1 {
			part = o.slice(x, 1, at, at+n)
		}
		at += n
		if o.noise == none {
			chosen = append(chosen, largest(part, 0))
			continue
		}
		// The chosen option is the first one at which the sum of probabilities exceeds the noise. Because of rounding,
		// it must also be limited to the last possible option.
		prob := o.opWith("Softmax", []attribute{{"axis", 1}}, part)
		passed := o.op("LessOrEqual", o.op("CumSum", prob, o.whole([]int{1})), o.slice(o.flats[o.noise], 1, d, d+1))
		index := o.opWith("ReduceSum", []attribute{{"keepdims", 1}}, o.cast(passed, elementTypes[tensor.I64]),
			o.ints(1))
		possible := o.cast(o.op("Greater", prob, o.float(0)), elementTypes[tensor.I32])
		chosen = append(chosen, o.op("Min", index, largest(possible, 1)))
	}
	return o.cast(o.concat(1, chosen...), elementTypes[tensor.I32])
}
