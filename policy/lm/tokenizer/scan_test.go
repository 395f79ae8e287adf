package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
)

// The scanners give the same pieces as a slow matcher of the regular expressions.
func TestScanners(t *testing.T) {
	classes := newClasses()
	for pattern, rule := range patterns {
		m := parseRegex(pattern)
		random := rand.New(rand.NewPCG(1, uint64(rule)))
		for range 4000 {
			text := randomText(random)
			var got, want []string
			for rest := text; rest != ""; {
				n := classes.next(rest, rule)
				got = append(got, rest[:n])
				rest = rest[n:]
			}
			for rest := []rune(text); len(rest) > 0; {
				n := m.match(rest)
				if n < 1 {
					t.Fatalf("%s: the reference matches nothing of %q", pattern, string(rest))
				}
				want = append(want, string(rest[:n]))
				rest = rest[n:]
			}
			if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
				t.Fatalf("%s\n%q\n got %q\nwant %q", pattern, text, got, want)
			}
		}
	}
}

func TestClasses(t *testing.T) {
	c := newClasses()
	for r := range unicode.MaxRune + 1 {
		want := other
		switch {
		case r == '\r' || r == '\n':
			want = newline
		case unicode.IsLetter(r):
			want = letter
		case unicode.IsNumber(r):
			want = number
		case unicode.Is(unicode.White_Space, r):
			want = space
		}
		if got := c.of(r); got != want {
			t.Fatalf("%U: %d, want %d", r, got, want)
		}
	}
}

// randomText returns a text of characters that the expressions distinguish.
func randomText(r *rand.Rand) string {
	parts := []string{" ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "'", "'s", "'S", "'ſ", "'Re",
		"'ll", "'VE", "'d", "'m", "t", "s",
		"a", "Z", "é", "e\u0301", "人", "한", "ʰ", "ǅ", "ª", "1", "23", "4567", "²", "٣", "Ⅷ", "½", "!", "?!", "_", "-",
		"€", "\u200d", "\u200b", "\ufeff", "👍", "𝟗", "𐐷", "\U000e0100", "\x00"}
	var b strings.Builder
	for range r.IntN(12) {
		if r.IntN(8) == 0 {
			c := rune(r.IntN(0x110000))
			if 0xd800 <= c && c < 0xe000 {
				c = 'x'
			}
			b.WriteRune(c)
			continue
		}
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// A regex is an expression of the kind of the patterns: alternatives of sequences. Its matching backtracks.
type regex [][]term

type term struct {
	group      regex           // of a group; else
	is         func(rune) bool // of one character
	least      int
	most       int
	possessive bool
	ahead      bool // (?!group)
	fold       bool
}

type regexParser struct {
	rest []rune
	fold bool
}

func parseRegex(pattern string) regex {
	p := &regexParser{rest: []rune(pattern)}
	m := p.alternatives()
	if len(p.rest) > 0 {
		panic("pattern: " + string(p.rest))
	}
	return m
}

func (p *regexParser) take(s string) bool {
	if !strings.HasPrefix(string(p.rest), s) {
		return false
	}
	p.rest = p.rest[len([]rune(s)):]
	return true
}

func (p *regexParser) alternatives() regex {
	m := regex{nil}
	for len(p.rest) > 0 && p.rest[0] != ')' {
		if p.take("|") {
			m = append(m, nil)
			continue
		}
		m[len(m)-1] = append(m[len(m)-1], p.term())
	}
	return m
}

func (p *regexParser) term() term {
	t := term{least: 1, most: 1, fold: p.fold}
	switch {
	case p.take("(?!"):
		t.group, t.ahead = p.alternatives(), true
		p.take(")")
	case p.take("(?:"):
		t.group = p.alternatives()
		p.take(")")
	case p.take("(?i:"):
		p.fold = true
		t.group = p.alternatives()
		p.fold = false
		p.take(")")
	case p.take("["):
		not := p.take("^")
		var any []func(rune) bool
		for !p.take("]") {
			any = append(any, p.char())
		}
		t.is = func(r rune) bool {
			for _, is := range any {
				if is(r) {
					return !not
				}
			}
			return not
		}
	default:
		t.is = p.char()
	}
	switch {
	case p.take("?"):
		t.least = 0
	case p.take("+"):
		t.most = 1 << 30
	case p.take("*"):
		t.least, t.most = 0, 1<<30
	case p.take("{1,3}"):
		t.most = 3
	}
	t.possessive = p.take("+")
	return t
}

func (p *regexParser) char() func(rune) bool {
	for s, is := range map[string]func(rune) bool{
		`\p{L}`: unicode.IsLetter, `\p{N}`: unicode.IsNumber, `\s`: func(r rune) bool {
			return unicode.Is(unicode.White_Space, r)
		},
		`\S`: func(r rune) bool { return !unicode.Is(unicode.White_Space, r) },
		`\r`: func(r rune) bool { return r == '\r' }, `\n`: func(r rune) bool { return r == '\n' },
	} {
		if p.take(s) {
			return is
		}
	}
	want := p.rest[0]
	if want == '\\' {
		panic("pattern: " + string(p.rest))
	}
	p.rest = p.rest[1:]
	if !p.fold {
		return func(r rune) bool { return r == want }
	}
	return func(r rune) bool {
		for f := unicode.SimpleFold(want); f != want; f = unicode.SimpleFold(f) {
			if f == r {
				return true
			}
		}
		return r == want
	}
}

// match returns the length of the match at the start of the text, -1 if there is none.
func (m regex) match(text []rune) int {
	end := -1
	m.walk(text, 0, func(at int) bool {
		end = at
		return true
	})
	return end
}

// walk calls then with the ends of matches, in the order of preference, until then returns true.
func (m regex) walk(text []rune, at int, then func(int) bool) bool {
	for _, terms := range m {
		if walkTerms(terms, text, at, then) {
			return true
		}
	}
	return false
}

func walkTerms(terms []term, text []rune, at int, then func(int) bool) bool {
	if len(terms) == 0 {
		return then(at)
	}
	t, rest := terms[0], terms[1:]
	switch {
	case t.ahead:
		return t.group.match(text[at:]) < 0 && walkTerms(rest, text, at, then)
	case t.group != nil:
		return t.group.walk(text, at, func(end int) bool { return walkTerms(rest, text, end, then) })
	}
	n := 0
	for n < t.most && at+n < len(text) && t.is(text[at+n]) {
		n++
	}
	for ; n >= t.least; n-- {
		if walkTerms(rest, text, at+n, then) {
			return true
		}
		if t.possessive {
			return false
		}
	}
	return false
}
