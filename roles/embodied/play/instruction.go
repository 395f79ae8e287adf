package play

import (
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// instructions returns the lines of the instruction that each of the first n environments observes. columns is the
// maximum length of a line. An environment that observes no instruction has no lines.
func instructions(spec env.Spec, now *env.Step, n, columns int) [][]string {
	all := make([][]string, n)
	for _, f := range spec.Obs {
		if f.Words == nil && !f.Text {
			continue
		}
		obs, _ := now.Obs.Get(f.Name)
		for i := range all {
			all[i] = append(all[i], wrapped(said(f, obs.At(i)), columns)...)
		}
	}
	return all
}

// said returns the text that an observation of field f has. The newest of stacked observations comes last.
func said(f env.Field, obs tensor.Tensor) string {
	from := f.Dim() - f.Shape[len(f.Shape)-1]
	if f.Text {
		return strings.TrimRight(string(obs.U8()[from:]), "\x00")
	}
	return sentence(obs.I32()[from:], f.Words)
}

// sentence returns the text of tokens, which are indices of words.
func sentence(tokens []int32, words []string) string {
	var said []string
	for _, t := range tokens {
		if t > 0 && int(t) < len(words) {
			said = append(said, words[t])
		}
	}
	return strings.Join(said, " ")
}

// wrapped breaks text into lines. columns is the maximum length of a line, but a longer word has its own line.
func wrapped(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
