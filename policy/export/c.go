package export

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/tensor"
)

// The parts of the files in C and Fortran that do not depend on the policy. In these parts, words that begin with @ are
// placeholders. In kernels, a comment /*: NAME NEEDED… */ stands before each function.
var (
	//go:embed c/kernels.c
	kernels string
	//go:embed c/policy.c
	source string
	//go:embed c/policy.h
	header string
	//go:embed c/policy.f90
	module string
)

// magic begins policy.bin. The weights follow, float32 in little endian.
const magic = "rlpolicy"

// A cWriter translates a program to C that computes one row.
type cWriter struct {
	*program
	text    strings.Builder
	at      map[value]string // the C expression of each value
	uses    map[value]int    // number of steps that read a value
	owned   map[value]bool   // values in memory of the program; a step may overwrite them if no other step reads them
	used    []string         // names of the kernels
	weights []float32
	tables  int // number of constant tables
	work    int // length of the array work in policy_state; ints and bytes likewise
	ints    int
	bytes   int
}

// c returns the files of p in C and Fortran.
func (p *program) c(d *Manifest) map[string][]byte {
	w := &cWriter{program: p, at: map[value]string{}, uses: map[value]int{}, owned: map[value]bool{}}
	for _, s := range p.steps {
		for _, v := range s.in {
			w.uses[v]++
		}
	}
	w.uses[p.head]++ // checkHead reads it
	args := argumentsOf(d)
	w.read(args)
	for i := range p.steps[:p.acting] {
		s := &p.steps[i]
		if s.in[0] == p.head {
			w.checkHead()
		}
		w.translate(s)
	}
	w.checkHead()
	decide := w.text.String()
	w.text.Reset()
	for i := range p.steps[p.acting:] {
		w.translate(&p.steps[p.acting+i])
	}
	return w.files(d, args, decide, w.text.String())
}

// An argument is an input that the caller of policy_act gives.
type argument struct {
	Binding
	id string // its identifier in C and Fortran
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// argumentsOf returns the inputs that the caller of policy_act gives. It leaves out begin, and inputs that the state
// keeps.
func argumentsOf(d *Manifest) (args []argument) {
	for _, in := range d.Inputs {
		kept := slices.ContainsFunc(d.Outputs, func(out Binding) bool { return out.Name == in.Name+nextSuffix })
		if kept || in.Name == beginName {
			continue
		}
		id := "obs_" + strings.Trim(notInNames.ReplaceAllString(in.Name, "_"), "_")
		id = id[:min(len(id), 50)] // Fortran's names have at most 63 letters
		if in.Name == noiseName {
			id = noiseName
		}
		for slices.ContainsFunc(args, func(a argument) bool { return strings.EqualFold(a.id, id) }) {
			id += "_2"
		}
		args = append(args, argument{in, id})
	}
	return args
}

// line appends a line of C.
func (w *cWriter) line(format string, args ...any) {
	fmt.Fprintf(&w.text, "\t"+format+"\n", args...)
}

// call appends a call of a kernel.
func (w *cWriter) call(kernel, format string, args ...any) {
	w.need(kernel)
	w.line(kernel+"("+format+");", args...)
}

// need records that the program uses a kernel.
func (w *cWriter) need(kernel string) {
	if !slices.Contains(w.used, kernel) {
		w.used = append(w.used, kernel)
	}
}

// check appends a check of an input or of a result. If the check fails, the function returns code.
func (w *cWriter) check(kernel, code, format string, args ...any) {
	w.need(kernel)
	w.line("if (!"+kernel+"("+format+"))\n\t\treturn "+code+";", args...)
}

func (w *cWriter) checkHead() {
	if w.uses[w.head] < 0 { // it is checked already
		return
	}
	w.uses[w.head] = -1
	w.check("finite_all", "POLICY_NOT_FINITE", "%s, %d", w.at[w.head], w.values[w.head].len())
}

// space returns a C expression for memory of n floats.
func (w *cWriter) space(n int) string {
	at := w.work
	w.work += n
	return fmt.Sprintf("v + %d", at)
}

// keep gives the value v memory of its own, and returns its C expression.
func (w *cWriter) keep(v value) string {
	switch n := w.values[v].len(); w.values[v].dtype {
	case tensor.F32:
		w.at[v], w.owned[v] = w.space(n), true
	case tensor.I32:
		w.at[v] = fmt.Sprintf("s->ints + %d", w.ints)
		w.ints += n
	default:
		w.at[v] = fmt.Sprintf("s->bytes + %d", w.bytes)
		w.bytes += n
	}
	return w.at[v]
}

// weight appends x to the weights, and returns the C expression of its place.
func (w *cWriter) weight(x []float32) string {
	at := len(w.weights)
	w.weights = append(w.weights, x...)
	return fmt.Sprintf("w + %d", at)
}

// table declares a constant list, and returns its name.
func (w *cWriter) table(x []int) string {
	w.tables++
	name := fmt.Sprintf("table%d", w.tables)
	w.line("static const int32_t %s[] = {%s};", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ", "), "[]"))
	return name
}

