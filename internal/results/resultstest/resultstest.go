// Package resultstest answers: did two runs compute the same? It is for tests.
package resultstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Untimed returns the lines of metrics.jsonl in a run's folder, without metrics of times and of moves. Two runs with
// equal computations have equal lines.
func Untimed(t testing.TB, run string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		row := map[string]any{}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		for name := range row {
			if strings.HasPrefix(name, "time") || strings.HasPrefix(name, "schedule/") ||
				strings.HasSuffix(name, "_per_second") {
				delete(row, name)
			}
		}
		kept, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(kept))
	}
	return lines
}
