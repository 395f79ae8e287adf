package config

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"
)

const maxText = 1 << 16 // largest value after interpolation, in bytes

// interpolate replaces every interpolation in the tree by its value. It supports OmegaConf's notation:
//
//	${a.b}  ${a.list[0]}            another value, a map or a list too
//	${.x}  ${..x}                   a sibling, a sibling of the parent
//	${oc.env:NAME} ${oc.env:NAME,d} an environment variable, or d if it is not set
//	${oc.select:a.b,d}              another value, or d if it is not given; d is null by default
//	${oc.decode:text}               text, parsed as a YAML scalar
//	${multiply:2,${a.b}} ${int_div:7,2} ${subtract:3,1} ${not:${a.flag}}
//	text-${a.b}-text                a value inserted into text; \${ is a plain ${
func (t *Tree) interpolate() {
	in := newInterpolation(t)
	in.walk(t.root, "")
}

// An interpolation resolves each value of one tree once, in place.
type interpolation struct {
	tree  *Tree
	state map[*node]progress
	trail []string // keys being resolved: each key refers to the next
	nodes int      // number of nodes copied so far
	depth int      // nesting of interpolations
}

func newInterpolation(t *Tree) *interpolation {
	return &interpolation{tree: t, state: map[*node]progress{}}
}

type progress uint8

const (
	untouched progress = iota
	running
	resolved
)

func (in *interpolation) walk(n *node, key string) {
	for i, item := range n.items {
		in.walk(item, join(key, n.name(i)))
	}
	if n.kind != scalar {
		return
	}
	if err := in.resolve(n, key); err != nil {
		n.wrong = err // Decode reports the error if a field uses the value
	}
}

// resolve replaces the interpolations in n by their values. If n is a dict or a list, it resolves all items of n. key
// is the key of n.
func (in *interpolation) resolve(n *node, key string) error {
	if n.kind != scalar {
		for i, item := range n.items {
			if err := in.resolve(item, join(key, n.name(i))); err != nil {
				return err
			}
		}
		return nil
	}
	if n.tag != strTag || !strings.Contains(n.value, "${") || in.state[n] == resolved {
		return nil
	}
	if len(n.value) > maxText {
		return fmt.Errorf("an interpolation longer than %d bytes", maxText)
	}
	if in.state[n] == running {
		return fmt.Errorf("circular interpolations: %s", strings.Join(append(in.trail, key), " → "))
	}
	in.state[n] = running
	in.trail = append(in.trail, key)
	defer func() { in.trail = in.trail[:len(in.trail)-1] }()
	v, err := in.expand(n, key)
	if err != nil {
		in.state[n] = untouched
		return err
	}
	origin := n.origin
	*n = *v
	n.origin = origin
	in.state[n] = resolved
	return nil
}

