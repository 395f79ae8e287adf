package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runs "github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

// metrics are the lines of a metrics.jsonl, without metrics of the clock and of moves. Numbers are texts with all their
// digits.
type metrics []map[string]any

// readMetrics reads the metrics of the run whose folder is dir, and the counts of its rewards; none without a file. An
// incomplete last line does not count.
func readMetrics(t testing.TB, dir string) metrics {
	t.Helper()
	m := readLines(t, filepath.Join(dir, "metrics.jsonl"))
	rewards := readLines(t, filepath.Join(dir, "generation.jsonl"))
	for _, line := range m {
		if len(rewards) == 0 || rewards[0]["step"] != line["step"] {
			continue
		}
		maps.DeleteFunc(rewards[0], func(name string, _ any) bool { return strings.HasPrefix(name, "engine/") })
		maps.Copy(line, rewards[0])
		rewards = rewards[1:]
	}
	return m
}

// readLines reads a file in the format of metrics.jsonl.
func readLines(t testing.TB, path string) (m metrics) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		in := json.NewDecoder(bytes.NewReader(line))
		in.UseNumber()
		var entry map[string]any
		if err := in.Decode(&entry); err != nil {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		maps.DeleteFunc(entry, func(name string, _ any) bool {
			return !runs.Repeats(name)
		})
		m = append(m, entry)
	}
	return m
}

// only returns the metrics whose names begin with prefix.
func (m metrics) only(prefix string) metrics {
	var some metrics
	for _, line := range m {
		line = maps.Clone(line)
		maps.DeleteFunc(line, func(name string, _ any) bool { return !strings.HasPrefix(name, prefix) })
		some = append(some, line)
	}
	return some
}

// values returns the numbers of this metric, from the lines that have it.
func (m metrics) values(t testing.TB, name string) (all []float64) {
	t.Helper()
	for _, line := range m {
		if n, ok := line[name].(json.Number); ok {
			x, err := n.Float64()
			test.OK(t, err, "%s", name)
			all = append(all, x)
		}
	}
	return all
}

// same reports an error if the metrics are not want. about is as in test.Equal.
func (m metrics) same(t testing.TB, want metrics, about ...any) {
	t.Helper()
	if diff := m.diff(want); diff != "" {
		if len(about) > 0 {
			diff = fmt.Sprintf(about[0].(string), about[1:]...) + ":\n" + diff
		}
		t.Error(diff)
	}
}

// diff says where m first differs from want; "" if they are equal.
func (m metrics) diff(want metrics) string {
	for i := range min(len(m), len(want)) {
		if maps.Equal(m[i], want[i]) {
			continue
		}
		var text strings.Builder
		fmt.Fprintf(&text, "line %d, step %v:", i+1, want[i]["step"])
		all := maps.Clone(want[i])
		maps.Copy(all, m[i])
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if m[i][name] != want[i][name] {
				fmt.Fprintf(&text, "\n  %s: %v, expected %v", name, m[i][name], want[i][name])
			}
		}
		return text.String()
	}
	if len(m) != len(want) {
		return fmt.Sprintf("%d lines, expected %d", len(m), len(want))
	}
	return ""
}

// checkWhole checks that m is a useful reference: it has all n steps in order, with metrics of rollouts, training and
// an evaluation, whose values change.
func (m metrics) checkWhole(t testing.TB, n int) {
	t.Helper()
	if len(m) != n {
		t.Fatalf("%d lines of metrics, want %d", len(m), n)
	}
	for i, line := range m {
		if line["step"] != json.Number(fmt.Sprint(i+1)) {
			t.Fatalf("line %d is of step %v", i+1, line["step"])
		}
	}
	last := m[n-1]
	for _, name := range []string{"env/return", "eval/return", "train/actor/grad_norm"} {
		if last[name] == nil {
			t.Fatalf("no %s in the last line: %v", name, last)
		}
	}
	if last["train/actor/grad_norm"] == m[n-2]["train/actor/grad_norm"] {
		t.Fatalf("two steps have the same train/actor/grad_norm: %v", last)
	}
}

// snapshot returns the files below dir with their content.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			files[path], err = os.Readlink(path)
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	test.OK(t, err)
	return files
}