// read appends the statements that check and read the inputs.
func (w *cWriter) read(args []argument) {
	for i, f := range w.inputs {
		v, id, n := value(i), args[i].id, f.Dim()
		w.at[v] = id
		switch {
		case f.DType == tensor.F32:
			w.check("finite_all", "POLICY_NOT_FINITE", "%s, %d", id, n)
			w.line("memcpy(%s, %s, %d * sizeof *v);", w.keep(v), id, n)
			w.owned[v] = false
		case f.DType == tensor.I32:
			var low, high []int
			for k := range n {
				l, h := f.Range(k)
				low, high = append(low, int(l)), append(high, int(h))
			}
			w.check("within", "POLICY_RANGE", "%s, %s, %s, %d", id, w.table(low), w.table(high), n)
		case v == w.mask:
			at := 0
			for _, k := range w.options {
				w.check("open_mask", "POLICY_BLOCKED", "%s + %d, %d", id, at, k)
				at += k
			}
		}
	}
	if w.noise != none {
		w.at[w.noise] = noiseName
		w.check("finite_all", "POLICY_NOT_FINITE", "%s, %d", noiseName, w.values[w.noise].len())
	}
	if w.memory > 0 {
		w.line("if (!s->started)\n\t\tmemset(s->memory, 0, sizeof s->memory);")
	}
}

// translate appends the statements of a step.
func (w *cWriter) translate(s *step) {
	x, m, n := w.at[s.in[0]], w.values[s.in[0]].len(), w.values[s.out].len()
	params := make([]any, len(s.params))
	for i, p := range s.params {
		params[i] = w.weight(p)
	}
	// with calls a kernel with y, x and the parameters, and then the arguments in rest.
	with := func(kernel, rest string, args ...any) {
		format := "%s, %s" + strings.Repeat(", %s", len(params)) + ", " + rest
		w.call(kernel, format, slices.Concat([]any{w.keep(s.out), x}, params, args)...)
	}
	switch s.op {
	case elements:
		y := w.keep(s.out)
		for k, e := range s.ints("elements") {
			w.line("(%s)[%d] = (%s)[%d];", y, k, x, e)
		}
	case stack:
		w.call("push", "%s, %s, %d, %d * sizeof *(%s), !s->started", w.keep(s.out), x, w.frames, m, x)
		w.owned[s.out] = false
	case columns:
		w.at[s.out] = fmt.Sprintf("%s + %d", x, s.int("first"))
	case graph.Concat:
		y, at := w.keep(s.out), 0
		for _, v := range s.in {
			w.line("memcpy(%s + %d, %s, %d * sizeof *(%s));", y, at, w.at[v], w.values[v].len(), w.at[v])
			at += w.values[v].len()
		}
	case graph.Byte:
		with("bytes", "%d", n)
	case graph.OneHot:
		y, from := w.keep(s.out), 0
		if len(s.in) > 1 {
			from = w.values[s.in[1]].len()
			w.line("memcpy(%s, %s, %d * sizeof *v);", y, w.at[s.in[1]], from)
		}
		w.call("one_hot", "%s, %s, %s, %d, %d, %d", y, x, w.table(s.ints("zero")), m, from, n)
	case graph.Image:
		h, width, c := w.values[s.out].image()
		frames := s.int("frames")
		with("pixels", "%.17g, %.17g, %d, %d, %d", s.number("low"), s.number("high"), frames, h*width, c/frames)
	case graph.Dense:
		with("dense", "%d, %d", m, n)
	case graph.Tanh, graph.ReLU:
		kernel := map[graph.Op]string{graph.Tanh: "squash", graph.ReLU: "rectify"}[s.op]
		if w.owned[s.in[0]] && w.uses[s.in[0]] == 1 {
			w.at[s.out], w.owned[s.out] = x, true
			w.call(kernel, "%s, %s, %d", x, x, n)
			return
		}
		with(kernel, "%d", n)
	case graph.Residual:
		with("add", "%s, %d", w.at[s.in[1]], n)
	case graph.FiLM:
		h, width, c := w.values[s.out].image()
		with("modulate", "%s, %d, %d", w.at[s.in[1]], h*width, c)
	case graph.LayerNorm:
		with("layer_norm", "%.17g, %d", s.number("epsilon"), n)
	case affine:
		with("affine", "%d", n)
	case graph.Clip:
		with("bound", "%d", n)
	case spread:
		with("spread", "noise, %d", n)
	case deviate:
		shift, _ := s.node.Const("shift").(float32)
		with("deviate", "%#.9gf, %.17g, %.17g, noise, %d", shift, s.number("low"), s.number("half"), n)
	case graph.Categorical, graph.Greedy:
		w.choose(s, x)
	case graph.Conv:
		with("convolve", "&%s", w.shape(s))
	case graph.MaxPool:
		with("max_pool", "&%s", w.shape(s))
	case graph.Coordinates:
		h, width, c := w.values[s.in[0]].image()
		with("coordinates", "%d, %d, %d", h, width, c)
	case graph.Softmax2D:
		h, width, c := w.values[s.in[0]].image()
		with("soft_argmax", "%d, %d, %d, %.17g, %.17g", h, width, c, s.number("deviation"), s.number("epsilon"))
	case graph.Point:
		h, width, c := w.values[s.in[0]].image()
		with("point", "%s + %d, %d, %d, %s, %d, %d, %d, %.17g, %.17g", w.at[s.in[1]], s.int("first"), s.int("none"),
			s.int("places"), w.space(h*width), h, width, c, s.number("deviation"), s.number("epsilon"))
	case graph.Embedding:
		zero := s.ints("zero")
		w.call("embed", "%s, %s, %s + %d, %s, %d, %d", w.keep(s.out), params[0], x, s.int("first"), w.table(zero),
			len(zero), n)
	case graph.Sentence:
		w.call("sentence", "%s, %s, %s, %s + %d, %d, %d, %d", w.keep(s.out), params[0], params[1], x, s.int("first"),
			s.int("none"), s.int("places"), n)
	case graph.GRU, graph.LSTM:
		kernel := map[graph.Op]string{graph.GRU: "gru", graph.LSTM: "lstm"}[s.op]
		gates := len(s.params[1])
		w.at[s.out] = fmt.Sprintf("s->memory + %d", s.int("state_first"))
		w.call(kernel, "%s, %s, %s, %s, %s, %s, %s, %s, %d, %d", w.at[s.out], x, params[0], params[1], params[2],
			params[3], w.space(gates), w.space(gates), m, n)
	default:
		panic(fmt.Sprintf("export: c: no operation %s", s.op))
	}
}

