package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/test"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew; review the difference")

// example is a small report with a row in place and one out of place, two algorithms, a wrong element and a fit.
func example() *Report {
	row := func(op, algo, mem string, size int64, wrong int64, samples ...float64) Measurement {
		r := Measurement{Op: op, Algorithm: algo, Ranks: 4, Size: size, Count: size / 4, DType: "f32", RedOp: "sum",
			Memory: mem, Samples: samples, Batch: 1,
			Skew: 0.75, CPU: 4.5, Checked: 3, Wrong: wrong}
		r.Summarize()
		r.SetFigure("algbw_gbs", float64(size)/r.Median/1e3)
		r.SetFigure("busbw_gbs", 1.5*float64(size)/r.Median/1e3)
		r.SetFigure("nan", math.NaN())
		return r
	}
	r := &Report{
		Schema: Schema, Bench: "collectives", Complete: true,
		Started: time.Date(2026, 11, 21, 1, 20, 0, 0, time.UTC), Ended: time.Date(2026, 11, 21, 1, 21, 0, 0, time.UTC),
		Machine: Platform{
			Version: "v1.2.3", Revision: "0123456789abcdef+dirty", Tags: "mpi", Go: "go1.26", Platform: "linux/amd64",
			Args:      []string{"rlinf", "bench", "-b", "8"},
			Variables: map[string]string{"UCX_HANDLE_ERRORS": "none", "OMPI_COMM_WORLD_SIZE": "4"},
			Transport: "mpi", Library: "Open MPI v4.1.4,  package\nmore", Launcher: "mpirun", Threads: "multiple",
			Wait: "spin, yield, sleep", Shared: "4 GiB",
			Ranks: 4, Nodes: 1, ClockStep: 20, Roof: 11.2, RoofSize: 64 << 20,
			Hosts: []Host{{Name: "n1", CPU: "A CPU", Kernel: "Linux 6.1", Cache: 32 << 20, Ranks: []int{0, 1, 2, 3},
				CPUs: 2, Affinity: []string{"0", "1", "0", "1"}, MaxProcs: 2}},
		},
		Method:  "a barrier, then the call",
		Keys:    []string{"op", "algo", "n", "size", "count", "type", "redop", "mem"},
		Figures: []string{"algbw_gbs", "busbw_gbs", "ratio"},
		Brief:   []string{"op", "algo", "n", "size", "busbw_gbs"},
		Rows: []Measurement{
			row("allreduce", "ring", "arena", 8, 0, 3, 1, 2, 5, 4, 1e6, 2.5),
			row("allreduce", "tree", "arena+out", 1024, 0, 11, 12, 13.55, 10, 14, 13),
			row("allreduce", "tree", "arena", 1024, 2, 0.0001234, 123456, 99, 100, 101, 102),
		},
		Fits: []Fit{{SizeSeries: SizeSeries{"allreduce", "ring", "f32", "arena"}, Rounds: "2(n-1)",
			Bytes: "2(n-1)/n", Alpha: 1.25, Beta: 0.0001, Residual: 0.125, Points: 2,
			Predictions: []PredictedTime{{8, 8, 17.5}, {8, 1024, 18}, {16, 8, 37.5}, {16, 1024, 38}}}},
		Notes: []string{"a note"},
	}
	r.Rows[0].SetFigure("model_x", 1.04)
	return r
}

// write writes r row by row, as a run does.
func write(t *testing.T, format string, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(format, &b)
	whole := *r
	for i := range r.Rows {
		whole.Rows = r.Rows[:i]
		if err == nil {
			err = w.Update(&whole)
		}
	}
	if err == nil {
		err = w.End(r)
	}
	test.OK(t, err, "%s", format)
	return b.String()
}

