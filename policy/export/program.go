package export

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Operations of a program that are not in the tree. They are wrappers of the environment, or parts of the tree's
// operations.
const (
	elements graph.Op = "elements" // some elements of a vector: state_elements
	stack    graph.Op = "stack"    // the last frames of an observation: frame_stack
	columns  graph.Op = "columns"  // the columns [first, first+width) of a row
	affine   graph.Op = "affine"   // (x - a)·b + c; parameters a, b, c
	spread   graph.Op = "spread"   // x + σ·noise; parameter σ
	deviate  graph.Op = "deviate"  // the first half + σ·noise, with log σ = low + half (tanh(rest + shift) + 1)
)

// A value is the index of an intermediate result in program.values. The constant none means that there is no value.
type value int

const none value = -1

// A kind describes a value: the type of its elements, and the shape of a row. The shape of a vector has one axis, that
// of an image three.
type kind struct {
	dtype tensor.DType
	shape []int
}

func (k kind) len() int { return product(k.shape) }

// A step computes one value.
type step struct {
	op     graph.Op
	name   string
	in     []value
	out    value
	params [][]float32 // weights in the order of the operation, rounded to float32 as the policy does
	node   graph.Node  // node of the tree, which has the constants
}

// A program computes the action, and the value if there is a critic, from the observations of a simulator.
type program struct {
	inputs  []env.Field // values 0 to len(inputs)-1
	values  []kind
	steps   []step
	options []int // options of each choice of an action
	frames  int   // number of stacked frames
	memory  int   // length of the recurrent state
	noise   value
	mask    value
	head    value // the output of the actor's network
	action  value
	acting  int   // number of steps that compute the action; the later steps compute critic
	critic  value // the values of the observation; none without a critic
	chunks  int
}

// begins reports whether the program needs to know where an episode begins.
func (p *program) begins() bool { return p.memory > 0 || p.frames > 1 }

// A lowering turns a tree into a program.
type lowering struct {
	program
	tensors map[string][]float64
	sample  bool
	policy  *TrainedPolicy
	numbers value // the row of numbers
	images  []value
	choices value
	shown   map[string]value // the observations that the policy sees, by name
}

// lower returns the program of the policy p.
func lower(p *TrainedPolicy) (*program, error) {
	root, err := p.graph()
	if err != nil {
		return nil, err
	}
	l := &lowering{tensors: tensorsOf(p.Policy.Params()), sample: p.Sample, policy: p, numbers: none, choices: none,
		shown: map[string]value{}}
	l.program = program{inputs: p.Spec.Obs, options: p.Spec.Action.Nvec, frames: max(p.Env.FrameStack, 1), noise: none,
		mask: none, head: none, critic: none}
	l.memory, _ = root.Const(policy.HiddenState).(int)
	for _, f := range p.Spec.Obs {
		l.shown[f.Name] = l.add(f.DType, f.Shape)
	}
	for _, f := range p.Spec.Obs {
		l.wrap(f, p.Env.StateElements)
	}
	if _, err := l.run(root, none); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return &l.program, nil
}

// tensorsOf returns the parameters and the F64 buffers of a network, by name.
func tensorsOf(p *nn.Params[float32]) map[string][]float64 {
	all := map[string][]float64{}
	for i, f := range p.Fields {
		for _, x := range p.Of(i) {
			all[f.Name] = append(all[f.Name], float64(x))
		}
	}
	for i := range p.Buffers.Len() {
		name, t := p.Buffers.Entry(i)
		if t.DType() == tensor.F64 {
			all[name] = t.F64()
		}
	}
	return all
}

// add returns a new value.
func (l *lowering) add(dtype tensor.DType, shape []int) value {
	l.values = append(l.values, kind{dtype, shape})
	return value(len(l.values) - 1)
}

