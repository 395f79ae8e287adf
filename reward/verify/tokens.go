package verify

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxBytes is the maximum length of an answer in bytes.
const maxBytes = 2048

type kind uint8

const (
	number  kind = iota // digits, thousands commas and a point; in "0.1(6)" the digits in brackets repeat
	letter              // one variable
	word                // several letters that are no product
	command             // a LaTeX command without its backslash, or a name such as sin
	prose               // the content of \text and similar commands
	symbol              // anything else
)

// A token is a token of an answer. Different notations of the same symbol become the same token.
type token struct {
	kind  kind
	text  string
	space bool // whether white space precedes the token
}

func (t token) is(k kind, text string) bool { return t.kind == k && t.text == text }

type lexer struct {
	rest   string
	tokens []token
	space  bool
	depth  int // nesting of brackets, in which a comma separates items
}

// tokenize splits an answer into tokens. It returns nil if the answer is too long or not UTF-8.
func tokenize(s string) []token {
	if len(s) > maxBytes || !utf8.ValidString(s) {
		return nil
	}
	l := &lexer{rest: dotAbove.ReplaceAllString(strings.Map(plainForm, norm.NFC.String(s)), `\dot{$1}`)}
	for _, s := range spellings {
		l.rest = s.form.ReplaceAllString(l.rest, s.same)
	}
	for l.rest != "" {
		l.next()
	}
	return l.tokens
}

// spellings maps notations to other notations with the same meaning.
var spellings = []struct {
	form *regexp.Regexp
	same string
}{
	{regexp.MustCompile(`\{\\rm\b\s*([^{}\\]+)\}|\\rm\s+([A-Za-z]+(?:/[A-Za-z]+)?)`), `\mathrm{$1$2}`},
	{regexp.MustCompile(`\bUS ?\\?\$(\s*[0-9])`), `\dollar $1`},
	{regexp.MustCompile(`\bA(?:U|UD)? ?\\\$(\s*[0-9])`), `\aud $1`},
	{regexp.MustCompile(`\bRs\.? ?([0-9])`), `\rupee $1`},
	{regexp.MustCompile(`(\\\$ ?[0-9.,]+) ?M\b`), `$1 \text{million}`},
}

func (l *lexer) add(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.space})
	l.space = false
}

func (l *lexer) next() {
	r, size := utf8.DecodeRuneInString(l.rest)
	switch {
	case r == '\\':
		l.backslash()
		return
	case isDigit(r), r == '.' && len(l.rest) > 1 && isDigit(rune(l.rest[1])):
		l.number()
		return
	case l.foreign():
		return
	case isASCIILetter(r):
		l.letters()
		return
	}
	if text, ok := plainSymbols[r]; ok {
		l.rest = text + l.rest[size:]
		return
	}
	if strings.HasPrefix(l.rest, "{}_") || strings.HasPrefix(l.rest, "{}^") {
		l.rest = l.rest[2:]
		return
	}
	if l.raised("^", superscripts) || l.raised("_", subscripts) || r == '^' && l.primes() {
		return
	}
	for _, two := range [...][2]string{{":=", "="}, {"<=", `\le `}, {">=", `\ge `}, {"**", "^"}} {
		if strings.HasPrefix(l.rest, two[0]) {
			l.rest = two[1] + l.rest[2:]
			return
		}
	}
	if dots := len(l.rest) - len(strings.TrimLeft(l.rest, ".")); dots > 2 {
		l.rest = `\ldots ` + l.rest[dots:]
		return
	}
	l.rest = l.rest[size:]
	switch {
	case r == '~' || r == '$' || unicode.IsSpace(r):
		l.space = true
		return
	case strings.ContainsRune("([", r):
		l.depth++
	case strings.ContainsRune(")]", r):
		l.depth--
	case r == '*':
		l.add(command, "cdot")
		return
	case unicode.IsLetter(r):
		l.add(letter, string(r))
		return
	case currencySigns[r] != "":
		l.add(command, currencySigns[r])
		return
	}
	l.add(symbol, string(r))
}

