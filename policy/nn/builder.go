package nn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/graph"
)

// A builder declares the parameters of layers.
type builder[T Float] struct {
	params   *Params[T]
	sources  []Source
	cells    []*recurrentCell[T]
	state    int // width of the state of all cells so far, side by side
	norms    []*BatchRenorm[T]
	dropouts int          // number of Dropout layers so far
	nodes    []graph.Node // descriptions of the earlier parts of the layer that is being built
}

// build returns the unit of l, and the shape of its output. It appends the layer's description to b.nodes. The argument
// in is the shape of the input, or nil before the first Input.
func (b *builder[T]) build(l Layer, name string, in *Image) (unit[T], Image, error) {
	before, params, buffers := b.nodes, len(b.params.Fields), len(b.params.buffers)
	b.nodes = nil
	u, out, err := b.declare(l, name, in)
	if err != nil {
		return nil, Image{}, err
	}
	n := graph.Node{Op: ops[l.kind], Name: l.name, Out: out.dims(), Parts: b.nodes, Consts: l.constants()}
	if c, ok := u.(interface{ constants() []graph.Const }); ok {
		n.Consts = append(c.constants(), n.Consts...)
	}
	if n.Params = b.params.described(params, buffers); b.nodes != nil {
		n.Params = nil // the parts describe them
	}
	if n.Params != nil || l.label != "" {
		n.Name = name
	}
	if l.kind == kindActivate {
		n.Op = activations[l.act]
	} else if l.shortcut != nil {
		n.Op = graph.Sum
	} else if _, ok := u.(*picture[T]); ok {
		n.Op = graph.Image
	} else if _, ok := u.(*featureMap[T]); ok {
		n.Op = graph.Map
	}
	b.nodes = append(before, n)
	return u, out, nil
}

// declare is build without the description.
func (b *builder[T]) declare(l Layer, name string, in *Image) (unit[T], Image, error) {
	switch l.kind {
	case kindInput, kindView, kindEmbed, kindSentence:
		return b.input(l, name)
	case kindConcat:
		return b.concat(l, name, in)
	case kindSequence:
		return b.sequence(l, name, in)
	}
	if l.kind == 0 {
		return nil, Image{}, fmt.Errorf("a Layer that no function of package nn made")
	}
	if in == nil {
		return nil, Image{}, fmt.Errorf("%v has no input: expected Input(name) before it; there are %s", l, b.names())
	}
	if (l.kind == kindKeypoint || l.kind == kindPoint) && !(l.scale > 0) {
		return nil, Image{}, fmt.Errorf("%v: expected a deviation > 0", l)
	}
	switch l.kind {
	case kindResidual:
		return b.residual(l, name, *in)
	case kindFiLM:
		return b.film(Sequence(append(slices.Clone(l.parts), Dense(2*in.C))...), l, name, *in)
	case kindModulated:
		return b.film(l.parts[0], l, name, *in)
	case kindPoint:
		return b.point(l, name, *in)
	case kindDense, kindConv, kindGRU, kindLSTM, kindSpatial:
		if l.width < 1 {
			return nil, Image{}, fmt.Errorf("%v: expected at least 1 output", l)
		}
	case kindActivate:
		if l.act != Tanh && l.act != ReLU {
			return nil, Image{}, fmt.Errorf("%v: expected Tanh or ReLU", l)
		}
	}
	vector := Image{1, 1, l.width}
	switch l.kind {
	case kindDense:
		return &dense[T]{NewLinear(b.params, name, in.Len(), l.width), l.initialGain()}, vector, nil
	case kindActivate:
		return &activation[T]{p: b.params, f: l.act, width: in.Len()}, *in, nil
	case kindNorm:
		return newLayerNorm(b.params, name, in.Len()), *in, nil
	case kindBatchNorm:
		return b.normed(&batchNorm[T]{NewBatchRenorm(b.params, name, in.Len()), 1}), *in, nil
	case kindBatchNorm2D:
		return b.normed(&batchNorm[T]{NewBatchNorm2D(b.params, name, in.C), in.H * in.W}), *in, nil
	case kindGroupNorm:
		if l.width < 1 || in.C%l.width != 0 {
			return nil, Image{}, fmt.Errorf("%v: expected a divisor of %d channels", l, in.C)
		}
		return newGroupNorm(b.params, name, *in, l.width), *in, nil
	case kindDropout:
		if !(l.scale >= 0 && l.scale < 1) {
			return nil, Image{}, fmt.Errorf("%v: expected a probability in [0, 1)", l)
		}
		b.dropouts++
		return &dropout[T]{in.Len(), b.dropouts - 1, l.scale}, *in, nil
	case kindSpatial:
		u := &spatial[T]{b.params, *in, l.width, b.params.Add(name+".weight", in.Len(), l.width)}
		return u, Image{1, 1, in.C * l.width}, nil
	case kindMean:
		return &meanPool[T]{b.params, *in}, Image{1, 1, in.C}, nil
	case kindConv, kindPool, kindKeypoint, kindCoordinates:
		return b.image(l, name, *in)
	case kindGRU, kindLSTM:
		declare := NewGRU[T]
		if l.kind == kindLSTM {
			declare = NewLSTM[T]
		}
		c := &recurrentCell[T]{RecurrentCell: declare(b.params, name, in.Len(), l.width), at: b.state}
		b.state += c.State
		b.cells = append(b.cells, c)
		return c, vector, nil
	}
	panic(fmt.Sprintf("nn: layer of kind %d", l.kind))
}

