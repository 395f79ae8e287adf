package verify

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An answer holds the forms of a text that comparisons need.
type answer struct {
	exact  string // the text in its canonical form
	folded string // the field exact in lower case; "" if case may distinguish variables
	choice string // A to J, if the answer begins with a choice
	lone   bool   // the text is only the choice
	tokens []token
	tree   *node // nil if the text cannot be parsed as mathematics
}

// read returns the answer in text, or nil if text is empty or too long.
func read(text string) *answer {
	tokens := bare(tokenize(withoutStars(text)))
	for nested := 0; nested < 4 && len(tokens) == 1 && tokens[0].kind == prose; nested++ {
		tokens = bare(tokenize(tokens[0].text))
	}
	if len(tokens) == 0 {
		return nil
	}
	written := canonical(tokens)
	a := &answer{exact: write(written, false), tokens: tokens}
	if a.exact == "" {
		return nil
	}
	isTitle := a.isWords() && titled(a.exact) || shortWords[strings.ToLower(a.exact)]
	if isTitle || variables(tokens) <= 1 && !hasSigns(tokens) {
		a.folded = write(written, true)
	}
	a.choice, a.lone = choiceOf(a.exact, tokens)
	if !isRun(tokens) {
		a.tree = parse(tokens)
	}
	return a
}

// bare removes outer braces and quotes, points, commas and semicolons at the end, and a sign = or ≈ at the beginning.
func bare(tokens []token) []token {
	for size := -1; size != len(tokens); {
		size = len(tokens)
		for len(tokens) > 0 && isStop(tokens[len(tokens)-1]) {
			tokens = tokens[:len(tokens)-1]
		}
		if len(tokens) > 1 && (tokens[0].is(symbol, "=") || tokens[0].is(command, "approx")) {
			tokens = tokens[1:]
		}
		for _, quote := range []string{`"`, "'"} {
			if n := len(tokens) - 1; n > 1 && tokens[0].is(symbol, quote) && tokens[n].is(symbol, quote) {
				tokens = tokens[1:n]
			}
		}
		tokens = unwrapped(tokens)
	}
	return tokens
}

// isStop reports whether a token has no meaning at the end of an answer: a point, a comma or a semicolon.
func isStop(t token) bool {
	return t.kind == symbol && (t.text == "." || t.text == "," || t.text == ";")
}

// stars matches bold text in Markdown, **text**, if ** cannot mean a power.
var stars = regexp.MustCompile(`(^\s*|[,;=(]\s*)\*\*\s*([^*\s](?:[^*]*[^*\s])?)\s*\*\*`)

// withoutStars removes the marks of bold text in Markdown around an answer or its items.
func withoutStars(text string) string {
	if !strings.Contains(text, "**") {
		return text
	}
	var b strings.Builder
	last := 0
	for _, m := range stars.FindAllStringSubmatchIndex(text, -1) {
		if rest := strings.TrimSpace(text[m[1]:]); rest == "" || strings.ContainsAny(rest[:1], ",;.)") {
			b.WriteString(text[last:m[3]] + text[m[4]:m[5]])
			last = m[1]
		}
	}
	return b.String() + text[last:]
}

// isRun reports whether the tokens are three or more letters without spaces, such as "yes": a word, not a product.
func isRun(tokens []token) bool {
	for i, t := range tokens {
		if t.kind != letter || i > 0 && t.space || !isASCIILetter(rune(t.text[0])) {
			return false
		}
	}
	return len(tokens) >= 3
}

// isWords reports whether an answer is plain text.
func (a *answer) isWords() bool {
	return !slices.ContainsFunc(a.tokens, func(t token) bool {
		return t.kind != letter && t.kind != word && t.kind != prose
	})
}

// titled reports whether the case of a text is that of words. Each word must be all capitals, or have no capital after
// its first letter. At least one word must have three letters, or letters beyond ASCII. "Yes", "NO WAY" and "Да" are
// words, but "nRT" and "Gm" are not.
func titled(text string) bool {
	long := false
	for w := range strings.FieldsSeq(text) {
		long = long || len(w) >= 3
		_, first := utf8.DecodeRuneInString(w)
		if w != strings.ToUpper(w) && w[first:] != strings.ToLower(w[first:]) {
			return false
		}
	}
	return long
}