// foreign reads a word with letters beyond ASCII, such as "años", "да" or "红色". It reports whether there was one. A
// single letter is a word only if it is a unit after other tokens: 5 米. Greek letters that have a command are
// variables.
func (l *lexer) foreign() bool {
	start, _ := utf8.DecodeRuneInString(l.rest)
	script := scriptOf(start)
	end, letters, isWord := 0, 0, false
	for at, r := range l.rest {
		sign := plainSymbols[r] != ""
		isLetter := unicode.IsLetter(r) && scriptOf(r) == script || at > 0 && unicode.IsMark(r)
		if !isLetter || sign && script != unicode.Greek {
			break
		}
		end = at + utf8.RuneLen(r)
		letters++
		isWord = isWord || r > unicode.MaxASCII && !sign && !mathLetter(r)
	}
	text := l.rest[:end]
	if !isWord || letters == 1 && (len(l.tokens) == 0 || foreignUnits[text] == "" && scales[text] == 0) {
		return false
	}
	l.rest = l.rest[end:]
	l.add(word, text)
	return true
}

// scriptOf returns the script of a letter if its words may stand beside other letters without a space, otherwise nil.
func scriptOf(r rune) *unicode.RangeTable {
	switch {
	case unicode.Is(unicode.Greek, r):
		return unicode.Greek
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), r == 'ー':
		return unicode.Han
	}
	return nil
}

// mathLetter reports whether a letter beyond ASCII is a sign of mathematics, as ℓ and Λ are.
func mathLetter(r rune) bool {
	return 0x2100 <= r && r < 0x2150 || strings.ContainsRune("ΘΛΞΠΣΥυ", r)
}

// currencies are the units that are currencies. Commands have the same names.
var currencies = set("dollar aud euro gbp ¥ yen yuan rupee ruble won cent")

// currencySigns maps the signs of currencies to names of units.
var currencySigns = map[rune]string{'€': "euro", '£': "gbp", '￥': "¥", '￡': "gbp", '¥': "¥",
	'₹': "rupee", '₽': "ruble", '₩': "won", '¢': "cent"}

// plainForm maps full-width characters, and letters and digits of the mathematical alphabets, to
// ASCII. It returns other characters unchanged.
func plainForm(r rune) rune {
	switch {
	case '！' <= r && r <= '～':
		return r - '！' + '!'
	case 0x1d400 <= r && r < 0x1d6a4: // 13 alphabets, from A to z
		letter := (r - 0x1d400) % 52
		if letter < 26 {
			return 'A' + letter
		}
		return 'a' + letter - 26
	case 0x1d7ce <= r && r <= 0x1d7ff:
		return '0' + (r-0x1d7ce)%10
	}
	return r
}

// plainSymbols maps Unicode characters to LaTeX or ASCII.
var plainSymbols = func() map[rune]string {
	symbols := map[rune]string{'℃': `\degree C`, '℉': `\degree F`, '∛': `\sqrt[3]`}
	for entry := range strings.FieldsSeq(plainTable) {
		text, signs, _ := strings.Cut(entry, "=")
		if text[0] == '\\' {
			text += " " // ends the command
		}
		for _, r := range signs {
			symbols[r] = text
		}
	}
	return symbols
}()

const plainTable = `
	-=−–‐‑‒﹣ /=÷⁄∕ ,=、 .=。 :=∶ |=∣ '=′’‘ ''=″ "=“”„‟«»「」『』 \cdot=×·⋅∙∗ \sqrt=√ \infty=∞ \pm=± \mp=∓
	\le=≤≦⩽ \ge=≥≧⩾ \ne=≠ \approx=≈≒≃ \equiv=≡ \degree=°º˚ \circ=∘ \text{or}=或 \text{and}=和
	\cup=∪ \cap=∩ \in=∈ \notin=∉ \subset=⊂ \subseteq=⊆ \setminus=∖ \emptyset=∅Ø⌀
	\mathbb{R}=ℝ \mathbb{Z}=ℤ \mathbb{N}=ℕ \mathbb{Q}=ℚ \mathbb{C}=ℂ
	\angle=∠ \triangle=△ \perp=⊥ \parallel=∥ \to=→ \implies=⇒ \langle=⟨ \rangle=⟩
	\sum=∑ \prod=∏ \int=∫ \partial=∂ \ldots=…⋯ \lfloor=⌊ \rfloor=⌋ \lceil=⌈ \rceil=⌉ \ell=ℓ
	\frac12=½ \frac13=⅓ \frac23=⅔ \frac14=¼ \frac34=¾ \frac15=⅕ \frac25=⅖ \frac35=⅗ \frac45=⅘
	\frac16=⅙ \frac56=⅚ \frac18=⅛ \frac38=⅜ \frac58=⅝ \frac78=⅞
	\alpha=α \beta=β \gamma=γ \delta=δ \epsilon=ε \zeta=ζ \eta=η \theta=θ \kappa=κ \lambda=λ \mu=μ \nu=ν \xi=ξ
	\pi=π \rho=ρ \sigma=σ \tau=τ \phi=φϕ \chi=χ \psi=ψ \omega=ω \Gamma=Γ \Delta=Δ \Phi=Φ \Psi=Ψ \Omega=Ω`

