package mujoco

import (
	"strings"
)

// InstructionLen is the number of tokens of an instruction.
const InstructionLen = 12

// colors are those of objects and zones, each of another in a scene.
var colors = [...]string{"red", "green", "blue", "yellow", "orange", "purple", "white", "black"}

// vocabulary returns the words of instructions: a token is the number of one, 0 is none.
func vocabulary() []string {
	return append([]string{"", "reach", "push", "pick", "put", "up", "the", "to", "on", "cube", "ball", "zone"}, colors[:]...)
}

// Sentence returns the text of an instruction's tokens, such as "put the red cube on the green zone".
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

// instruction writes the tokens of what is to be done.
func (s *scene) instruction(obs []float64) {
	clear(obs)
	words, said := s.words, obs[:0]
	color := func(thing int) float64 { return words[colors[int(s.memo[memoColor+thing])]] }
	for _, word := range s.task.sentence {
		switch {
		case word == "OBJECT" && s.meant() < tableCubes:
			said = append(said, color(s.meant()), words["cube"])
		case word == "OBJECT":
			said = append(said, color(s.meant()), words["ball"])
		case word == "ZONE":
			said = append(said, color(tableObjects+s.meantZone()), words["zone"])
		default:
			said = append(said, words[word])
		}
	}
}

// tokens returns the number of every word.
func tokens() map[string]float64 {
	numbers := map[string]float64{}
	for i, word := range vocabulary() {
		numbers[word] = float64(i)
	}
	return numbers
}