// hasSigns reports whether tokens have a unit in which case matters, as in 5 \text{ MW}.
func hasSigns(tokens []token) bool {
	return len(tokens) > 1 && slices.ContainsFunc(tokens, func(t token) bool {
		return t.kind == prose && unitOf(t.text) != unitOf(strings.ToLower(t.text))
	})
}

// shortWords are words of two letters. Other pairs of letters are products.
var shortWords = set("no on up ok ja si")

// variables returns the number of different letters among the tokens. Upper and lower case of a
// letter count as two.
func variables(tokens []token) int {
	seen := map[string]bool{}
	for _, t := range tokens {
		if t.kind == letter {
			seen[t.text] = true
		}
	}
	return len(seen)
}

var (
	choiceWord = regexp.MustCompile(
		`^(?i:(?:the )?(?:correct )?(?:option|choice|answer)(?: is)?|选项|答案是?)[: ]*([(A-Ja-j].*)$`)
	loneChoice   = regexp.MustCompile(`^(?:([A-J])[.:)]?|\(([A-Ja-j])\)[.:]?)$`)
	beginsChoice = regexp.MustCompile(`^(?:\(([A-Ja-j])\)[.:]?|([A-J])[.):])([^+*/^=<>!_,].*)$`)
	otherChoice  = regexp.MustCompile(`\b[A-J]\b|\([a-j]\)`)
	listed       = regexp.MustCompile(`^ (?:and|or)\b`)
	capitalWord  = regexp.MustCompile(`^[AI] ?[a-z]`)
)

// choiceOf returns the choice at the start of an answer, such as (B), (b), B. or Option B. It returns "" if there is
// none, or if the text names another choice. lone reports whether the text is only the choice.
func choiceOf(text string, tokens []token) (choice string, lone bool) {
	named := choiceWord.FindStringSubmatch(text)
	if named != nil {
		if text = named[1]; len(text) == 1 {
			text = strings.ToUpper(text)
		}
	}
	if m := loneChoice.FindStringSubmatch(text); m != nil {
		return strings.ToUpper(m[1] + m[2]), true
	}
	m := beginsChoice.FindStringSubmatch(text)
	if m == nil || namesChoice(m[3]) {
		return "", false
	}
	isProduct := named == nil && tokens[0].is(symbol, "(") && len(tokens) > 3 && !tokens[3].space
	if isProduct && tokens[3].kind != prose && m[1] != strings.ToUpper(m[1]) { // (b)x
		return "", false
	}
	return strings.ToUpper(m[1] + m[2]), false
}

// namesChoice reports whether text names a choice. A letter after a digit is a unit, and A and I may be words.
func namesChoice(text string) bool {
	for _, at := range otherChoice.FindAllStringIndex(text, -1) {
		before := strings.TrimRight(text[:at[0]], " ")
		isUnit := before != "" && isDigit(rune(before[len(before)-1]))
		isWord := capitalWord.MatchString(text[at[0]:]) && !listed.MatchString(text[at[1]:]) &&
			!strings.HasSuffix(before, "and") && !strings.HasSuffix(before, "or")
		if !isUnit && !isWord {
			return true
		}
	}
	return false
}

func equalAnswers(a, b *answer) bool {
	switch {
	case a.exact == b.exact, a.folded != "" && a.folded == b.folded:
		return true
	case shortWords[strings.ToLower(a.exact)] && b.isWords(), // no is not o·n
		shortWords[strings.ToLower(b.exact)] && a.isWords():
		return false
	case a.choice != "" && b.choice != "" && (a.lone || b.lone):
		return a.choice == b.choice
	}
	return a.tree != nil && b.tree != nil && equalTrees(a.tree, b.tree)
}

func equalTrees(a, b *node) bool {
	switch {
	case a.label != "" && a.label == b.label:
		return equalTrees(a.args[1], b.args[1])
	case a.label != "" && b.op != opRelation:
		return equalTrees(a.args[1], b)
	case b.label != "" && a.op != opRelation:
		return equalTrees(a, b.args[1])
	}
	if a.isValue() && b.isValue() {
		return agree(a.unit, b.unit) && equalValues(a, b)
	}
	if a.op != b.op {
		return false
	}
	switch a.op {
	case opRelation:
		return equalRelations(a, b)
	case opList, opUnion:
		return sameItems(a.args, b.args)
	case opTuple, opMatrix:
		return a.name == b.name && slices.EqualFunc(a.args, b.args, equalTrees)
	}
	return false
}