// expand returns the scalar n with its interpolations replaced by their values. key is the key of n. If n is a single
// interpolation, the result keeps the type of its value. If n has no interpolation, the result is n. Otherwise the
// result is text.
func (in *interpolation) expand(n *node, key string) (*node, error) {
	var out strings.Builder
	found := false
	for rest := n.value; rest != ""; {
		i := strings.Index(rest, "${")
		if i < 0 {
			out.WriteString(rest)
			break
		}
		found = true
		if i > 0 && rest[i-1] == '\\' {
			out.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		end := closingBrace(rest[i+2:])
		if end < 0 {
			return nil, errors.New("${ without }")
		}
		body := rest[i+2 : i+2+end]
		v, err := in.evaluate(body, key)
		if err != nil {
			return nil, err
		}
		if len(body)+len("${}") == len(n.value) {
			return v, nil
		}
		if v.kind != scalar {
			return nil, fmt.Errorf("${%s} is %s, which cannot be pasted into text", body, v.describe())
		}
		out.WriteString(rest[:i] + v.value)
		rest = rest[i+2+end+1:]
		if out.Len() > maxText {
			return nil, fmt.Errorf("the value is longer than %d bytes", maxText)
		}
	}
	if !found {
		return n, nil
	}
	return &node{tag: strTag, value: out.String()}, nil
}

// closingBrace returns the index of the } that closes a body, or -1 if there is none. It skips nested braces and quoted
// text.
func closingBrace(s string) int {
	for i, c := range topLevel(s) {
		if c == '}' {
			return i
		}
	}
	return -1
}

// topLevel yields the bytes of s outside of quotes and braces, including a } without a matching {.
func topLevel(s string) iter.Seq2[int, byte] {
	return func(yield func(int, byte) bool) {
		depth, quote := 0, byte(0)
		for i := range len(s) {
			switch c := s[i]; {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '\'' || c == '"':
				quote = c
			case c == '{':
				depth++
			default:
				if depth == 0 && !yield(i, c) {
					return
				}
				if c == '}' {
					depth--
				}
			}
		}
	}
}

// evaluate returns the value of an interpolation ${body}. If body has the form name:arguments, it calls a resolver.
// Otherwise it looks up a key.
func (in *interpolation) evaluate(body, key string) (*node, error) {
	if in.depth++; in.depth > maxDepth {
		return nil, errors.New("interpolations nested too deeply")
	}
	defer func() { in.depth-- }()
	name, arguments, isCall := strings.Cut(body, ":")
	if isCall && !strings.Contains(name, "${") {
		var args []*node
		for _, text := range split(arguments) {
			arg, err := in.argument(strings.TrimSpace(text), key)
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}
		if name = strings.TrimSpace(name); name == "oc.select" {
			return in.selected(args, key)
		}
		return call(name, args)
	}
	path, err := in.expand(&node{value: body}, key)
	if err != nil {
		return nil, err
	}
	return in.lookup(strings.TrimSpace(path.value), key)
}

// selected evaluates oc.select. It returns the value of the key that the first argument names. If this key is not
// given, it returns the second argument, or null if there is no second argument.
func (in *interpolation) selected(args []*node, key string) (*node, error) {
	if len(args) < 1 || len(args) > 2 || args[0].kind != scalar {
		return nil, errors.New("oc.select: expected a key, and a value for where it is not given")
	}
	if v, err := in.lookup(args[0].value, key); !errors.As(err, new(noKey)) {
		return v, err
	}
	if len(args) == 2 {
		return args[1], nil
	}
	return plain("null", ""), nil
}

// noKey is the error for a path at which there is no value.
type noKey string

func (path noKey) Error() string { return fmt.Sprintf("${%s}: no such key", string(path)) }

func (in *interpolation) argument(text, key string) (*node, error) {
	if len(text) >= 2 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0] {
		return &node{tag: strTag, value: text[1 : len(text)-1]}, nil
	}
	return in.expand(plain(text, ""), key)
}

// split splits arguments at the commas outside of quotes and braces.
func split(s string) []string {
	var args []string
	start := 0
	for i, c := range topLevel(s) {
		if c == ',' {
			args, start = append(args, s[start:i]), i+1
		}
	}
	return append(args, s[start:])
}

// lookup returns a copy of the value at path. A path with leading dots is relative to key.
func (in *interpolation) lookup(path, key string) (*node, error) {
	absolute := strings.NewReplacer("[", ".", "]", "").Replace(path)
	if up := len(absolute) - len(strings.TrimLeft(absolute, ".")); up > 0 {
		names := strings.Split(key, ".")
		if up > len(names) {
			return nil, fmt.Errorf("${%s} goes above the root", path)
		}
		absolute = join(strings.Join(names[:len(names)-up], "."), absolute[up:])
	}
	for _, name := range []string{absolute, in.tree.currentName(absolute)} {
		n, err := in.descend(in.tree.root, name)
		if err != nil {
			return nil, err
		}
		if n != nil {
			return in.copy(n)
		}
	}
	if n := in.tree.defaults.find(in.tree.currentName(absolute)); n != nil {
		return in.copy(n)
	}
	return nil, noKey(path)
}

