package metrics_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

var (
	at    = time.UnixMilli(1_700_000_000_125)
	names = []string{"env/return", "train/actor/policy_loss", "eval/return"}
)

func TestLogLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	log := openLog(t, path)
	for _, w := range []struct {
		names  []string
		values []float64
		want   string
	}{
		{names, []float64{475, -0.1, 1e-9},
			`{"step":7,"time":1700000000.125,"env/return":475,"train/actor/policy_loss":-0.1,"eval/return":1e-09}`},
		{names, []float64{math.NaN(), math.Inf(1), math.Inf(-1)},
			`{"step":7,"time":1700000000.125,"env/return":null,"train/actor/policy_loss":null,"eval/return":null}`},
		{nil, nil, `{"step":7,"time":1700000000.125}`},
		{[]string{`a "quoted\name`, "温度"}, []float64{1, 2},
			`{"step":7,"time":1700000000.125,"a \"quoted\\name":1,"温度":2}`},
	} {
		test.OK(t, log.Write(7, at, w.names, w.values))
		lines := strings.Split(read(t, path), "\n")
		if got := lines[len(lines)-2]; got != w.want {
			t.Errorf("got  %s\nwant %s", got, w.want)
		}
	}
	for lines := bufio.NewScanner(strings.NewReader(read(t, path))); lines.Scan(); {
		if !json.Valid(lines.Bytes()) {
			t.Errorf("not JSON: %s", lines.Text())
		}
	}
}

// A reader gets back every float64 exactly.
func TestLogKeepsEveryBit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	log := openLog(t, path)
	want := []float64{math.Pi, 1.0 / 3, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1),
		float64(float32(0.1))}
	keys := []string{"a", "b", "c", "d", "e", "f"}
	test.OK(t, log.Write(0, at, keys, want))
	var got map[string]float64
	test.OK(t, json.Unmarshal([]byte(read(t, path)), &got))
	for i, k := range keys {
		if math.Float64bits(got[k]) != math.Float64bits(want[i]) {
			t.Errorf("%s: got %v, want %v", k, got[k], want[i])
		}
	}
}

func TestOpenLogCutsATornLine(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct{ name, content, kept string }{
		{"torn", "{\"step\":1}\n{\"step\":2}\n{\"ste", "{\"step\":1}\n{\"step\":2}\n"},
		{"whole", "{\"step\":1}\n", "{\"step\":1}\n"},
		{"only torn", "{\"st", ""},
		{"long torn line", "{\"step\":1}\n" + long, "{\"step\":1}\n"},
		{"long whole line", long + "\n", long + "\n"},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "metrics.jsonl")
			test.OK(t, os.WriteFile(path, []byte(c.content), 0o666))
			test.OK(t, openLog(t, path).Write(3, at, nil, nil))
			if got, want := read(t, path), c.kept+"{\"step\":3,\"time\":1700000000.125}\n"; got != want {
				t.Errorf("got %.100q, want %.100q", got, want)
			}
		})
	}
}

func TestCutBack(t *testing.T) {
	const content = `{"step":1,"eval/return":9}
{"step":1,"env/return":1}
{"step":2}
no json
{"time":3}
{"step":3}
{"step":4}
{"step":5`
	for _, c := range []struct {
		step int64
		kept []string
		lost []metrics.Gap
	}{
		{9, []string{`{"step":1,"eval/return":9}`, `{"step":1,"env/return":1}`, `{"step":2}`, `{"step":3}`,
			`{"step":4}`}, []metrics.Gap{{5, 9}}},
		{2, []string{`{"step":1,"eval/return":9}`, `{"step":1,"env/return":1}`, `{"step":2}`}, nil},
		{0, nil, nil},
	} {
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		test.OK(t, os.WriteFile(path, []byte(content), 0o666))
		lost := test.Must(metrics.CutBack(path, c.step))(t)
		if got := strings.FieldsFunc(read(t, path), func(r rune) bool {
			return r == '\n'
		}); !slices.Equal(got, c.kept) || !slices.Equal(lost, c.lost) {
			t.Errorf("back to %d: lost %v, %q left, want %v and %q", c.step, lost, got, c.lost, c.kept)
		}
	}
	if lost, err := metrics.CutBack(filepath.Join(t.TempDir(), "none"), 3); !slices.Equal(lost,
		[]metrics.Gap{{1, 3}}) || err != nil {
		t.Errorf("no file: lost %v, %v", lost, err)
	}
	holed := filepath.Join(t.TempDir(), "holed") // the file after the file system lost a block
	test.OK(t, os.WriteFile(holed, []byte("{\"step\":5}\n{\"ste\x00\x00\x00\x00\n{\"step\":20}\n{\"step\":25}\n"),
		0o666))
	if lost, err := metrics.CutBack(holed, 26); fmt.Sprint(lost) != "[steps 6 to 19 step 26]" || err != nil {
		t.Errorf("a hole: lost %v, %v", lost, err)
	}
}

func TestWritesDoNotAllocate(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, filepath.Join(dir, "metrics.jsonl"))
	events := test.Must(metrics.CreateEvents(dir, "host", at, 0))(t)
	defer events.Close()
	values := []float64{math.Pi, 1e-30, 4}
	test.NoAllocs(t, 100, func() {
		test.OK(t, log.Write(7, at, names, values))
		test.OK(t, events.Write(7, at, names, values))
	})
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	test.Fails(t, test.Err(metrics.OpenLogger(dir)), dir, "a folder as log")
	path := filepath.Join(dir, "file")
	openLog(t, path)
	test.Fails(t, test.Err(metrics.CreateEvents(path, "host", at, 0)), path, "a file as folder")
}

func openLog(t *testing.T, path string) *metrics.Logger {
	t.Helper()
	log := test.Must(metrics.OpenLogger(path))(t)
	t.Cleanup(func() {
		test.Check(t, log.Close())
	})
	return log
}

func read(t *testing.T, path string) string {
	t.Helper()
	b := test.Must(os.ReadFile(path))(t)
	return string(b)
}