// shape declares a constant with the shapes of a convolution or a pooling, and returns its name.
func (w *cWriter) shape(s *step) string {
	w.need("shape")
	w.tables++
	h, width, c := w.values[s.in[0]].image()
	oh, ow, oc := w.values[s.out].image()
	w.line("static const shape shape%d = {%d, %d, %d, %d, %d, %d, %d, %d, %d};", w.tables, h, width, c, oh, ow, oc,
		s.int("size"), s.int("stride"), s.int("pad"))
	return fmt.Sprintf("shape%d", w.tables)
}

// choose appends the statements that choose an option for each choice.
func (w *cWriter) choose(s *step, x string) {
	options := []int{w.values[s.in[0]].len()}
	if s.op == graph.Categorical {
		options = s.ints("options")
	}
	y, at := w.keep(s.out), 0
	for d, n := range options {
		mask := "NULL"
		if s.in[1] != none {
			mask = fmt.Sprintf("%s + %d", w.at[s.in[1]], at%w.values[s.in[1]].len())
		}
		if w.noise == none {
			w.need("largest")
			w.line("(%s)[%d] = largest(%s + %d, %s, %d);", y, d, x, at, mask, n)
		} else {
			w.need("draw")
			w.line("(%s)[%d] = draw(%s + %d, %s, noise[%d], %d);", y, d, x, at, mask, d, n)
		}
		at += n
	}
}