// agree reports whether two units are compatible. They are compatible if they are equal, if one is missing or unknown,
// or if one is a name that may mean the other.
func agree(a, b string) bool {
	return a == b || a == "" || b == "" || a == "?" || b == "?" || slices.Contains(sharedNames[a], b) ||
		slices.Contains(sharedNames[b], a)
}

// sameItems reports whether the items of two lists can be matched one to one, so that matched items are equal. Labels
// must be equal: "x = 2, y = 1" is not "1, 2". Only numbered labels, x_1 and x_2, may be missing in one list. If only
// the solution b has numbered labels, the values in a must be in the order of the numbers. If only a has numbered
// labels, any order is right.
func sameItems(a, b []*node) bool {
	if len(a) != len(b) {
		return false
	}
	switch x, y := numbered(a), numbered(b); {
	case x != nil && y == nil && !hasRelations(b):
		a = x
	case x == nil && y != nil && !hasRelations(a):
		return slices.EqualFunc(a, y, equalTrees)
	}
	owner := make([]*node, len(b)) // the match of each item of b; a match may change when a later item needs it
	var place func(x *node, tried []bool) bool
	place = func(x *node, tried []bool) bool {
		for i, y := range b {
			if tried[i] || (x.op == opRelation) != (y.op == opRelation) || !equalTrees(x, y) {
				continue
			}
			tried[i] = true
			if owner[i] == nil || place(owner[i], tried) {
				owner[i] = x
				return true
			}
		}
		return false
	}
	return !slices.ContainsFunc(a, func(x *node) bool { return !place(x, make([]bool, len(b))) })
}

var numberedName = regexp.MustCompile(`^(\\?[A-Za-z]+ ?)_\{([0-9]{1,3})\}$`)

// numbered returns the values in x_1 = …, x_2 = …, ordered by number. It returns nil for other
// items, or if a number is missing.
func numbered(items []*node) []*node {
	values, at := make([]*node, len(items)), make([]int, len(items))
	letter := ""
	for i, n := range items {
		m := numberedName.FindStringSubmatch(n.label)
		if m == nil || letter != "" && m[1] != letter {
			return nil
		}
		letter = m[1]
		at[i], _ = strconv.Atoi(m[2]) // the error is nil: m[2] has only digits
	}
	first := slices.Min(at)
	for i, n := range items {
		place := at[i] - first
		if first > 1 || place >= len(values) || values[place] != nil {
			return nil
		}
		values[place] = n.args[1]
	}
	return values
}

func hasRelations(items []*node) bool {
	return slices.ContainsFunc(items, func(n *node) bool { return n.op == opRelation })
}

// equalRelations reports whether two relations are equal, which means that the differences of their sides are equal.
// For = and ≠ the differences may have opposite signs.
func equalRelations(a, b *node) bool {
	x, left := upward(a)
	y, right := upward(b)
	if !slices.Equal(x, y) {
		return false
	}
	for i := range x {
		l, m, r, s := left[i], left[i+1], right[i], right[i+1]
		if !l.isValue() || !m.isValue() || !r.isValue() || !s.isValue() {
			if x[i] != "=" || !(equalTrees(l, r) && equalTrees(m, s) || equalTrees(l, s) && equalTrees(m, r)) {
				return false
			}
			continue
		}
		if !agree(l.unit, r.unit) || !agree(l.unit, s.unit) || !agree(m.unit, r.unit) || !agree(m.unit, s.unit) {
			return false
		}
		d, e := difference(l, m), difference(r, s)
		if equalAt(d, e) || (x[i] == "=" || x[i] == "ne") && equalAt(d, difference(s, r)) {
			continue
		}
		return false
	}
	return true
}

// upward returns the relations and sides of a chain, such as a < b ≤ c. It reverses a chain of > and ≥ to one of < and
// ≤.
func upward(n *node) (relations []string, sides []*node) {
	relations, sides = strings.Fields(n.name), n.args
	if slices.ContainsFunc(relations, func(r string) bool { return r != ">" && r != "ge" }) {
		return relations, sides
	}
	sides = slices.Clone(sides)
	slices.Reverse(sides)
	slices.Reverse(relations)
	for i, r := range relations {
		relations[i] = map[string]string{">": "<", "ge": "le"}[r]
	}
	return relations, sides
}