// superscripts and subscripts list raised and lowered characters, in the order of their normal forms in smallForms.
const (
	superscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
	subscripts   = "₀₁₂₃₄₅₆₇₈₉₊₋ₙ"
	smallForms   = "0123456789+-n"
)

// raised turns leading characters from chars into an exponent (sign "^") or an index (sign "_"). It reports whether
// there were such characters.
func (l *lexer) raised(sign, chars string) bool {
	forms := []rune(chars)
	end := strings.IndexFunc(l.rest, func(r rune) bool { return !slices.Contains(forms, r) })
	if end < 0 {
		end = len(l.rest)
	}
	if end == 0 {
		return false
	}
	text := strings.Map(func(r rune) rune { return rune(smallForms[slices.Index(forms, r)]) }, l.rest[:end])
	l.rest = sign + "{" + text + "}" + l.rest[end:]
	return true
}

var raisedPrimes = regexp.MustCompile(`^\^ *(?:\\prime\b|\{ *((?:\\prime *|')+)\})`)

// primes rewrites ^\prime and ^{\prime} as ', and reports whether there was one.
func (l *lexer) primes() bool {
	m := raisedPrimes.FindStringSubmatch(l.rest)
	if m == nil {
		return false
	}
	n := strings.Count(m[1], "p") + strings.Count(m[1], "'")
	l.rest = strings.Repeat("'", max(n, 1)) + l.rest[len(m[0]):]
	return true
}