// step appends a step that computes a new value.
func (l *lowering) step(n graph.Node, dtype tensor.DType, shape []int, params [][]float32, in ...value) value {
	out := l.add(dtype, shape)
	l.steps = append(l.steps, step{op: n.Op, name: n.Name, in: in, out: out, params: params, node: n})
	return out
}

// wrap appends steps for the wrappers that change the observation f. If shown is not empty, it lists the elements of
// the observation "state" that the policy sees.
func (l *lowering) wrap(f env.Field, shown []int) {
	at := l.shown[f.Name]
	if f.Name == "state" && len(shown) > 0 {
		at = l.step(graph.Node{Op: elements, Consts: []graph.Const{{Name: "elements", Value: shown}}}, f.DType,
			[]int{len(shown)}, nil, at)
	}
	if l.frames > 1 && f.Name != env.ActionMask {
		at = l.step(graph.Node{Op: stack, Name: f.Name}, f.DType, append([]int{l.frames}, l.values[at].shape...), nil,
			at)
	}
	l.shown[f.Name] = at
}

// run appends the steps of n, and returns the output of n. The argument in is the input of n.
func (l *lowering) run(n graph.Node, in value) (out value, err error) {
	switch n.Op {
	case graph.Policy, graph.Sequence:
		return l.sequence(n, in)
	case graph.Observe:
		return l.observe(n)
	case graph.Actor:
		l.chunks = n.Out[0]
		l.action, err = l.sequence(n, in)
		l.acting = len(l.steps)
		return in, err
	case graph.Critic:
		return in, l.value(n, in)
	case graph.Concat:
		return l.concat(n, in)
	case graph.Residual, graph.FiLM:
		f, err := l.run(n.Parts[0], in)
		return l.step(n, tensor.F32, n.Out, nil, in, f), err
	case graph.Input:
		first, width := n.Const("first").(int), n.Out[0]
		if first == 0 && width == l.values[l.numbers].len() {
			return l.numbers, nil
		}
		return l.columns(l.numbers, first, width), nil
	case graph.Image:
		return l.step(n, tensor.F32, n.Out, nil, l.images[n.Const("index").(int)]), nil
	case graph.Embedding, graph.Sentence:
		return l.step(n, tensor.F32, n.Out, l.params(n), l.choices), nil
	case graph.Point:
		return l.step(n, tensor.F32, n.Out, l.params(n), in, l.choices), nil
	case graph.BatchNorm:
		return l.batchNorm(n, in), nil
	case graph.Dense, graph.Tanh, graph.ReLU, graph.LayerNorm, graph.Conv, graph.MaxPool, graph.Softmax2D,
		graph.Coordinates, graph.GRU, graph.LSTM:
		return l.step(n, tensor.F32, n.Out, l.params(n), in), nil
	}
	return l.end(n, in)
}

func (l *lowering) sequence(n graph.Node, in value) (value, error) {
	for _, part := range n.Parts {
		out, err := l.run(part, in)
		if err != nil {
			return none, err
		}
		in = out
	}
	return in, nil
}

func (l *lowering) concat(n graph.Node, in value) (value, error) {
	var parts []value
	for _, part := range n.Parts {
		out, err := l.run(part, in)
		if err != nil {
			return none, err
		}
		parts = append(parts, out)
	}
	return l.join(tensor.F32, parts), nil
}

// join returns a value that has the parts side by side. It returns none if there are no parts.
func (l *lowering) join(dtype tensor.DType, parts []value) value {
	switch len(parts) {
	case 0:
		return none
	case 1:
		return parts[0]
	}
	width := 0
	for _, v := range parts {
		width += l.values[v].len()
	}
	return l.step(graph.Node{Op: graph.Concat}, dtype, []int{width}, nil, parts...)
}

func (l *lowering) columns(of value, first, width int) value {
	return l.step(graph.Node{Op: columns, Consts: []graph.Const{{Name: "first", Value: first}}}, l.values[of].dtype,
		[]int{width}, nil, of)
}

