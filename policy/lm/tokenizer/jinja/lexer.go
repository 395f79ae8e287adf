package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	data     kind = iota
	begin         // {{ or {%
	end           // }} or %}
	name          // a name or a keyword
	operator      // a sign, such as + or ==
	constant      // a text or a number
	eof
)

// A token is one token of a template. Errors show its text.
type token struct {
	kind  kind
	text  string
	value any // the value of a constant
	line  int
}

func (t token) is(k kind, text string) bool { return t.kind == k && t.text == text }

// lexer splits a template into tokens. It has the state after the tokens so far.
type lexer struct {
	rest      string
	line      int
	tokens    []token
	lineStart bool // the next text begins a line
}

// tokenize splits a template into tokens. The last token is eof. White space is removed as the signs of tags and the
// settings trim_blocks and lstrip_blocks demand. One line end at the end of the template is removed, too.
func tokenize(source string) []token {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{rest: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.rest != "" {
		l.text()
	}
	l.add(eof, "the end of the template", nil)
	return l.tokens
}

func (l *lexer) add(k kind, text string, value any) {
	l.tokens = append(l.tokens, token{k, text, value, l.line})
}

// take removes n bytes from the rest and returns them.
func (l *lexer) take(n int) string {
	text := l.rest[:n]
	l.rest = l.rest[n:]
	l.line += strings.Count(text, "\n")
	l.lineStart = strings.HasSuffix(text, "\n")
	return text
}

var (
	tagStart   = regexp.MustCompile(`\{[{%#]`)
	rawStart   = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(?:-%\}\s*|%\})`)
	rawEnd     = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)`)
	commentEnd = regexp.MustCompile(`\+#\}|-#\}\s*|#\}\n?`)
	blockEnd   = regexp.MustCompile(`^(?:\+%\}|-%\}\s*|%\}\n?)`)
	outputEnd  = regexp.MustCompile(`^(?:-\}\}\s*|\}\})`)
)

// text reads the text up to the next tag, and then this tag.
func (l *lexer) text() {
	at := tagStart.FindStringIndex(l.rest)
	if at == nil {
		l.add(data, l.rest, nil)
		l.take(len(l.rest))
		return
	}
	start := l.rest[at[0]:]
	sign := ""
	if len(start) > 2 {
		sign = strings.Trim(start[2:3], " ")
	}
	l.data(at[0], sign, start[1] != '{')
	switch raw := rawStart.FindString(l.rest); {
	case raw != "":
		l.take(len(raw))
		end := rawEnd.FindStringSubmatchIndex(l.rest)
		if end == nil {
			panic(errorAt(l.line, "the tag raw has no end: expected endraw"))
		}
		l.data(end[0], l.rest[end[2]:end[3]], true)
		l.take(end[1] - end[0])
	case l.rest[1] == '#':
		end := commentEnd.FindStringIndex(l.rest)
		if end == nil {
			panic(errorAt(l.line, "a comment has no end: expected #}"))
		}
		l.take(end[1])
	default:
		l.tag()
	}
}

// data adds the next n bytes as text. White space before a tag is removed according to the sign of the tag and, for
// block tags, to lstrip_blocks.
func (l *lexer) data(n int, sign string, block bool) {
	text := l.rest[:n]
	start := strings.LastIndex(text, "\n") + 1
	switch {
	case sign == "-":
		text = strings.TrimRightFunc(text, isSpace)
	case sign != "+" && block && (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], isSpace) == "":
		text = text[:start]
	}
	if text != "" {
		l.add(data, text, nil)
	}
	l.take(n)
}

// isSpace reports whether Python's \s matches r.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// operators are the signs of expressions, the longest first.
var operators = strings.Fields("** // == != >= <= + - * / % ~ > < = . : | , ; ( ) [ ] { }")