// normed adds the BatchRenorm of n to b.norms, and returns n.
func (b *builder[T]) normed(n *batchNorm[T]) unit[T] {
	b.norms = append(b.norms, n.BatchRenorm)
	return n
}

// input returns the unit that reads a source.
func (b *builder[T]) input(l Layer, name string) (unit[T], Image, error) {
	at, err := b.find(l)
	if err != nil {
		return nil, Image{}, err
	}
	s := b.sources[at]
	if l.kind == kindEmbed || l.kind == kindSentence {
		if !s.isChoice() || l.width < 1 {
			return nil, Image{}, fmt.Errorf("%v: expected at least 1 feature of choices; numbers and images are "+
				"Input(%q)", l, l.name)
		}
		first, places := b.choices(at)
		if l.kind == kindSentence {
			if !alike(s.Choices) {
				return nil, Image{}, fmt.Errorf("%v: %w", l, errOptions)
			}
			return newSentence(b.params, name, s.Choices, l.width, first, places), Image{1, 1, l.width}, nil
		}
		return newEmbedding(b.params, name, s.Choices, l.width, first, places), Image{1, 1, l.width}, nil
	}
	if s.isChoice() {
		return nil, Image{}, fmt.Errorf("%v: choices are no numbers: expected Embed(%q, width)", l, l.name)
	}
	if s.Map.C > 0 && l.kind == kindInput {
		index, _ := b.sumBefore(at, func(s Source) int { return min(s.Map.C, 1) })
		return &featureMap[T]{index, s.Map.Len()}, s.Map, nil
	}
	if s.isImage() {
		index, _ := b.sumBefore(at, func(s Source) int { return min(s.Image.C, 1) })
		if l.kind == kindView {
			if s.Frames != 1 || s.Image.C != len(l.norm[0]) || l.size < 1 || l.width < 1 {
				return nil, Image{}, fmt.Errorf("%v: expected one frame of %d channels, got %d of %v", l,
					len(l.norm[0]), s.Frames, s.Image)
			}
			v := newView[T](s.Image, l, index)
			return v, v.out, nil
		}
		return &picture[T]{newPixels[T](s.Image, s.Frames, s.Range), b.params, index}, s.shape(), nil
	}
	if l.kind == kindView {
		return nil, Image{}, fmt.Errorf("%v: expected an image", l)
	}
	first, width := b.sumBefore(at, func(s Source) int {
		if s.isImage() || s.isChoice() {
			return 0
		}
		return s.Width
	})
	return &numbers[T]{b.params, first, s.Width, width}, s.shape(), nil
}

// find returns the index of the source that l names.
func (b *builder[T]) find(l Layer) (int, error) {
	at := slices.IndexFunc(b.sources, func(s Source) bool { return s.Name == l.name })
	if at < 0 {
		return 0, fmt.Errorf("%v: no such input: expected one of %s", l, b.names())
	}
	return at, nil
}

// choices returns the first column of sources[i] in the choices of a batch, and the number of columns of all sources.
func (b *builder[T]) choices(i int) (first, total int) {
	return b.sumBefore(i, func(s Source) int { return len(s.Choices.Low) })
}

var errOptions = errors.New("expected the same options at every place")

// alike reports whether all choices have the same Low and the same High.
func alike(c Choices) bool {
	other := func(of []int) bool { return slices.ContainsFunc(of, func(n int) bool { return n != of[0] }) }
	return !other(c.Low) && !other(c.High)
}

// sumBefore returns the sum of count over the first n sources, and the sum of count over all sources.
func (b *builder[T]) sumBefore(n int, count func(Source) int) (sum, total int) {
	for i, s := range b.sources {
		if i < n {
			sum += count(s)
		}
		total += count(s)
	}
	return sum, total
}