// observe appends the steps that read the observations.
func (l *lowering) observe(n graph.Node) (value, error) {
	var numbers, words []value
	row := func() value { // the row of numbers; at the first call the list must be complete
		if len(numbers) > 0 {
			l.numbers, numbers = l.join(tensor.F32, numbers), nil
		}
		return l.numbers
	}
	for _, part := range n.Parts {
		at, known := l.shown[part.Name]
		if !known && part.Name != "" {
			return none, fmt.Errorf("observation %q: the simulator has none of that name", part.Name)
		}
		switch part.Op {
		case graph.Number:
			numbers = append(numbers, at)
		case graph.Byte:
			params := [][]float32{part.Const("low").([]float32), part.Const("scale").([]float32)}
			numbers = append(numbers, l.step(part, tensor.F32, []int{product(part.Out)}, params, at))
		case graph.Frames:
			if part.Const("view") != nil {
				return none, fmt.Errorf("observation %q: views of it have no export: expected image_num 1", part.Name)
			}
			l.images = append(l.images, at)
		case graph.Words:
			words = append(words, at)
		case graph.Mask:
			l.mask = at
		case graph.Normalize:
			mean, variance := l.tensors[part.Params[0].Name], l.tensors[part.Params[1].Name]
			inv := make([]float32, len(variance))
			for i, v := range variance {
				inv[i] = float32(1 / math.Sqrt(v+part.Const("epsilon").(float64)))
			}
			clip := slices.Repeat([]float32{part.Const("clip").(float32)}, len(inv))
			l.numbers = l.within(l.affine(row(), rounded(mean), inv, make([]float32, len(inv))), negated(clip), clip)
		case graph.OneHot:
			in := []value{l.join(tensor.I32, words)}
			words = in
			if numbers := row(); numbers != none {
				in = append(in, numbers)
			}
			l.numbers = l.step(part, tensor.F32, part.Out, nil, in...)
		default:
			return none, refused(part)
		}
	}
	l.choices = l.join(tensor.I32, words)
	return row(), nil
}

// end appends the steps that turn the output of the network into an action.
func (l *lowering) end(n graph.Node, in value) (value, error) {
	dims := product(n.Out)
	if l.head == none {
		l.head = in
	}
	// drawn appends a step that also reads the noise.
	drawn := func(n graph.Node, dtype tensor.DType, params [][]float32, in ...value) value {
		l.noise = l.add(tensor.F32, []int{dims})
		return l.step(n, dtype, []int{dims}, params, append(in, l.noise)...)
	}
	// constant returns the named constant, which is a list, repeated for each action of a chunk.
	constant := func(name string) []float32 {
		list := n.Const(name).([]float32)
		return slices.Repeat(list, l.values[in].len()/len(list))
	}
	switch n.Op {
	case graph.Gaussian:
		if !l.sample {
			return in, nil
		}
		std := l.params(n)[0]
		for i, log := range std {
			std[i] = float32(math.Exp(float64(log)))
		}
		return drawn(graph.Node{Op: spread}, tensor.F32, [][]float32{std}, in), nil
	case graph.SDE:
		if l.sample {
			return none, fmt.Errorf("--sample: use_sde keeps its noise over steps: expected no --sample")
		}
		return in, nil
	case graph.Deviations, graph.Squashed:
		if l.sample {
			in = drawn(graph.Node{Op: deviate, Consts: n.Consts}, tensor.F32, nil, in)
		} else {
			in = l.columns(in, 0, dims)
		}
		if n.Op == graph.Squashed {
			in = l.tanh(in)
		}
		return in, nil
	case graph.Noise:
		in = l.tanh(in)
		if l.sample {
			std := slices.Repeat([]float32{n.Const("deviation").(float32)}, dims)
			one := slices.Repeat([]float32{1}, dims)
			in = l.within(drawn(graph.Node{Op: spread}, tensor.F32, [][]float32{std}, in), negated(one), one)
		}
		return in, nil
	case graph.Categorical, graph.Greedy:
		if !l.sample {
			return l.step(n, tensor.I32, []int{dims}, nil, in, l.mask), nil
		}
		if n.Op == graph.Greedy {
			return none, fmt.Errorf("--sample: the noise of a policy with add_q_head follows a schedule of training: " +
				"expected no --sample")
		}
		return drawn(n, tensor.I32, nil, in, l.mask), nil
	case graph.Clip:
		return l.within(in, constant("low"), constant("high")), nil
	case graph.TanhBound:
		in = l.tanh(in)
		fallthrough
	case graph.Scale:
		return l.affine(in, make([]float32, l.values[in].len()), constant("half"), constant("center")), nil
	}
	return none, refused(n)
}