// TestForms compares every form with its file in testdata.
func TestForms(t *testing.T) {
	golden := func(name, got string) {
		t.Helper()
		path := filepath.Join("testdata", name)
		if *rewrite {
			test.OK(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want := test.Must(os.ReadFile(path))(t)
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	for _, format := range Formats() {
		golden("example."+format, write(t, format, example()))
	}
	p2p := example()
	p2p.Bench, p2p.Keys, p2p.Figures, p2p.Complete, p2p.Fits = "p2p", []string{"op", "n", "size"},
		[]string{"bw_gbs", "msgs_s"}, false, nil
	for i, op := range []string{"latency", "bandwidth", "message_rate"} {
		p2p.Rows[i].Op, p2p.Rows[i].Algorithm, p2p.Rows[i].DType = op, "", ""
		p2p.Rows[i].Figures = map[string]float64{"bw_gbs": 1.5, "msgs_s": 2e6}
	}
	golden("p2p.table", write(t, "table", p2p))
	svg := test.Must(example().Plot())(t)
	golden("example.svg", string(svg))
}

func TestPlotIsXML(t *testing.T) {
	r := example()
	for i := range 12 { // more series than colours
		row := r.Rows[0]
		row.Algorithm = strings.Repeat("<&>", i)
		r.Rows = append(r.Rows, row)
	}
	svg := test.Must(r.Plot())(t)
	d := xml.NewDecoder(bytes.NewReader(svg))
	texts := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		test.OK(t, err, "not XML")
		if e, ok := token.(xml.StartElement); ok {
			if e.Name.Local == "text" {
				texts++
			}
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	if texts < 15+2 {
		t.Errorf("%d texts: a legend for 14 series is missing", texts)
	}
	if _, err := (&Report{}).Plot(); err == nil {
		t.Error("a plot of nothing was drawn")
	}
}

// TestJSONReadsBack: Read returns all that was written.
func TestJSONReadsBack(t *testing.T) {
	r := example()
	path := filepath.Join(t.TempDir(), "r.json")
	test.OK(t, os.WriteFile(path, []byte(write(t, "json", r)), 0o644))
	got := test.Must(Read(path))(t)
	if !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v\nwant %+v", got, r)
	}
	for _, c := range []struct{ text, want string }{
		{`{"schema":2,"bench":"p2p"}`, "schema 2: expected 1"},
		{`{"schema":1}`, "no report of a benchmark"},
		{`size,med`, "expected the output of rlinf bench -o json"},
	} {
		os.WriteFile(path, []byte(c.text), 0o644)
		test.Fails(t, test.Err(Read(path)), c.want, "%s", c.text)
	}
}

// TestSchema: every field has a name of its own in JSON, and the docs explain it.
func TestSchema(t *testing.T) {
	docs := test.Must(os.ReadFile("../../../docs/bench.md"))(t)
	for _, v := range []any{Report{}, Measurement{}, Fit{}, PredictedTime{}, Platform{}, Host{}} {
		typ := reflect.TypeOf(v)
		for _, field := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.Anonymous && (name == "" || !strings.Contains(string(docs), "`"+name+"`")) {
				t.Errorf("docs/bench.md says nothing of %q, %s.%s", name, typ.Name(), field.Name)
			}
		}
	}
}

func TestFormatsRefuse(t *testing.T) {
	for format, want := range map[string]string{"xml": "expected one of table, csv, json", "wide": "expected csv",
		"md": "expected csv", "osu": "expected json", "nccl": "expected json"} {
		if _, err := NewWriter(format, io.Discard); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", format, err, want)
		}
	}
}

// TestNarrow: the table fits into a terminal. No readable form lists environment variables.
func TestNarrow(t *testing.T) {
	r := example()
	for line := range strings.Lines(write(t, "table", r)) {
		if n := utf8.RuneCountInString(line); n > 81 && !strings.HasPrefix(line, "# ***") &&
			!strings.HasPrefix(line, "# fit") && !strings.HasPrefix(line, "# rlinf") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, format := range Formats() {
		if text := write(t, format, r); strings.Contains(text, "UCX_HANDLE") != (format == "json") {
			t.Errorf("%s: variables:\n%s", format, text)
		}
	}
}

// TestWarnings: there is a warning if ranks share CPUs although they could be bound to different ones.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		transport string
		cpus      int
		affinity  []string
		want      string
	}{
		{"mpi", 4, []string{"0-3", "0-3"}, "UNBOUND: each of 2 ranks of n1 may run on any of CPUs 0-3"},
		{"mpi", 2, []string{"0", "1"}, ""},
		{"mpi", 1, []string{"0", "0"}, "OVERSUBSCRIBED 2.0x"},
		{"mpi", 4, []string{"", ""}, ""},
		{"mpi", 4, []string{"0-3"}, ""},
		{"local", 4, []string{"0-3", "0-3"}, ""},
	} {
		m := Platform{Transport: c.transport,
			Hosts: []Host{{Name: "n1", CPUs: c.cpus, Affinity: c.affinity, Ranks: []int{0, 1}[:len(c.affinity)]}}}
		got := strings.Join(m.Warnings(), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// A machine makes reports of a simulated program, whose times are known.
type machine struct{ *rand.Rand }

func newMachine() machine { return machine{rand.New(rand.NewPCG(5, 6))} }

// start returns the report of one start. scale gives the time for a size.
func (m machine) start(scale func(size int64) float64) *Report {
	rep := &Report{Schema: Schema, Bench: "collectives", Complete: true}
	for _, size := range []int64{8, 64, 512, 4096} {
		row := Measurement{Op: "allreduce", Algorithm: "ring", Ranks: 2, Size: size, Checked: 1, CPU: 7}
		shift := math.Exp(0.02 * m.NormFloat64()) // the same for all samples of this start
		for range 100 {
			row.Samples = append(row.Samples, shift*scale(size)*math.Exp(0.01*m.NormFloat64()))
		}
		row.Summarize()
		row.SetFigure("busbw_gbs", 1/row.Median)
		rep.Rows = append(rep.Rows, row)
	}
	return rep
}

// starts returns the report of n starts.
func (m machine) starts(n int, scale func(size int64) float64) *Report {
	var all []*Report
	for range n {
		all = append(all, m.start(scale))
	}
	return Merge(all)
}

func ten(int64) float64 { return 10 }

// drift gives the times of a changed program: 8 bytes are slower, 512 are faster, and the time of 4096 differs from
// start to start.
func (m machine) drift(size int64) float64 {
	if size == 4096 {
		return 10 * math.Exp(0.5*m.NormFloat64())
	}
	return map[int64]float64{8: 13, 64: 10, 512: 7}[size]
}

func verdicts(c Comparison) (v []Trend) {
	for _, ch := range c.Changes {
		v = append(v, ch.Verdict)
	}
	return v
}

func TestMerge(t *testing.T) {
	old := newMachine().starts(5, ten)
	if row := old.Rows[0]; old.Starts() != 5 || len(row.Samples) != 500 || len(row.Starts) != 5 || row.Checked != 5 ||
		row.CPU != 7 || math.Abs(row.Figures["busbw_gbs"]-0.1) > 0.01 || row.CILow != slices.Min(row.Starts) ||
		row.Median != stats.Median(row.Starts) || len(old.Notes) != 1 {
		t.Errorf("%d starts, %+v", old.Starts(), row)
	}
}

// TestCompare: Compare finds a row that is slower over several starts, and no row that only looks slower.
func TestCompare(t *testing.T) {
	m := newMachine()
	old, same, changed := m.starts(5, ten), m.starts(5, ten), m.starts(5, m.drift)
	changed.Rows = append(changed.Rows, Measurement{Op: "barrier", Ranks: 2, Starts: []float64{1, 2, 3, 4, 5}})
	c := Compare(old, changed, 0.05)
	if got := verdicts(c); !slices.Equal(got[:3], []Trend{Slower, Within, Faster}) || got[3] != Noise &&
		got[3] != Within {
		t.Errorf("got %v: %+v", got, c.Changes)
	}
	if ch := c.Changes[0]; !(ch.Low < 1.3 && 1.3 < ch.High && ch.Low > 1.2 && ch.High < 1.4) {
		t.Errorf("the interval of 1.3: %+v", ch)
	}
	if c.Regressions() != 1 || !slices.Equal(c.OnlyNew, []string{"barrier n=2 0B"}) || len(c.OnlyOld) != 0 {
		t.Errorf("%d regressions, only new %q, only old %q", c.Regressions(), c.OnlyNew, c.OnlyOld)
	}
	if c := Compare(old, same, 0.05); c.Regressions() != 0 {
		t.Errorf("noise taken for a regression: %+v", c.Changes)
	}
	if c := Compare(old, changed, 0.5); c.Regressions() != 0 {
		t.Errorf("30 %% is over a threshold of 50 %%: %+v", c.Changes)
	}
	changed.Machine.Library = "another"
	c = Compare(old, changed, 0.05)
	text := c.String()
	for _, want := range []string{`MPI library: was "", is "another"`, "REGRESSION", "only in this report",
		"1 slower, 1 faster", "5 starts before, 5 starts now"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %q in it", text, want)
		}
	}
}

// With one start each the samples differ, but the next start may differ as much.
func TestCompareOneStart(t *testing.T) {
	m := newMachine()
	old, one := m.starts(5, ten), m.start(m.drift)
	for _, c := range []Comparison{Compare(m.start(ten), one, 0.05), Compare(old, m.start(m.drift), 0.05)} {
		text := c.String()
		if v := verdicts(c); c.Regressions() != 0 || v[0] != Unclear || v[1] != Within ||
			!strings.Contains(text, "--starts 5") {
			t.Errorf("%v\n%s", v, text)
		}
	}
}

func TestCompareFewSamples(t *testing.T) {
	few := func(x ...float64) *Report {
		row := Measurement{Op: "barrier", Ranks: 2, Samples: x}
		row.Summarize()
		return &Report{Schema: Schema, Bench: "collectives", Rows: []Measurement{row}}
	}
	if c := Compare(few(10, 11, 12), few(20, 21, 22), 0.05); c.Changes[0].Verdict != Noise {
		t.Errorf("three samples prove nothing: %+v", c.Changes)
	}
}

// TestShape: figures that JSON cannot hold are left out.
func TestShape(t *testing.T) {
	var r Measurement
	r.Summarize()
	r.SetFigure("x", math.Inf(1))
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	for n, want := range map[int64]string{0: "0B", 1000: "1000B", 1024: "1KiB", 3 << 20: "3MiB",
		1<<30 + 1: "1073741825B"} {
		test.Equal(t, Bytes(n), want, "%d", n)
	}
}