// descend follows a dotted key and resolves values on the way. It returns nil if there is no value.
func (in *interpolation) descend(n *node, path string) (*node, error) {
	at := ""
	for name := range strings.SplitSeq(path, ".") {
		if n = n.child(name); n == nil {
			return nil, nil
		}
		at = join(at, name)
		if n.kind == scalar {
			if err := in.resolve(n, at); err != nil {
				return nil, err
			}
		}
	}
	return n, in.resolve(n, at)
}

// copy clones n. It returns an error after too many copied nodes, because nested references could make the tree huge.
func (in *interpolation) copy(n *node) (*node, error) {
	if in.nodes += n.size(); in.nodes > maxNodes {
		return nil, fmt.Errorf("interpolations copy more than %d values", maxNodes)
	}
	c := n.clone()
	in.markResolved(c)
	return c, nil
}

// markResolved marks n and all nodes below n as resolved. A ${ that is left in these nodes was escaped.
func (in *interpolation) markResolved(n *node) {
	in.state[n] = resolved
	for _, item := range n.items {
		in.markResolved(item)
	}
}

// call returns the result of the resolver called name for the given arguments.
func call(name string, args []*node) (*node, error) {
	arity := map[string][2]int{"oc.env": {1, 2}, "multiply": {2, 2}, "int_div": {2, 2}, "subtract": {2, 2},
		"not": {1, 1}, "torch.dtype": {1, 1}, "oc.decode": {1, 1}}
	want, ok := arity[name]
	if !ok {
		return nil, fmt.Errorf("no resolver %q, expected oc.env, oc.select, oc.decode, multiply, int_div, subtract, "+
			"not or torch.dtype", name)
	}
	if len(args) < want[0] || len(args) > want[1] {
		return nil, fmt.Errorf("%s: %d arguments, expected %d", name, len(args), want[1])
	}
	for _, a := range args {
		if a.kind != scalar {
			return nil, fmt.Errorf("%s: %s is not a single value", name, a.describe())
		}
	}
	switch name {
	case "oc.env":
		if v, ok := os.LookupEnv(args[0].value); ok {
			n := plain(v, "")
			n.decimal = true
			return n, nil
		}
		if len(args) == 2 {
			return args[1], nil
		}
		return nil, fmt.Errorf("environment variable %s is not set", args[0].value)
	case "not":
		if args[0].tag == boolTag {
			b, err := parseBool(args[0].value)
			return plain(strconv.FormatBool(!b), ""), err
		}
		return nil, fmt.Errorf("not: %s is neither true nor false", args[0].describe())
	case "oc.decode":
		n := plain(args[0].value, "")
		n.decimal = args[0].decimal
		return n, nil
	case "torch.dtype": // name of a number type in RLinf, kept as text
		return args[0], nil
	}
	return arithmetic(name, args[0], args[1])
}

// arithmetic evaluates multiply, subtract and int_div. Integers give an integer, other numbers a float. int_div rounds
// down.
func arithmetic(name string, a, b *node) (*node, error) {
	for _, n := range []*node{a, b} {
		if want := n.ambiguity(); want != "" {
			return nil, fmt.Errorf("%s: %s: %s", name, n.value, want)
		}
	}
	x, errX := parseFloat(WithoutZeros(a.value))
	y, errY := parseFloat(WithoutZeros(b.value))
	if errX != nil || errY != nil || a.tag != intTag && a.tag != floatTag || b.tag != intTag && b.tag != floatTag {
		return nil, fmt.Errorf("%s: expected two numbers, got %s and %s", name, a.describe(), b.describe())
	}
	var z float64
	switch name {
	case "multiply":
		z = x * y
	case "subtract":
		z = x - y
	case "int_div":
		if y == 0 {
			return nil, fmt.Errorf("int_div: %s by 0", a.value)
		}
		z = math.Floor(x / y)
	}
	integral := a.tag == intTag && b.tag == intTag || name == "int_div"
	if integral && math.Abs(z) <= 1<<53 {
		return plain(strconv.FormatInt(int64(z), 10), ""), nil
	}
	if integral {
		return nil, fmt.Errorf("%s: the result %g is too large", name, z)
	}
	return &node{tag: floatTag, value: strconv.FormatFloat(z, 'g', -1, 64)}, nil
}
