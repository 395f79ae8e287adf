package metrics

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	tableColumns = 3
	nameWidth    = 26
	valueWidth   = 10
	cellWidth    = nameWidth + valueWidth + 3
)

// Table writes all metrics of a step under title. Those whose names share what stands before the first / stand together, and groups
// stand side by side:
//
//	── step 12/100 ─────────────────────────────
//	env                     │time
//	  return         187.3  │  step      0.05121
//	  episode_len    187.3  │  eval         0.24
func Table(w io.Writer, title string, names []string, values []float64) error {
	var b strings.Builder
	rule := "── " + title + " "
	b.WriteString(rule + strings.Repeat("─", max(0, tableColumns*cellWidth-1-utf8.RuneCountInString(rule))) + "\n")
	for groups := grouped(names, values); len(groups) > 0; {
		shelf := groups[:min(tableColumns, len(groups))]
		groups = groups[len(shelf):]
		height := 0
		for _, g := range shelf {
			height = max(height, len(g))
		}
		for row := range height {
			var cells []string
			for _, g := range shelf {
				cell := ""
				if row < len(g) {
					cell = g[row]
				}
				cells = append(cells, cell+strings.Repeat(" ", cellWidth-1-utf8.RuneCountInString(cell)))
			}
			b.WriteString(strings.TrimRight(strings.Join(cells, "│"), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// grouped gives a column of lines for each group, in the order in which the groups appear.
func grouped(names []string, values []float64) [][]string {
	var groups [][]string
	column := map[string]int{}
	for i, name := range names {
		group, rest, ok := strings.Cut(name, "/")
		if !ok {
			group, rest = "", name
		}
		c, ok := column[group]
		if !ok {
			c = len(groups)
			column[group] = c
			groups = append(groups, []string{group})
		}
		if n := utf8.RuneCountInString(rest); n > nameWidth {
			rest = "…" + string([]rune(rest)[n-nameWidth+1:])
		}
		groups[c] = append(groups[c], fmt.Sprintf("  %-*s%*.4g", nameWidth, rest, valueWidth, values[i]))
	}
	return groups
}
