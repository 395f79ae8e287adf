package ptx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Module is a text of PTX.
type Module struct{ kernels map[string]*Kernel }

// A Kernel is one entry of a module. Launch runs it.
type Kernel struct {
	Name   string
	Params []int // size of each parameter in bytes: 4 or 8

	code   []instruction
	text   []string // the instructions as they are in the module
	fixed  []uint64 // constants, which are the first registers
	params int      // register of the first parameter; the others follow
	places [numPlaces]int
	count  int     // number of registers
	shared []bool  // which words of shared memory belong to an array
	labels []label // not yet resolved branches, while parsing
}

// An instruction has registers as operands. Constants, parameters and the place of a thread are registers, too.
type instruction struct {
	op      opcode
	when    int  // the predicate that must hold; noRegister if there is none
	unless  bool // it must not hold
	to      int
	a, b, c int
	target  int // of a branch: index in Kernel.code
	line    int // in the module

	relation relation // of a comparison

	// Of a load or a store. The address is in register a.
	shared bool
	offset uint64
	size   int  // of an element, in bytes
	signed bool // a load extends the sign
	count  int  // of elements
	vector [4]int
}

const noRegister = -1

// The places of a thread and of its block, which PTX keeps in special registers.
const (
	threadX = iota
	blockX
	blockY
	numPlaces
)

var placeNames = map[string]int{"%tid.x": threadX, "%ctaid.x": blockX, "%ctaid.y": blockY}

// A label is where a branch goes.
type label struct {
	at   int
	name string
}

// Kernel returns the kernel with the given name, or nil.
func (m *Module) Kernel(name string) *Kernel { return m.kernels[name] }

// Names returns the names of all kernels, sorted.
func (m *Module) Names() []string {
	var names []string
	for name := range m.kernels {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads a module. An error names the line, and what is unknown there.
func Parse(text string) (*Module, error) {
	p := &parser{module: &Module{kernels: map[string]*Kernel{}}, arrays: map[string]uint64{}}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := p.statement(line); err != nil {
			return nil, fmt.Errorf("ptx: line %d: %w", p.line, err)
		}
	}
	return p.module, nil
}

// A parser reads a module line by line.
type parser struct {
	module *Module
	line   int
	arrays map[string]uint64 // addresses of arrays in shared memory
	words  []bool            // which words of shared memory belong to an array
	kernel *Kernel           // the current one
	names  map[string]int    // its registers
	next   int               // the next register that is not fixed
	narrow bool              // operands of the current instruction have 32 bits
	labels map[string]int
}

func (p *parser) statement(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSuffix(strings.TrimSpace(rest), ";")
	switch {
	case strings.Contains(line, ".shared ") && line[0] == '.':
		return p.array(line)
	case word == ".visible" && strings.HasPrefix(rest, ".entry "):
		name := strings.TrimSuffix(strings.TrimPrefix(rest, ".entry "), "(")
		p.kernel = &Kernel{Name: name, params: noRegister}
		p.names, p.labels, p.next = map[string]int{}, map[string]int{}, noRegister-1
		for i := range p.kernel.places {
			p.kernel.places[i] = p.fix(0)
		}
		p.module.kernels[name] = p.kernel
	case word == ".param":
		kind, name, _ := strings.Cut(strings.TrimSuffix(rest, ","), " ")
		size := map[string]int{".u32": 4, ".f32": 4, ".u64": 8, ".f64": 8}[kind]
		if size == 0 {
			return fmt.Errorf("unknown parameter %s", rest)
		}
		at := p.fix(0)
		if p.names[name] = at; p.kernel.params == noRegister {
			p.kernel.params = at
		}
		p.kernel.Params = append(p.kernel.Params, size)
	case word == ".version" || word == ".target" || word == ".address_size" || word == ".reg" || word == ".pragma":
	case line == ")" || line == "{":
	case line == "}":
		return p.end()
	case line[0] == '.':
		return fmt.Errorf("unknown directive %s", word)
	case strings.HasSuffix(line, ":"):
		p.labels[strings.TrimSuffix(line, ":")] = len(p.kernel.code)
	default:
		return p.instruction(strings.TrimSuffix(line, ";"))
	}
	return nil
}

// array reads the declaration of an array in shared memory: .shared .align 16 .b8 name[1024]. Between two arrays there
// are words of no array, so that an index beyond its array is found.
func (p *parser) array(line string) error {
	const gap = 16
	var align, size int
	name := line[strings.LastIndex(line, " ")+1:]
	name, length, _ := strings.Cut(strings.TrimSuffix(name, ";"), "[")
	_, err := fmt.Sscanf(line[strings.Index(line, ".align"):], ".align %d .b8", &align)
	if err == nil {
		size, err = strconv.Atoi(strings.TrimSuffix(length, "]"))
	}
	if err != nil {
		return fmt.Errorf("unknown array %s", line)
	}
	for len(p.words)*4%max(align, gap) != 0 {
		p.words = append(p.words, false)
	}
	p.arrays[name] = uint64(4 * len(p.words))
	p.words = append(p.words, slices.Repeat([]bool{true}, (size+3)/4)...)
	p.words = append(p.words, make([]bool, gap/4)...)
	return nil
}

// end completes the current kernel.
func (p *parser) end() error {
	k := p.kernel
	for _, l := range k.labels {
		target, ok := p.labels[l.name]
		if !ok {
			return fmt.Errorf("kernel %s has no label %s", k.Name, l.name)
		}
		k.code[l.at].target = target
	}
	k.renumber()
	k.shared, k.labels, p.kernel = p.words, nil, nil
	return nil
}

// While a kernel is parsed, constants have registers 0, 1, … and other registers -2, -3, …. renumber puts the others
// after the constants.
func (k *Kernel) renumber() {
	n := len(k.fixed)
	most := n
	for i := range k.code {
		in := &k.code[i]
		for _, r := range []*int{&in.when, &in.to, &in.a, &in.b, &in.c, &in.vector[0], &in.vector[1], &in.vector[2],
			&in.vector[3]} {
			if *r < noRegister {
				*r = n - 2 - *r
				most = max(most, *r+1)
			}
		}
	}
	k.count = most
}

// fix returns a register with a constant value.
func (p *parser) fix(value uint64) int {
	p.kernel.fixed = append(p.kernel.fixed, value)
	return len(p.kernel.fixed) - 1
}

// instruction reads a line of code.
func (p *parser) instruction(line string) error {
	if p.kernel == nil {
		return fmt.Errorf("an instruction outside a kernel: %s", line)
	}
	in := instruction{when: noRegister, line: p.line}
	text := line
	if line[0] == '@' {
		var when string
		when, line, _ = strings.Cut(line[1:], " ")
		in.unless = when[0] == '!'
		in.when = p.register(strings.TrimPrefix(when, "!"))
		line = strings.TrimSpace(line)
	}
	name, rest := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		name, rest = line[:i], strings.TrimSpace(line[i:])
	}
	if !in.identify(name) {
		return fmt.Errorf("unknown instruction %s", name)
	}
	p.narrow = strings.HasSuffix(name, "32")
	if err := p.operands(&in, rest); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	p.kernel.code = append(p.kernel.code, in)
	p.kernel.text = append(p.kernel.text, text)
	return nil
}

