package verify

import (
	"slices"
	"strings"
)

// arguments maps commands to their number of arguments. Each argument is a group in braces or one token.
var arguments = map[string]int{
	"frac": 2, "binom": 2, "sqrt": 1, "pmod": 1, "pod": 1, "vec": 1, "hat": 1, "widehat": 1, "bar": 1, "overline": 1,
	"tilde": 1, "widetilde": 1, "dot": 1, "ddot": 1, "overrightarrow": 1, "overleftarrow": 1, "mathbf": 1,
}

// canonical rewrites tokens so that different notations of a formula have the same tokens. It puts arguments in
// braces, drops braces around other single tokens, puts indices before exponents, and drops spaces between the letters
// of a formula.
func canonical(tokens []token) []token {
	c := &canon{tokens: append([]token{}, tokens...)}
	out := c.all()
	formula := false
	for _, t := range out {
		formula = formula || t.kind == command
	}
	for i := 1; formula && i < len(out); i++ {
		if out[i].kind == letter && out[i-1].kind == letter {
			out[i].space = false
		}
	}
	return out
}

type canon struct {
	tokens []token
	at     int
}

func (c *canon) all() (out []token) {
	for c.at < len(c.tokens) {
		out = append(out, c.unit(out)...)
	}
	return out
}

// unit reads a group, or a token with its arguments. The previous tokens are in canonical form.
func (c *canon) unit(previous []token) []token {
	t := c.tokens[c.at]
	if m := c.modulus(); m != nil {
		return m
	}
	switch {
	case t.is(symbol, "_"), t.is(symbol, "^"):
		return c.scripts()
	case t.is(symbol, "(") && c.at+3 < len(c.tokens) && c.tokens[c.at+1].kind == number &&
		c.tokens[c.at+2].is(symbol, ")") && c.tokens[c.at+3].is(symbol, "_") && standsAlone(previous): // (2516)_8
		c.at += 3
		return []token{c.tokens[c.at-2]}
	case t.is(symbol, "{"):
		if end := c.end(); end > 0 {
			inner := unwrapped(c.inside(end))
			if len(inner) == 1 && standsAlone(previous) && (c.at == len(c.tokens) || endsItem(c.tokens[c.at])) {
				inner[0].space = t.space
				return inner
			}
			return braced(inner)
		}
	case t.kind == command && arguments[t.text] > 0:
		out := []token{t}
		c.at++
		if t.text == "sqrt" && c.at < len(c.tokens) && c.tokens[c.at].is(symbol, "[") {
			for c.at < len(c.tokens) && !c.tokens[c.at].is(symbol, "]") {
				out = append(out, c.tokens[c.at])
				c.at++
			}
			if c.at < len(c.tokens) {
				out = append(out, c.tokens[c.at])
				c.at++
			}
		}
		for range arguments[t.text] {
			out = append(out, c.argument(arguments[t.text] > 1)...)
		}
		return out
	}
	c.at++
	return []token{t}
}

// modulus reads (mod 7), in any notation, and returns \pmod{7}. It returns nil for anything else.
func (c *canon) modulus() []token {
	at := c.at
	if !c.tokens[at].is(prose, "(mod") {
		if at++; !c.tokens[c.at].is(symbol, "(") || at == len(c.tokens) {
			return nil
		}
		switch t := c.tokens[at]; {
		case t.is(command, "bmod"), t.is(command, "mod"), t.is(prose, "mod"):
		case at+2 < len(c.tokens) && t.kind == letter && t.text+c.tokens[at+1].text+c.tokens[at+2].text == "mod":
			at += 2
		default:
			return nil
		}
	}
	end := slices.IndexFunc(c.tokens[at:], func(t token) bool { return t.is(symbol, ")") || t.is(prose, ")") })
	if end < 2 || slices.ContainsFunc(c.tokens[at:at+end], func(t token) bool { return t.is(symbol, "(") }) {
		return nil
	}
	inner := &canon{tokens: c.tokens[at+1 : at+end]}
	c.at = at + end + 1
	return append([]token{{kind: command, text: "pmod"}}, braced(unwrapped(inner.all()))...)
}

// scripts reads an index and an exponent, in either order, and returns the index first.
func (c *canon) scripts() []token {
	first := c.script()
	if first[0].text == "^" && c.at < len(c.tokens) && c.tokens[c.at].is(symbol, "_") {
		return append(c.script(), first...)
	}
	return first
}

func (c *canon) script() []token {
	sign := c.tokens[c.at]
	sign.space = false
	c.at++
	return append([]token{sign}, c.argument(false)...)
}

// argument reads an argument, and returns it in braces. Set digit for \frac and \binom. An argument without braces is
// then only one digit of a number.
func (c *canon) argument(digit bool) []token {
	if c.at == len(c.tokens) {
		return nil
	}
	t := &c.tokens[c.at]
	switch {
	case t.is(symbol, "{"):
		if end := c.end(); end > 0 {
			return braced(unwrapped(c.inside(end)))
		}
	case digit && t.kind == number && len(t.text) > 1 && !strings.ContainsAny(t.text, ".,("):
		first := token{kind: number, text: t.text[:1]}
		t.text, t.space = t.text[1:], false
		return braced([]token{first})
	case t.is(symbol, "-") && c.at+1 < len(c.tokens) && c.tokens[c.at+1].kind <= letter:
		c.at += 2
		return braced(c.tokens[c.at-2 : c.at])
	case t.kind == command && arguments[t.text] > 0:
		return braced(c.unit(nil))
	case t.kind == symbol: // no argument follows
		return nil
	}
	c.at++
	return braced(c.tokens[c.at-1 : c.at])
}

// end returns the index of the brace that closes the group at c.at, or 0 if there is none.
func (c *canon) end() int {
	depth := 0
	for i := c.at; i < len(c.tokens); i++ {
		switch t := c.tokens[i]; {
		case t.is(symbol, "{"):
			depth++
		case t.is(symbol, "}"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// inside reads the group whose closing brace has the index end, and returns its canonical content.
func (c *canon) inside(end int) []token {
	inner := &canon{tokens: c.tokens[c.at+1 : end]}
	c.at = end + 1
	return inner.all()
}

// unwrapped removes the braces around all tokens, if there are any.
func unwrapped(tokens []token) []token {
	for len(tokens) > 1 && tokens[0].is(symbol, "{") && (&canon{tokens: tokens}).end() == len(tokens)-1 {
		tokens = tokens[1 : len(tokens)-1]
	}
	return tokens
}

func braced(tokens []token) []token {
	out := append([]token{{kind: symbol, text: "{"}}, tokens...)
	if len(tokens) > 0 {
		out[1].space = false
	}
	return append(out, token{kind: symbol, text: "}"})
}

// standsAlone reports whether the next operand is separate from the previous tokens.
func standsAlone(previous []token) bool {
	if len(previous) == 0 {
		return true
	}
	t := previous[len(previous)-1]
	return t.kind == symbol && strings.ContainsAny(t.text, "=+-,;(<>:/}") && t.text != `\}` ||
		t.kind == command && between[t.text]
}

// endsItem reports whether t separates the operand before it from the next one.
func endsItem(t token) bool {
	return t.kind == symbol && strings.ContainsAny(t.text, "_^=+-,;)<>:/%.}") || t.kind == command && between[t.text]
}

// between are commands that stand between or after operands.
var between = set("equiv to approx le ge ne in cdot pm mp cup cap pmod")