func (b *builder[T]) names() string {
	names := make([]string, len(b.sources))
	for i, s := range b.sources {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// image returns the unit of a layer whose input is images of the given shape.
func (b *builder[T]) image(l Layer, name string, in Image) (unit[T], Image, error) {
	windows := l.kind == kindConv || l.kind == kindPool
	if windows && (l.size < 1 || l.stride < 1 || l.pad < 0 || min(in.H, in.W)+2*l.pad < l.size) {
		return nil, Image{}, fmt.Errorf("%v on images %v: expected windows that fit into the image", l, in)
	}
	switch l.kind {
	case kindConv:
		declare := NewConv2D[T]
		if l.unbiased {
			declare = newUnbiased[T]
		}
		c := declare(b.params, name, in, l.width, l.size, l.stride, l.pad)
		return &convolution[T]{Conv2D: c, gain: l.initialGain(), fanOut: l.fanOut}, c.Out, nil
	case kindPool:
		p := newMaxPool[T](in)
		return p, p.out, nil
	case kindCoordinates:
		c := &coordinates[T]{in, newGrid[T](in, 0)}
		return c, c.shape(), nil
	}
	return &keypoints[T]{b.params, in, l.scale}, Image{1, 1, 2 * in.C}, nil
}

// sequence returns the unit that runs the parts one after the other.
func (b *builder[T]) sequence(l Layer, name string, in *Image) (unit[T], Image, error) {
	if len(l.parts) == 0 {
		return nil, Image{}, fmt.Errorf("%v: expected at least one part", l)
	}
	s := new(sequence[T])
	for i, part := range l.parts {
		if i > 0 && !part.needsInput() {
			return nil, Image{}, fmt.Errorf("%v: part %d, %v, ignores the part before it: expected inputs at the front",
				l, i, part)
		}
		u, out, err := b.build(part, part.nameIn(name, i), in)
		if err != nil {
			return nil, Image{}, err
		}
		s.add(u, out.Len())
		in = &out
	}
	return s, *in, nil
}

// needsInput reports whether the layer reads the output of the previous layer.
func (l Layer) needsInput() bool {
	switch l.kind {
	case kindInput, kindView, kindEmbed, kindSentence:
		return false
	case kindSequence:
		return len(l.parts) == 0 || l.parts[0].needsInput()
	case kindConcat:
		return slices.ContainsFunc(l.parts, Layer.needsInput)
	}
	return true
}

// point returns the unit of a Point layer.
func (b *builder[T]) point(l Layer, name string, in Image) (unit[T], Image, error) {
	at, err := b.find(l)
	if err != nil {
		return nil, Image{}, err
	}
	c := b.sources[at].Choices
	if !b.sources[at].isChoice() {
		return nil, Image{}, fmt.Errorf("%v: expected choices, the words of a sentence", l)
	}
	if !alike(c) {
		return nil, Image{}, fmt.Errorf("%v: %w", l, errOptions)
	}
	first, all := b.choices(at)
	u := newPointing(b.params, name, in, c, l.scale, first, all)
	return u, Image{1, 1, 2 * u.places}, nil
}

// residual returns the unit of x + f(x).
func (b *builder[T]) residual(l Layer, name string, in Image) (unit[T], Image, error) {
	f := Sequence(l.parts...)
	if !f.needsInput() {
		return nil, Image{}, fmt.Errorf("%v: ignores its input", l)
	}
	u, out, err := b.build(f, name, &in)
	if err != nil {
		return nil, Image{}, err
	}
	s := &skip[T]{p: b.params, f: u, in: in.Len(), width: out.Len()}
	through := in
	if l.shortcut != nil {
		g := Sequence(l.shortcut...)
		if !g.needsInput() {
			return nil, Image{}, fmt.Errorf("%v: its shortcut ignores its input", l)
		}
		if s.g, through, err = b.build(g, name, &in); err != nil {
			return nil, Image{}, err
		}
	}
	if out != through {
		return nil, Image{}, fmt.Errorf("%v: makes %v of %v: expected %v", l, out, in, through)
	}
	return s, out, nil
}

// film returns the unit of l, which modulates the features of images. The argument by computes γ and β.
func (b *builder[T]) film(by, l Layer, name string, in Image) (unit[T], Image, error) {
	if by.needsInput() {
		return nil, Image{}, fmt.Errorf("%v: expected an input at the front", l)
	}
	u, _, err := b.build(by, name, nil)
	if err != nil {
		return nil, Image{}, err
	}
	return &film[T]{b.params, in, u}, in, nil
}

// concat returns the unit that concatenates the outputs of the parts.
func (b *builder[T]) concat(l Layer, name string, in *Image) (unit[T], Image, error) {
	if len(l.parts) == 0 {
		return nil, Image{}, fmt.Errorf("%v: expected at least one part", l)
	}
	c := &concat[T]{p: b.params}
	if in != nil {
		c.in = in.Len()
	}
	for i, part := range l.parts {
		u, out, err := b.build(part, part.nameIn(name, i), in)
		if err != nil {
			return nil, Image{}, err
		}
		c.units, c.widths, c.uses = append(c.units, u), append(c.widths, out.Len()), append(c.uses, part.needsInput())
		c.out += out.Len()
	}
	return c, Image{1, 1, c.out}, nil
}