var (
	floatToken = regexp.MustCompile(`(?i)^` +
		strings.ReplaceAll(`D(?:(?:\.D)?e[+-]?D|\.D)`, "D", `(?:[0-9]+_)*[0-9]+`)) // D: digits
	intToken = regexp.MustCompile(
		`(?i)^(?:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
)

// tag reads a tag from its beginning to its end.
func (l *lexer) tag() {
	block := l.rest[1] == '%'
	l.add(begin, l.take(2), nil)
	if l.rest != "" && (l.rest[0] == '-' || l.rest[0] == '+') {
		l.take(1)
	}
	ends, open := outputEnd, ""
	if block {
		ends = blockEnd
	}
	for {
		l.take(len(l.rest) - len(strings.TrimLeftFunc(l.rest, isSpace)))
		if l.rest == "" {
			panic(errorAt(l.line, "a tag has no end"))
		}
		if open == "" {
			if n := len(ends.FindString(l.rest)); n > 0 {
				l.add(end, strings.Trim(l.rest[:n], "+- \t\n"), nil)
				l.take(n)
				return
			}
		}
		open = l.expression(open)
	}
}

// expression reads one token of an expression. Its argument lists the closing brackets that the expression needs before
// the token, and its result those that it needs after the token.
func (l *lexer) expression(open string) string {
	r, _ := utf8.DecodeRuneInString(l.rest)
	switch {
	case r == '"' || r == '\'':
		l.quoted()
		return open
	case '0' <= r && r <= '9':
		l.number()
		return open
	case r == '_' || unicode.IsLetter(r):
		n := strings.IndexFunc(l.rest, func(r rune) bool {
			return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
		if n < 0 {
			n = len(l.rest)
		}
		l.add(name, l.take(n), nil)
		return open
	}
	for _, sign := range operators {
		if !strings.HasPrefix(l.rest, sign) {
			continue
		}
		switch sign {
		case "(", "[", "{":
			open += map[string]string{"(": ")", "[": "]", "{": "}"}[sign]
			if len(open) > maxBrackets {
				panic(errorAt(l.line, "%d open brackets: expected at most %d", len(open), maxBrackets))
			}
		case ")", "]", "}":
			if !strings.HasSuffix(open, sign) {
				panic(errorAt(l.line, "unexpected %s", sign))
			}
			open = open[:len(open)-1]
		}
		l.add(operator, l.take(len(sign)), nil)
		return open
	}
	panic(errorAt(l.line, "unexpected character %q", r))
}

// maxBrackets is the maximum depth of brackets and of nested tags.
const maxBrackets = 1000

func (l *lexer) number() {
	afterDot := len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].is(operator, ".") // x.1.2 has two indices
	if text := floatToken.FindString(l.rest); text != "" && !afterDot {
		// A number beyond the range is infinite, as in Python.
		f, _ := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		l.add(constant, text, f)
		l.take(len(text))
		return
	}
	text := intToken.FindString(l.rest)
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(errorAt(l.line, "%s: expected a number of 64 bits", text))
	}
	l.add(constant, text, int(n))
	l.take(len(text))
}

// quoted reads a text constant in single or double quotes.
func (l *lexer) quoted() {
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case l.rest[0]:
			l.add(constant, l.rest[:i+1], unescape(l.rest[1:i], l.line))
			l.take(i + 1)
			return
		}
	}
	panic(errorAt(l.line, "a text has no closing quote"))
}

var escape = regexp.MustCompile(`\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?s:.))`)

var escapes = map[byte]string{'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n",
	'r': "\r", 't': "\t", 'v': "\v"}

// unescape replaces the escapes of Python's string constants.
func unescape(s string, line int) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		c := e[1]
		switch text, ok := escapes[c]; {
		case ok:
			return text
		case '0' <= c && c <= '7':
			n, _ := strconv.ParseUint(e[1:], 8, 32)
			return string(rune(n))
		case len(e) > 3 && strings.ContainsRune("xuU", rune(c)):
			n, _ := strconv.ParseUint(e[2:], 16, 32)
			return string(rune(n))
		case strings.ContainsRune("xuUN", rune(c)):
			panic(errorAt(line, "unknown escape %s", e))
		}
		return e
	})
}

// errorAt returns an error in a line of the template.
func errorAt(line int, format string, values ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{line}, values...)...)
}
