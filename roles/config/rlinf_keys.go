package config

import (
	_ "embed" // the table of keys
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
)

//go:embed rlinf_keys.txt
var rlinfKeys string

// knownKeys returns keys of RLinf that have no effect in rlinf, in the order of rlinf_keys.txt.
func knownKeys() []config.Known {
	table, _, _ := strings.Cut(rlinfKeys, "\n---\n")
	return keysIn(table)
}

// foreignModelKeys returns RLinf's keys of actor.model for models that are not supported. With supported models these
// keys are mistakes.
func foreignModelKeys() []config.Known {
	_, table, _ := strings.Cut(rlinfKeys, "\n---\n")
	return keysIn(table)
}

// keysIn reads a table in the form that rlinf_keys.txt explains.
func keysIn(table string) (all []config.Known) {
	var sections, lines []string
	end := func() { // of the lines below the names of sections
		for _, section := range sections {
			for _, line := range lines {
				all = append(all, keysOfLine(section, line)...)
			}
		}
		lines = nil
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(table, "\n\t", " "), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			end()
			if line = strings.Trim(line, "[]"); line == "" {
				sections = []string{""} // the root
			} else {
				sections = strings.Fields(line)
			}
		default:
			lines = append(lines, line)
		}
	}
	end()
	return all
}

// keysOfLine reads a line of keys in a section.
func keysOfLine(section, line string) (all []config.Known) {
	parts := strings.Split(line, " | ")
	var k config.Known
	for _, part := range parts[1:] {
		what, value, _ := strings.Cut(part, " ")
		switch what {
		case "here":
			k.Instead = value
		case "why":
			k.Reason = value
		case "idle":
			k.Idle = strings.Fields(value)
		case "switch":
			k.Switch = value
		case "want":
			k.Want = value
		default:
			panic(fmt.Sprintf("rlinf_keys.txt: %q: expected here, why, idle, switch or want", part))
		}
	}
	for key := range strings.FieldsSeq(parts[0]) {
		k.Key = strings.TrimPrefix(section+"."+key, ".")
		all = append(all, k)
	}
	return all
}

// Texts of messages about keys of RLinf.
const (
	simulatorNote = "the simulator's: set it in its program"
	architecture  = "it comes from config.json in the model's folder"
	undivided     = "only a language model of the tasks sft and reasoning is divided among ranks"
)