// files returns the files, by name. decide and critic are the statements that compute the action and the value.
func (w *cWriter) files(d *Manifest, args []argument, decide, critic string) map[string][]byte {
	raw := rawF32(w.weights)
	sum := fnv.New64a()
	sum.Write(raw)
	var inputs, names, observed, notes, fNames, fTypes []string
	for _, a := range append(args, argument{d.Outputs[0], actionName}) {
		about := fmt.Sprintf("%v", a.row())
		if d.Chunk > 1 && a.id == actionName {
			about = fmt.Sprint(a.row()[1:])
		}
		kind := map[string]string{"float32": "float", "uint8": "uint8_t", "int32": "int32_t"}[a.Type]
		fKind := map[string]string{"float32": "real(c_float)", "uint8": "integer(c_int8_t)",
			"int32": "integer(c_int32_t)"}[a.Type]
		intent := "in"
		if fNames = append(fNames, "                "+a.id); a.id == actionName {
			intent = "out"
			inputs = append(inputs, kind+" *"+a.id)
		} else {
			inputs, names = append(inputs, "const "+kind+" *"+a.id), append(names, a.id)
			observed = append(observed, strings.TrimPrefix(a.id, "obs_"))
		}
		fTypes = append(fTypes, fmt.Sprintf("            %s, intent(%s) :: %s(*)\n", fKind, intent, a.id))
		note := fmt.Sprintf(" *   %-16s %s %s %s", a.id, a.Type, about, comment(a.Note))
		notes = append(notes, strings.TrimRight(note, " ")+"\n")
	}
	words := map[string]string{
		"TASK": comment(d.Task), "BUILD": comment(d.Build), "STEP": fmt.Sprint(d.Step), "RUN": comment(d.Run),
		"CHUNK":  fmt.Sprint(d.Chunk),
		"REPEAT": fmt.Sprint(d.ActionRepeat), "ACTIONS": fmt.Sprint(w.values[w.action].len() / d.Chunk), "VALUES": "0",
		"MEMORY": fmt.Sprint(max(w.memory, 1)), "WORK": fmt.Sprint(max(w.work, 1)),
		"INTS": fmt.Sprint(max(w.ints, 1)), "BYTES": fmt.Sprint(max(w.bytes, 1)),
		"WEIGHTS": fmt.Sprint(max(len(w.weights), 1)), "HASH": fmt.Sprintf("%#x", sum.Sum64()),
		"KERNELS": w.kernels(), "DECIDE": decide, "ACTION": strings.Replace(w.at[w.action], "v + ", "s->work + ", 1),
		"INPUTS": strings.Join(inputs[:len(args)], ", "), "PARAMETERS": strings.Join(inputs, ", "),
		"NAMES": strings.Join(names, ", "), "ARGUMENTS": strings.Join(notes, ""),
		"OBSERVATIONS": strings.Join(observed, ", ") + ", ", "FORTRAN_NAMES": strings.Join(fNames, ", &\n"),
		"FORTRAN_TYPES": strings.Join(fTypes, ""), "VALUE": "", "CRITIC": "", "PUBLIC": "", "FORTRAN_VALUE": "",
	}
	if w.critic != none {
		n := w.values[w.critic].len()
		words["VALUES"], words["PUBLIC"] = fmt.Sprint(n), ", policy_value"
		words["VALUE"] = valueHeader
		words["CRITIC"] = fmt.Sprintf(valueSource, critic, w.at[w.critic])
		words["FORTRAN_VALUE"] = valueModule
	}
	fill := func(text string) []byte {
		return []byte(regexp.MustCompile(`@[A-Z_]+`).ReplaceAllStringFunc(text, func(word string) string {
			for name := word[1:]; name != ""; name = name[:len(name)-1] {
				if found, ok := words[name]; ok {
					return found + word[1+len(name):]
				}
			}
			return word
		}))
	}
	return map[string][]byte{"policy.h": fill(header), "policy.c": fill(source), "policy.f90": fill(module),
		"policy.bin": append([]byte(magic), raw...)}
}

// comment returns text as one line that can stand in a comment of C.
func comment(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "*/", "* /")
}

// The function policy_value in the header, in C and in Fortran.
const (
	valueHeader = `
/* policy_value sets value [POLICY_VALUES] to the critic's estimate of the discounted return, for the observation of
 * the last decision. policy.json has its unit. */
int policy_value(const policy *p, policy_state *s, float *value);
`
	valueSource = `
int policy_value(const policy *p, policy_state *s, float *value)
{
	const float *w = p->weights;
	float *v = s->work;
%s	memcpy(value, %s, POLICY_VALUES * sizeof *value);
	return finite_all(value, POLICY_VALUES) ? POLICY_OK : POLICY_NOT_FINITE;
}
`
	valueModule = `
        integer(c_int) function policy_value(p, s, value) bind(c)
            import :: c_int, c_ptr, c_float, policy_state
            type(c_ptr), value :: p
            type(policy_state), intent(inout) :: s
            real(c_float), intent(out) :: value(*)
        end function
`
)

// kernels returns the C code of the kernels that the program uses, in the order of the file kernels.c.
func (w *cWriter) kernels() string {
	parts := regexp.MustCompile(`(?m)^/\*: (.*) \*/\n`).FindAllStringSubmatchIndex(kernels, -1)
	needed := slices.Clone(w.used)
	for i := range slices.Backward(parts) {
		names := strings.Fields(kernels[parts[i][2]:parts[i][3]])
		if slices.Contains(needed, names[0]) {
			needed = append(needed, names[1:]...)
		}
	}
	var text strings.Builder
	for i, at := range parts {
		end := len(kernels)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		if name, _, _ := strings.Cut(kernels[at[2]:at[3]], " "); slices.Contains(needed, name) {
			text.WriteString(kernels[at[1]:end])
		}
	}
	return text.String()
}
