package verify

import (
	"math/big"
	"slices"
	"strings"
	"unicode"
)

const (
	maxDepth     = 100  // nested brackets and arguments
	maxNodes     = 400  // nodes of one answer
	maxFunctions = 24   // roots, powers, and functions such as sin
	maxItems     = 32   // items of a list
	maxDigits    = 1000 // digits of a number
)

type op uint8

const (
	opNumber   op = iota
	opVariable    // name
	opConstant    // name: pi, e, i
	opAdd
	opMul
	opDiv
	opNeg
	opPow
	opRoot // args: radicand, degree
	opFunction
	opFactorial
	opBinomial

	// Nodes with the following ops are not single values.
	opList     // args: items, in any order
	opTuple    // name: the brackets
	opMatrix   // args: the rows, which are opTuples
	opUnion    // args: intervals
	opRelation // name: the relations between the args, such as "= =" or "< le"
)

// A node is a node in the syntax tree of an answer.
type node struct {
	op     op
	args   []*node
	number *big.Rat
	name   string
	unit   string  // "" for no unit, "?" for an unknown one
	label  string  // left side of an equation, if this side is only a name
	values *values // cache of atPoints
}

func (n *node) isValue() bool { return n.op < opList }

// parser is a recursive-descent parser. It panics with a failure at the first error.
type parser struct {
	tokens    []token
	at        int
	depth     int
	nodes     int
	functions int
	bars      int    // number of open |…| within the current brackets
	angles    int    // nesting of function arguments, in which a degree is π/180
	degrees   string // the unit of a degree sign outside of functions: degree, °C or °F
	minus     bool   // if true, ± is read as - and ∓ as +
	plusMinus bool   // a ± was read
}

// parse returns the syntax tree of an answer, or nil if the tokens cannot be parsed.
func parse(tokens []token) *node {
	p := &parser{tokens: tokens}
	var n *node
	if !p.parses(func() { n = p.list() }) || p.at != len(tokens) {
		return nil
	}
	return n
}

// parses calls the function parse, and reports whether it succeeded.
func (p *parser) parses(parse func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil && r != (failure{}) {
			panic(r)
		}
	}()
	parse()
	return true
}

type failure struct{}

func (p *parser) fail() *node { panic(failure{}) }

func (p *parser) peek() token {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return token{kind: symbol}
}

