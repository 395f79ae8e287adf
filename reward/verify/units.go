package verify

import (
	"math/big"
	"strings"
)

// measured parses the unit after a value, and words that scale the value, such as "million".
func (p *parser) measured(n *node) *node {
	var words []string
	for p.at < len(p.tokens) {
		t := p.peek()
		switch {
		case p.approximates(p.at):
			return p.unit(n, words)
		case t.kind == prose && !isSeparator(t.text), t.kind == word, t.is(symbol, "%"), t.is(command, "dollar"),
			len(words) > 0 && t.is(symbol, "/"):
			words = append(words, t.text)
			p.at++
		case len(words) > 0 && t.is(symbol, "^"):
			p.at++
			braces := p.take(symbol, "{")
			words = append(words, "^", p.peek().text)
			p.at++
			if braces {
				p.expect(symbol, "}")
			}
		default:
			return p.unit(n, words)
		}
	}
	return p.unit(n, words)
}

func (p *parser) unit(n *node, words []string) *node {
	if len(words) == 0 {
		return n
	}
	if !n.isValue() {
		return p.fail()
	}
	text := strings.Join(strings.Fields(strings.ToLower(strings.Join(words, " "))), " ")
	text = strings.NewReplacer(" ^ ", "^", " / ", "/").Replace(text)
	first, rest, _ := strings.Cut(text, " ")
	if scale, ok := scales[first]; ok {
		n = p.make(opMul, "", n, p.num(big.NewRat(scale, 1)))
		text = rest
	}
	// Only one or two plain words are a label. Other words may change the meaning: "more than one", "(mod 7)".
	unit := unitOf(text)
	switch {
	case text == "":
		return n
	case unit != "":
	case text == "unit", text == "units", text == "square units", text == "cubic units":
		return n
	case isLabel(text):
		unit = "?"
	default:
		return p.fail()
	}
	return p.withUnit(n, unit)
}

func isLabel(text string) bool {
	other := func(r rune) bool { return r != ' ' && !isASCIILetter(r) }
	return len(strings.Fields(text)) <= 2 && !strings.ContainsFunc(text, other) && !isQualifier(text)
}

// isQualifier reports whether text changes the meaning of the number before it, as "mod 7" and "halves" do. Other text
// names what is counted, such as "apples".
func isQualifier(text string) bool {
	for w := range strings.FieldsSeq(text) {
		if _, ok := scales[w]; ok || qualifiers[w] || len(w) == 1 {
			return true
		}
	}
	return false
}

var qualifiers = set(`
	mod modulo remainder and or to from not no half halves third thirds quarter quarters tenth
	tenths hundredth hundredths plus minus times over squared cubed more less than at per if for
	when where except by with without factorial base radical root pi hundreds thousands millions
	billions th st nd rd am pm is approximately about twice double negative dozens
`)

// bareUnits are the units of two or three letters that are a word even without \text. More than three letters are
// always a word.
var bareUnits = set("cm mm km kg ft hr hrs mph lbs")

// knownUnits maps the names of units to canonical names. Other words are labels, as in "12 apples".
var knownUnits = map[string]string{
	"%": "%", "percent": "%", "dollar": "dollar", "cent": "cent", "degree": "degree", "radian": "radian",
	"mm": "mm", "millimeter": "mm", "millimetre": "mm", "cm": "cm", "centimeter": "cm", "centimetre": "cm",
	"m": "m", "meter": "m", "metre": "m", "km": "km", "kilometer": "km", "kilometre": "km",
	"in": "in", "inch": "in", "inche": "in", "ft": "ft", "foot": "ft", "feet": "ft", "yd": "yd", "yard": "yd",
	"mi": "mi", "mile": "mi", "mph": "mi/h",
	"mg": "mg", "milligram": "mg", "g": "g", "gram": "g", "kg": "kg", "kilogram": "kg",
	"lb": "lb", "lbs": "lb", "pound": "lb", "oz": "oz", "ounce": "oz",
	"ml": "ml", "milliliter": "ml", "l": "l", "liter": "l", "litre": "l",
	"s": "s", "sec": "s", "second": "s", "min": "min", "minute": "min", "h": "h", "hr": "h", "hrs": "h", "hour": "h",
	"day": "day", "week": "week", "month": "month", "year": "year",
	"hz": "hz", "hertz": "hz", "newton": "newton", "joule": "joule", "watt": "watt",
}

// scales maps words to the factors by which they multiply the number before them.
var scales = map[string]int64{
	"dozen": 12, "hundred": 100, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
}

// unitOf returns the canonical name of a unit such as "square centimeters", "km/h" or "miles per hour". It returns ""
// if a part of the unit is unknown.
func unitOf(text string) string {
	text = strings.ReplaceAll(strings.ToLower(text), " per ", "/")
	var parts []string
	for part := range strings.SplitSeq(text, "/") {
		power := ""
		var name string
		for w := range strings.FieldsSeq(strings.Trim(part, ". ()")) {
			switch w {
			case "square", "sq", "sq.":
				power = "^2"
			case "cubic":
				power = "^3"
			default:
				if name != "" {
					return ""
				}
				name = w
			}
		}
		name, exponent, raised := strings.Cut(name, "^")
		if raised {
			power = "^" + exponent
		}
		known, ok := knownUnits[name]
		if !ok {
			known, ok = knownUnits[strings.TrimSuffix(name, "s")]
		}
		if !ok {
			return ""
		}
		parts = append(parts, known+power)
	}
	return strings.Join(parts, "/")
}