func (l *lowering) tanh(x value) value {
	return l.step(graph.Node{Op: graph.Tanh}, tensor.F32, l.values[x].shape, nil, x)
}

func (l *lowering) affine(x value, a, b, c []float32) value {
	return l.step(graph.Node{Op: affine}, tensor.F32, l.values[x].shape, [][]float32{a, b, c}, x)
}

func (l *lowering) within(x value, low, high []float32) value {
	return l.step(graph.Node{Op: graph.Clip}, tensor.F32, l.values[x].shape, [][]float32{low, high}, x)
}

// value appends the steps of the critic n. The argument in is the input of n.
func (l *lowering) value(n graph.Node, in value) error {
	before := len(l.steps)
	out, err := l.sequence(n, in)
	switch scale := float32(l.policy.ValueScale); {
	case err != nil:
		return err
	case l.policy.NoValue && l.memory == 0: // with memory, the critic may compute a part of it
		l.steps = l.steps[:before]
	case !l.policy.NoValue && scale != 0:
		zeros := make([]float32, l.values[out].len())
		out = l.affine(out, zeros, slices.Repeat([]float32{scale}, len(zeros)), zeros)
	}
	if !l.policy.NoValue {
		l.critic = out
	}
	return err
}

// refused returns the error for an operation that cannot be translated.
func refused(n graph.Node) error {
	switch n.Op {
	case graph.Text, graph.Transformer, graph.Tokens, graph.Whiten, graph.Bins, graph.Laplace, graph.Denoise:
		return fmt.Errorf("operation %s: a policy that sees, reads and acts (model_type vla) has no export: "+
			"rlinf eval plays it", n.Op)
	case graph.Map:
		return fmt.Errorf("operation %s: backbone: resnet has no export: train with actor.model.encoder=nature_cnn, "+
			"or play it by rlinf eval", n.Op)
	}
	return fmt.Errorf("operation %s %s: it has no translation: expected the layers of package policy/nn", n.Op, n.Name)
}

// params returns the parameters of n, rounded to float32.
func (l *lowering) params(n graph.Node) (all [][]float32) {
	for _, p := range n.Params {
		all = append(all, rounded(l.tensors[p.Name]))
	}
	return all
}

// batchNorm appends a step for the layer n, which uses its running statistics.
func (l *lowering) batchNorm(n graph.Node, in value) value {
	p := l.params(n)
	scale, width := p[0], len(p[0])
	variance := l.tensors[n.Params[2].Name][1+width:]
	for k, v := range variance {
		scale[k] *= float32(1 / math.Sqrt(v+n.Const("epsilon").(float64)))
	}
	return l.affine(in, p[2][1:1+width], scale, p[1])
}

func negated(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = -v
	}
	return y
}

func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// number returns a constant as a float64.
func (s *step) number(name string) float64 {
	switch v := s.node.Const(name).(type) {
	case int:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	}
	panic(fmt.Sprintf("export: constant %s of %s", name, s.op))
}

// int returns a constant as an int.
func (s *step) int(name string) int { return int(s.number(name)) }

// ints returns a constant that is a list of whole numbers.
func (s *step) ints(name string) []int { return s.node.Const(name).([]int) }
