package mujoco

import "strings"

// Names of the observations with the instruction, as tokens and as text.
const (
	instructionView = "instruction"
	textView        = "text"
)

// InstructionLen is the length of an instruction in tokens. TextLen is the length of its text in bytes.
const (
	InstructionLen = 12
	TextLen        = 128
)

// A color is a colour of objects and zones. All objects and zones of a scene have different colours.
type color struct {
	name string
	rgb  [3]float32
}

var colors = [...]color{
	{"red", [3]float32{0.85, 0.1, 0.1}}, {"green", [3]float32{0.1, 0.7, 0.2}}, {"blue", [3]float32{0.1, 0.25, 0.85}},
	{"yellow", [3]float32{0.95, 0.85, 0.1}}, {"orange", [3]float32{0.95, 0.5, 0.05}},
	{"purple", [3]float32{0.55, 0.15, 0.7}},
	{"white", [3]float32{0.95, 0.95, 0.95}}, {"black", [3]float32{0.05, 0.05, 0.05}},
}

// vocabulary returns the words of instructions. A token is an index into the vocabulary; 0 means no word.
func vocabulary() []string {
	words := []string{"", "reach", "push", "pick", "put", "up", "the", "to", "on", "cube", "ball", "zone"}
	for _, c := range colors {
		words = append(words, c.name)
	}
	return words
}

// Sentence returns the text of an instruction's tokens, such as "put the red cube on the green
// zone".
func Sentence(tokens []int32) string {
	words := vocabulary()
	var said []string
	for _, t := range tokens {
		if t > 0 && int(t) < len(words) {
			said = append(said, words[t])
		}
	}
	return strings.Join(said, " ")
}

// A wording has the words that replace the placeholders OBJECT, OTHER and ZONE in a phrase.
type wording struct {
	object, other, zone string // names of colours
	kind                string // kind of the object: cube or ball
}

// spell calls emit with each word of the phrase.
func (w wording) spell(phrase []string, emit func(word string)) {
	for _, word := range phrase {
		switch word {
		case "OBJECT":
			emit(w.object)
			emit(w.kind)
		case "OTHER":
			emit(w.other)
			emit("cube")
		case "ZONE":
			emit(w.zone)
			emit("zone")
		default:
			emit(word)
		}
	}
}

func (s *scene) wording() wording {
	w := wording{object: s.color(s.meant()), kind: "cube", zone: s.color(tableObjects + s.meantZone())}
	if s.meant() >= tableCubes {
		w.kind = "ball"
	}
	return w
}

// instruction writes the tokens of the instruction.
func (s *scene) instruction(obs []float64) {
	clear(obs)
	said := obs[:0]
	s.wording().spell(s.task.sentence, func(word string) { said = append(said, s.words[word]) })
}

// text writes the instruction as bytes.
func (s *scene) text(obs []float64) { s.wording().write(s.task.sentence, obs) }

// write writes the phrase as bytes, with spaces between the words.
func (w wording) write(phrase []string, obs []float64) {
	clear(obs)
	text := obs[:0]
	w.spell(phrase, func(word string) {
		if len(text) > 0 {
			text = append(text, ' ')
		}
		for i := range len(word) {
			text = append(text, float64(word[i]))
		}
	})
}

// color returns the name of the colour of an object or a zone.
func (s *scene) color(thing int) string { return colors[int(s.memo[memoColor+thing])].name }

// tokens returns the token of every word.
func tokens() map[string]float64 {
	numbers := map[string]float64{}
	for i, word := range vocabulary() {
		numbers[word] = float64(i)
	}
	return numbers
}