func (l *lexer) backslash() {
	s := l.rest[1:]
	if n := asciiLetters(s); n > 0 {
		l.rest = s[n:]
		l.command(s[:n])
		return
	}
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		l.rest = ""
		l.add(symbol, `\`)
		return
	}
	l.rest = s[size:]
	switch r {
	case '!', '(', ')', '[', ']': // ignored: \! is no space, and the others delimit a formula
	case ',', ';', ':', ' ', '>':
		l.space = true
	case '{':
		l.depth++
		l.add(symbol, `\{`)
	case '}':
		l.depth--
		l.add(symbol, `\}`)
	case '\\':
		l.rest = rowSpace.ReplaceAllLiteralString(l.rest, "")
		l.add(symbol, `\\`)
	case '$':
		l.add(command, "dollar")
	default:
		l.add(symbol, string(r))
	}
}

// rowSpace matches the distance after the end of a row, as in \\[4pt].
var rowSpace = regexp.MustCompile(`^\*?\s*\[\s*-?[0-9.]+\s*(?:pt|em|ex|mm|cm|in|pc|bp|px|mu)\s*\]`)

func (l *lexer) command(name string) {
	if short, ok := sameCommands[name]; ok {
		name = short
	}
	if text, ok := commandSymbols[name]; ok {
		l.add(symbol, text)
		return
	}
	switch name {
	case "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr":
		l.rest = strings.TrimPrefix(strings.TrimLeft(l.rest, " "), ".")
	case "displaystyle", "textstyle", "limits", "nolimits", "quad", "qquad",
		"bf", "rm", "large", "Large", "LARGE", "huge", "Huge":
		l.space = true
	case "underline", "uline", "pmb", "fbox": // drops the command but not its argument
	case "color", "textcolor", "colorbox":
		l.rest = colorModel.ReplaceAllLiteralString(l.rest, "")
		l.group()
	case "hspace", "vspace", "phantom":
		l.group()
		l.space = true
	case "text", "mathrm", "mathbf", "operatorname":
		l.prose()
	case "mathbb", "mathcal", "begin", "end":
		if arg, ok := l.group(); ok {
			name += " " + arg
		} else if n := len(l.rest) - len(strings.TrimLeft(l.rest, " ")); name == "mathbb" && n < len(l.rest) {
			if letter := l.rest[n : n+1]; isASCIILetter(rune(letter[0])) {
				name, l.rest = name+" "+letter, l.rest[n+1:]
			}
		}
		l.add(command, name)
	case "langle":
		l.depth++
		l.add(command, name)
	case "rangle":
		l.depth--
		l.add(command, name)
	case "R":
		l.add(command, "mathbb R")
	case "Omega":
		l.ohm()
	case "angle":
		l.add(command, name)
		if arg, ok := l.group(); ok {
			l.rest = " " + arg + " " + l.rest
		}
	default:
		if currencies[name] { // \texteuro{}5
			l.rest = strings.TrimPrefix(l.rest, "{}")
		}
		l.add(command, name)
	}
}

// commandSymbols maps commands to symbols with the same meaning.
var commandSymbols = map[string]string{
	"div": "/", "vert": "|", "cr": `\\`, "lbrace": `\{`, "rbrace": `\}`, "lt": "<", "gt": ">",
}

var colorModel = regexp.MustCompile(`^ *\[[A-Za-z]*\]`)

// sameCommands maps commands to commands with the same meaning.
var sameCommands = meanings(`
	frac=dfrac,tfrac,cfrac binom=dbinom,tbinom le=leq,leqslant ge=geq,geqslant ne=neq cdot=times,ast
	vert=lvert,rvert,mid infty=infin degree=textdegree mathbf=boldsymbol,bm quad=thinspace,enspace
	text=textbf,textit,textrm,textsf,texttt,mbox,hbox,mathit,mathsf,emph angle=measuredangle
	emptyset=varnothing,empty,O mathbb=Bbb approx=simeq,thickapprox to=rightarrow ldots=dots,cdots,dotsc
	euro=texteuro,EUR gbp=pounds,textsterling ¥=yen,textyen`)

// meanings reads a table of entries such as "frac=dfrac,tfrac", and returns the meaning of each name.
func meanings(table string) map[string]string {
	all := map[string]string{}
	for entry := range strings.FieldsSeq(table) {
		meaning, names, _ := strings.Cut(entry, "=")
		for name := range strings.SplitSeq(names, ",") {
			all[name] = meaning
		}
	}
	return all
}

// group reads {…} and returns its content.
func (l *lexer) group() (string, bool) {
	s := strings.TrimLeft(l.rest, " ")
	if !strings.HasPrefix(s, "{") {
		return "", false
	}
	n := closing(s)
	if n < 0 {
		return "", false
	}
	l.rest = s[n+1:]
	return strings.TrimSpace(s[1:n]), true
}

// prose reads the argument of \text. A formula or a single letter is read as if it stood outside
// \text, unless it is a unit after other tokens: 5 \text{ m}.
func (l *lexer) prose() {
	text, ok := l.group()
	if !ok {
		l.space = true
		return
	}
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "~", " ")), " ")
	if m := proseFormula.FindStringSubmatch(text); m != nil {
		sign := `\approx`
		if m[1] == "mod" {
			sign = `\pmod`
		}
		l.rest = sign + "{" + m[2] + "} " + l.rest
		return
	}
	if text == "" {
		l.space = true
		return
	}
	unit := unitExponent.ReplaceAllString(unitSigns.Replace(text), "^$1")
	switch {
	case names[text]:
		l.add(command, text)
	case (utf8.RuneCountInString(unit) == 1 || unit != text) && l.measures() && unitOf(unit) != "":
		if n := len(l.tokens) - 1; l.tokens[n].is(command, "mu") { // \mu\text{m}
			l.tokens, unit = l.tokens[:n], "µ"+unit
		}
		l.add(prose, unit)
	case strings.Contains(text, `\`), len(text) == 1, !strings.ContainsFunc(text, unicode.IsLetter):
		l.rest = " " + text + " " + l.rest
	default:
		l.add(prose, text)
	}
}

// measures reports whether a unit may follow the last token: 5 \text{ N} has a unit, and x_{\text{N}} has none.
func (l *lexer) measures() bool {
	if len(l.tokens) == 0 || strings.HasPrefix(l.rest, "_") || strings.HasPrefix(l.rest, "(") {
		return false
	}
	switch t := l.tokens[len(l.tokens)-1]; t.kind {
	case number:
		return true
	case prose:
		return unitOf(t.text) != ""
	case letter:
		return l.space
	case symbol:
		return strings.Contains(")]}|!'/", t.text)
	case command:
		return t.text == "degree" || t.text == "circ" || t.text == "cdot" || t.text == "pi" || isVariable(t)
	}
	return false
}

// unitSigns maps the LaTeX of a unit to plain text.
var unitSigns = strings.NewReplacer(`\Omega`, "Ω", `\mu `, "µ", `\mu`, "µ", `^\circ`, "°", `^{\circ}`, "°",
	`\degree `, "°", `\degree`, "°", `\cdot`, "·", `\,`, " ", `\;`, " ", `\ `, " ", "⋅", "·", "²", "^2", "³", "^3")

// unitExponent matches an exponent in braces.
var unitExponent = regexp.MustCompile(`\^ *\{ *(-?[0-9]+) *\}`)

// ohm reads Ω. It is the unit of a number at the end of an item, as in 10\,\Omega and 5 k\Omega, and a variable
// elsewhere.
func (l *lexer) ohm() {
	n := len(l.tokens)
	prefix := ""
	if n > 1 && l.tokens[n-1].kind == letter && strings.Contains("kMGm", l.tokens[n-1].text) {
		n--
		prefix = l.tokens[n].text
	}
	item := l.tokens[:n]
	isBorder := func(t token) bool {
		return t.kind == symbol && strings.Contains(",;=", t.text) || t.is(command, "or") || t.is(command, "and")
	}
	for i := slices.IndexFunc(item, isBorder); i >= 0; i = slices.IndexFunc(item, isBorder) {
		item = item[i+1:]
	}
	sum := len(item) > 0 && slices.ContainsFunc(item[1:], func(t token) bool {
		return t.is(symbol, "+") || t.is(symbol, "-")
	})
	if n == 0 || sum || l.tokens[n-1].kind != number || !itemEnd.MatchString(l.rest) {
		l.add(command, "Omega")
		return
	}
	l.tokens = l.tokens[:n]
	l.add(prose, prefix+"Ω")
}

// itemEnd matches the text after an item of an answer.
var itemEnd = regexp.MustCompile(`^\s*(?:$|[,;.)\]}=<>$~]|\\[\])},;: ]|\\(?:text|approx|quad|le|ge)|or\b|and\b)`)

// proseFormula matches text that stands for a formula: "(mod 7)", "(about 1.41)".
var proseFormula = regexp.MustCompile(`^(?:\(|or )?(mod|about|approximately|approx\.?) ([0-9.,]*[0-9])\)?$`)

// letters reads a sequence of letters: a name, a word, a unit, or a product of variables.
func (l *lexer) letters() {
	n := asciiLetters(l.rest)
	run := l.rest[:n]
	l.rest = l.rest[n:]
	switch {
	case names[run]:
		l.add(command, run)
	case run == "infinity" || run == "inf":
		l.add(command, "infty")
	case n > 3 || bareUnits[run]:
		l.add(word, run)
	default:
		for _, r := range run {
			l.add(letter, string(r))
		}
	}
}

// names are the commands that may lack their backslash.
var names = set(`
	sin cos tan cot sec csc arcsin arccos arctan ln log lg exp sqrt pi infty or and