// operands reads the operands of an instruction: the destination first, except for a store.
func (p *parser) operands(in *instruction, text string) (err error) {
	switch in.op {
	case exit, barrier:
		return nil
	case branch:
		p.kernel.labels = append(p.kernel.labels, label{len(p.kernel.code), text})
		return nil
	case store:
		address, values, _ := strings.Cut(text, ",")
		if err = p.address(in, address); err == nil {
			err = p.vector(in, values)
		}
		return err
	case load:
		i := strings.LastIndex(text, ",")
		if err = p.address(in, text[i+1:]); err == nil {
			err = p.vector(in, text[:i])
		}
		return err
	}
	to, rest, _ := strings.Cut(text, ",")
	in.to = p.register(strings.TrimSpace(to))
	for i, word := range strings.Split(rest, ",") {
		if i == 3 {
			return fmt.Errorf("too many operands")
		}
		if *[]*int{&in.a, &in.b, &in.c}[i], err = p.value(strings.TrimSpace(word)); err != nil {
			return err
		}
	}
	return nil
}

// vector reads the registers of a load or a store: one, or several in braces.
func (p *parser) vector(in *instruction, text string) (err error) {
	words := strings.Split(strings.Trim(strings.TrimSpace(text), "{}"), ",")
	if len(words) != in.count {
		return fmt.Errorf("%d registers, expected %d", len(words), in.count)
	}
	for i, word := range words {
		if in.vector[i], err = p.value(strings.TrimSpace(word)); err != nil {
			return err
		}
	}
	return nil
}

// address reads [register+offset].
func (p *parser) address(in *instruction, text string) (err error) {
	base, offset, _ := strings.Cut(strings.Trim(strings.TrimSpace(text), "[]"), "+")
	if offset != "" {
		n, err := strconv.ParseInt(offset, 0, 64)
		if err != nil {
			return err
		}
		in.offset = uint64(n)
	}
	in.a, err = p.value(base)
	return err
}

// value returns the register of an operand.
func (p *parser) value(text string) (int, error) {
	text = strings.Trim(text, "[]") // of a parameter
	if place, ok := placeNames[text]; ok {
		return p.kernel.places[place], nil
	}
	if at, ok := p.names[text]; ok {
		return at, nil
	}
	if at, ok := p.arrays[text]; ok {
		return p.fix(at), nil
	}
	switch {
	case strings.HasPrefix(text, "0f"), strings.HasPrefix(text, "0d"):
		bits, err := strconv.ParseUint(text[2:], 16, 64)
		return p.fix(bits), err
	case text != "" && text[0] == '%' && !strings.Contains(text, "."):
		return p.register(text), nil
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("unknown operand %s", text)
	}
	if p.narrow {
		n = int64(uint32(n))
	}
	return p.fix(uint64(n)), nil
}

// register returns the register with the given name.
func (p *parser) register(name string) int {
	at, ok := p.names[name]
	if !ok {
		at = p.next
		p.names[name] = at
		p.next--
	}
	return at
}