// take skips the next token if it has this kind and text. It reports whether it skipped one.
func (p *parser) take(k kind, text string) bool {
	if p.at < len(p.tokens) && p.tokens[p.at].is(k, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) {
	if !p.take(k, text) {
		p.fail()
	}
}

// enter begins a level of nesting, and returns the function that ends it. It fails beyond maxDepth.
func (p *parser) enter() (leave func()) {
	if p.depth++; p.depth > maxDepth {
		p.fail()
	}
	return func() { p.depth-- }
}

// make returns a new node. It fails if an argument is not a single value or has a unit.
func (p *parser) make(o op, name string, args ...*node) *node {
	p.nodes++
	if o == opFunction || o == opRoot || o == opPow {
		p.functions++
	}
	if p.nodes > maxNodes || p.functions > maxFunctions {
		return p.fail()
	}
	for _, a := range args {
		if !a.isValue() || a.unit != "" {
			return p.fail()
		}
	}
	return &node{op: o, name: name, args: args}
}

func (p *parser) num(r *big.Rat) *node {
	n := p.make(opNumber, "")
	n.number = r
	return n
}

// list parses a whole answer: statements separated by commas, "or" and "and".
func (p *parser) list() *node {
	var items []*node
	for {
		items = append(items, p.bothSigns()...)
		if !p.separator() {
			break
		}
		for p.separator() {
		}
	}
	if len(items) > maxItems {
		return p.fail()
	}
	if len(items) == 1 {
		return items[0]
	}
	return withoutLabels(items)
}

func (p *parser) separator() bool {
	if t := p.peek(); (t.kind == prose || t.kind == word) && isSeparator(t.text) {
		p.at++
		return true
	}
	return p.take(symbol, ",") || p.take(symbol, ";") || p.take(command, "or") || p.take(command, "and")
}

func isSeparator(text string) bool {
	return separators[strings.TrimPrefix(strings.ToLower(text), ", ")]
}

// separators are the words between the items of a list, also in other languages.
var separators = set("or and und oder et ou и или 及 と または 그리고 또는")

// bothSigns parses a statement. If the statement contains ±, it returns the statement twice, once with each sign.
func (p *parser) bothSigns() []*node {
	start := p.at
	p.minus, p.plusMinus = false, false
	upper := p.unitStatement()
	if !p.plusMinus {
		return []*node{upper}
	}
	p.at, p.minus = start, true
	return []*node{upper, p.unitStatement()}
}

// withoutLabels returns an opList of items. It removes a label that all items share. It also removes a label that only
// the first item has, if no other item is a relation.
func withoutLabels(items []*node) *node {
	shared := items[0].label
	alone := shared != ""
	for _, n := range items[1:] {
		alone = alone && n.op != opRelation
		if n.label != items[0].label {
			shared = ""
		}
	}
	for i, n := range items {
		if shared != "" || alone && i == 0 {
			items[i] = n.args[1]
		}
	}
	return &node{op: opList, args: items}
}

// unitStatement parses a statement with its unit. A degree sign is the unit of the whole statement.
func (p *parser) unitStatement() *node {
	p.degrees = ""
	n := p.statement()
	if unit := p.degrees; unit != "" {
		p.degrees = ""
		return p.withUnit(n, unit)
	}
	return n
}

func (p *parser) withUnit(n *node, unit string) *node {
	if n.op == opRelation && n.label != "" {
		n.args[1] = p.withUnit(n.args[1], unit)
		return n
	}
	if !n.isValue() || n.unit != "" && n.unit != unit {
		return p.fail()
	}
	measured := *n
	measured.unit = unit
	return &measured
}

// statement parses one side, or several sides separated by relations.
func (p *parser) statement() *node {
	start := p.at
	first, label := p.named()
	if first == nil {
		first = p.union()
	}
	sides := []*node{first}
	var relations []string
	for {
		if p.approximates(p.at) {
			sides[len(sides)-1] = p.approximated(sides[len(sides)-1])
			break
		}
		r := p.relation()
		if r == "" {
			break
		}
		if len(sides) == 1 && label == "" {
			label = labelOf(p.tokens[start : p.at-1])
		}
		if len(sides) > 4 {
			return p.fail()
		}
		sides, relations = append(sides, p.union()), append(relations, r)
	}
	switch {
	case len(sides) == 1:
		return sides[0]
	case relations[0] == "in" && label != "" && len(sides) == 2:
		return sides[1]
	}
	for _, s := range sides {
		if !s.isValue() && (len(sides) > 2 || relations[0] != "=") {
			return p.fail()
		}
	}
	return relate(sides, relations, label)
}

// relate returns an opRelation. For a calculation such as "10/2 = 5" it returns only the last side.
func relate(sides []*node, relations []string, label string) *node {
	n := &node{op: opRelation, name: strings.Join(relations, " "), args: sides}
	if strings.Trim(n.name, "= ") != "" {
		return n
	}
	rest := sides
	if label != "" {
		rest = sides[1:]
	}
	for _, s := range rest[1:] {
		if !s.isValue() || s.hasVariables() || !equalValues(rest[0], s) {
			return n
		}
	}
	last := rest[len(rest)-1]
	if label == "" {
		return last
	}
	return &node{op: opRelation, name: "=", args: []*node{sides[0], last}, label: label}
}

func (p *parser) relation() string {
	t := p.peek()
	switch {
	case t.kind == symbol && (t.text == "=" || t.text == "<" || t.text == ">"):
	case t.kind == command && (t.text == "le" || t.text == "ge" || t.text == "ne" || t.text == "in"):
	default:
		return ""
	}
	p.at++
	return t.text
}

// named parses a left side that is a name in words, such as \text{Area} in \text{Area} = 12. It returns nil if there
// is none, or if the words may change the meaning: "none if k = 3".
func (p *parser) named() (*node, string) {
	if t := p.peek(); t.kind != word && (t.kind != prose || isSeparator(t.text)) {
		return nil, ""
	}
	words := 0
	for i := p.at; i < len(p.tokens) && words <= 4; i++ {
		t := p.tokens[i]
		if t.kind == prose || t.kind == word {
			notName := func(r rune) bool { return r != ' ' && r != '\'' && !unicode.IsLetter(r) }
			words += len(strings.Fields(t.text))
			if isQualifier(strings.ToLower(t.text)) || strings.ContainsFunc(t.text, notName) {
				return nil, ""
			}
		}
		switch {
		case t.is(symbol, "="):
			label := strings.ToLower(write(canonical(p.tokens[p.at:i]), false))
			p.at = i
			return p.make(opVariable, "="+label), label
		case t.kind == prose || t.kind == word || t.kind == letter:
		case t.kind == number && (p.tokens[i-1].is(symbol, "_") || p.tokens[i-1].is(symbol, "{")):
		case t.kind == command && (t.text == "triangle" || t.text == "angle"):
		case t.kind == symbol && (t.text == "_" || t.text == "{" || t.text == "}"):
		default:
			return nil, ""
		}
	}
	return nil, ""
}

// labelOf returns the text of a left side that only names the right side, such as x, x_1, AB, ∠A, f(x), f'(x) or (x,
// y). It returns "" for other sides.
func labelOf(tokens []token) string {
	text := write(canonical(tokens), false)
	if len(tokens) > 1 && tokens[0].is(command, "angle") {
		tokens = tokens[1:]
	}
	last := len(tokens) - 1
	switch {
	case last > 1 && tokens[0].is(symbol, "(") && tokens[last].is(symbol, ")"):
		if countVariables(tokens[1:last]) == 0 {
			return ""
		}
		return text
	case last < 0 || !isVariable(tokens[0]):
		return ""
	case (tokens[last].kind != letter || last == 0 || tokens[1].is(symbol, "_")) && countVariables(tokens) == 1:
		return text
	}
	plain := slices.DeleteFunc(slices.Clone(tokens), func(t token) bool { return t.is(symbol, "'") })
	if isApplication(plain) {
		return text
	}
	for _, t := range plain {
		if t.kind != letter || strings.ToUpper(t.text) != t.text || len(plain) > 3 {
			return ""
		}
	}
	return text
}

// countVariables returns the number of variables in a comma-separated list of variables. It returns 0 for other
// tokens.
func countVariables(tokens []token) int {
	p, n := &parser{tokens: tokens}, 0
	all := p.parses(func() {
		for more := true; more && isVariable(p.peek()); more = p.take(symbol, ",") {
			p.variable()
			n++
		}
	})
	if !all || p.at != len(tokens) || tokens[len(tokens)-1].is(symbol, ",") {
		return 0
	}
	return n
}

// isApplication reports whether tokens are f(x) or f^{-1}(x).
func isApplication(tokens []token) bool {
	n := len(tokens)
	if n < 4 || !isVariable(tokens[n-2]) || !tokens[n-1].is(symbol, ")") {
		return false
	}
	middle := write(tokens[1:n-2], false)
	return middle == "(" || middle == "^{-1}("
}

func isVariable(t token) bool {
	return t.kind == letter || t.kind == command && (greek[t.text] || strings.HasPrefix(t.text, "mathcal "))
}

var greek = set(`
	alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi varphi
	chi psi omega Gamma Delta Phi Psi Omega ell
`)

// union parses a sum, a binomial n \choose k, or intervals joined by ∪.
func (p *parser) union() *node {
	parts := []*node{p.sum()}
	if p.take(command, "choose") {
		return p.make(opBinomial, "", parts[0], p.sum())
	}
	for p.take(command, "cup") {
		parts = append(parts, p.sum())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	for _, n := range parts {
		if n.isValue() || len(parts) > maxItems {
			return p.fail()
		}
	}
	return &node{op: opUnion, args: parts}
}