`)

// set returns the set of the words in a text.
func set(words string) map[string]bool {
	s := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}

// number reads digits, thousands commas, a point, and repeating decimals.
func (l *lexer) number() {
	s := l.rest
	n := digits(s)
	whole := s[:n]
	s = s[n:]
	if n > 0 && n <= 3 && whole[0] != '0' {
		whole, s = thousands(whole, s, l.depth == 0)
	}
	text := whole
	if strings.HasPrefix(s, ".") {
		n := digits(s[1:])
		cycle, after := cycle(s[1+n:])
		if m := bracketedCycle.FindStringSubmatch(s[1:]); m != nil { // 0.(3), but 2.5(3) is a product
			cycle, after = m[1], s[1+len(m[0]):]
		}
		if n > 0 || cycle != "" {
			text += s[:1+n]
			s = s[1+n:]
		}
		if cycle != "" {
			text += "(" + cycle + ")"
			s = after
		}
	}
	l.rest = s
	l.add(number, text)
	if rest, ok := ordinal(text, s); ok {
		l.rest = rest
		l.add(prose, ordinalUnit)
	}
}

// ordinalSuffix matches the ending of an ordinal number without closing braces: 4th, 4^{th}, 4^\text{th}, 4\text{th}.
var ordinalSuffix = regexp.MustCompile(
	`^((?: *[\^{]| *\\(?:text|textrm|mathrm|rm|textsuperscript)\b)*) *(st|nd|rd|th)(?:[^A-Za-z]|$)`)

// ordinal skips the ending of an ordinal number at the start of s, and returns the rest of s. The argument number has
// the digits before s. ok is false if s does not begin with the ending for these digits.
func ordinal(number, s string) (rest string, ok bool) {
	m := ordinalSuffix.FindStringSubmatchIndex(s)
	if m == nil || s[m[4]:m[5]] != ordinalEnding(number) {
		return "", false
	}
	rest = s[m[5]:]
	for range strings.Count(s[:m[3]], "{") {
		if rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " "), "}"); !ok {
			return "", false
		}
	}
	return rest, !strings.HasPrefix(rest, "_") && !strings.HasPrefix(rest, "^")
}

const ordinalUnit = "th"

// ordinalEnding returns the English ending of the ordinal number with these digits, or "" for other numbers.
func ordinalEnding(digits string) string {
	if strings.Trim(digits, "0123456789,") != "" {
		return ""
	}
	last := digits[len(digits)-1]
	if len(digits) > 1 && digits[len(digits)-2] == '1' || last == '0' || last > '3' {
		return "th"
	}
	return [...]string{"st", "nd", "rd"}[last-'1']
}

// thousands appends groups of three digits from s to integer, and returns the result and the rest
// of s. If a group has another length, it appends nothing. If plain is true (outside brackets), a
// comma without braces also separates groups. The comma stays in the text, because "100,200" can
// also be a list.
func thousands(integer, s string, plain bool) (string, string) {
	first, rest := integer, s
	for {
		i := slices.IndexFunc(thousandsMarks, func(m string) bool {
			return strings.HasPrefix(s, m) && (m != "," || plain)
		})
		if i < 0 {
			return integer, s
		}
		mark := thousandsMarks[i]
		switch digits(s[len(mark):]) {
		case 3:
			if mark == "," {
				integer += ","
			}
			integer += s[len(mark) : len(mark)+3]
			s = s[len(mark)+3:]
			isComma := strings.Trim(mark, `{}\!`) == "," && mark != `\,` && mark != `{\,}`
			if !isComma && strings.HasPrefix(strings.TrimLeft(s, " "), "/") {
				return first, rest // 1 123/456 is a mixed number
			}
		case 0:
			return integer, s
		default:
			return first, rest
		}
	}
}

// thousandsMarks are the possible separators between groups of three digits.
var thousandsMarks = []string{"{,}", `{,\!}`, `,\!`, `\,`, `{\,}`, `\ `, `{\ }`, `\;`, `\:`, "~", "\u2009", "\u202f",
	"\u00a0", ","}

// cycles matches repeating digits: \overline{36}, \bar{3}, \dot{3}, or with dots above the first and the last digit,
// \dot{1}4285\dot{7}.
var cycles = regexp.MustCompile(
	`^\\(?:(?:overline|bar) *\{([0-9]+)\}|` +
		`(?:bar|dot) *(?:\{([0-9])\}|([0-9]))(?:([0-9]*)\\dot *(?:\{([0-9])\}|([0-9])))?)`)

var bracketedCycle = regexp.MustCompile(`^\(([0-9]+)\)`)

// cycle reads repeating digits after a decimal point.
func cycle(s string) (digits, rest string) {
	m := cycles.FindStringSubmatch(s)
	if m == nil {
		return "", s
	}
	return strings.Join(m[1:], ""), s[len(m[0]):]
}

// dotAbove matches a digit with a combining dot, as in 0.3̇.
var dotAbove = regexp.MustCompile(`([0-9])\x{307}`)

// digits returns the number of digits at the start of s.
func digits(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isDigit)) }

// asciiLetters returns the number of ASCII letters at the start of s.
func asciiLetters(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isASCIILetter)) }

func isDigit(r rune) bool       { return '0' <= r && r <= '9' }
func isASCIILetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// write returns the text of tokens, with spaces only between letters and between digits. If fold is
// true, it converts everything except commands to lower case.
func write(tokens []token, fold bool) string {
	var b strings.Builder
	last := ' '
	for _, t := range tokens {
		text := t.text
		if t.kind == command {
			text = `\` + text
		} else if fold {
			text = strings.ToLower(text)
		}
		first, _ := utf8.DecodeRuneInString(text)
		letters := unicode.IsLetter(last) && unicode.IsLetter(first)
		digits := unicode.IsDigit(last) && unicode.IsDigit(first)
		if t.space && (letters || digits) {
			b.WriteByte(' ')
		}
		b.WriteString(text)
		last, _ = utf8.DecodeLastRuneInString(text)
		if t.kind == command && isASCIILetter(last) {
			b.WriteByte(' ')
			last = ' '
		}
	}
	return strings.TrimSpace(b.String())
}
