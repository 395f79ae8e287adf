package jinja

import "fmt"

// A Template is a parsed template. Any number of goroutines can render it.
type Template struct {
	body []statement
	known
}

// known has the filters and tests by their names.
type known struct {
	filters, tests map[string]function
}

// maxSource is the maximum length of a template in bytes. The largest published templates have about 30,000 bytes.
const maxSource = 1 << 17

// Parse parses a template. The error has the line.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%d bytes: expected at most %d", len(source), maxSource)
	}
	defer recoverAs(&err, func(text string) error { return fmt.Errorf("%s", text) })
	p := &parser{known: known{allFilters(), allTests()}, tokens: tokenize(source)}
	return &Template{p.statements(), p.known}, nil
}

// parser is a recursive-descent parser. It panics with an error.
type parser struct {
	known  known
	tokens []token
	at     int
	depth  int
	loops  int
	macros []*macro
}

func (p *parser) peek() token  { return p.tokens[p.at] }
func (p *parser) ahead() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	p.at = min(p.at+1, len(p.tokens)-1)
	return t
}

func (p *parser) take(k kind, text string) bool {
	if p.peek().is(k, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) fail(format string, values ...any) {
	panic(errorAt(p.peek().line, format, values...))
}

func (p *parser) expect(k kind, text string) {
	if !p.take(k, text) {
		p.fail("unexpected %s: expected %s", p.peek().text, text)
	}
}

func (p *parser) name() string {
	if p.peek().kind != name {
		p.fail("unexpected %s: expected a name", p.peek().text)
	}
	return p.next().text
}

// enter counts the depth of nested expressions and tags. It returns the function that leaves one level.
func (p *parser) enter() func() {
	if p.depth++; p.depth > maxBrackets {
		p.fail("nested expressions: expected at most %d", maxBrackets)
	}
	return func() { p.depth-- }
}
