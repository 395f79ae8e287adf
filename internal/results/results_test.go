package results_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/test"
)

// The factors of Student's distribution are those of tables, such as NIST/SEMATECH e-Handbook, 1.3.6.7.2: t(0.975,
// N-1).
func TestEstimate(t *testing.T) {
	for _, c := range []struct {
		n int
		t float64
	}{{2, 12.706}, {3, 4.303}, {4, 3.182}, {5, 2.776}, {6, 2.571}, {10, 2.262}, {31, 2.042}, {101, 1.984}} {
		values := make([]float64, c.n)
		values[0] = 1
		e := results.NewEstimate(values) // mean 1/n, squares (1-1/n)² + (n-1)/n² = (n-1)/n, so std = 1/√n
		if want := c.t / float64(c.n); math.Abs(e.Margin-want) > 1e-3*want {
			t.Errorf("%d values: margin %v, want %v", c.n, e.Margin, want)
		}
	}
	e := results.NewEstimate([]float64{1, 2, 6})
	if e.Mean != 3 || math.Abs(e.Std-math.Sqrt(7)) > 1e-12 || e.Least != 1 || e.N != 3 {
		t.Errorf("of 1, 2, 6: %+v, want mean 3, std √7, lowest 1", e)
	}
	if e := results.NewEstimate([]float64{5}); e.Mean != 5 || e.Std != 0 || !math.IsInf(e.Margin, 1) ||
		e.Interval() != "" || e.String() != "5" {
		t.Errorf("of one value: %+v %q %q", e, e, e.Interval())
	}
	if e := results.NewEstimate(nil); !math.IsNaN(e.Mean) || e.N != 0 {
		t.Errorf("of none: %+v", e)
	}
}

// Welch's example values: for 10, 12, 14 and 1, 2, 3, 4, 5 the variances of the means are 4/3 and 1/2, and ν = (11/6)²
// / ((4/3)²/2 + (1/2)²/4) = 3.53, so t(0.975, 3) = 3.182.
func TestDifference(t *testing.T) {
	a, b := results.NewEstimate([]float64{10, 12, 14}), results.NewEstimate([]float64{1, 2, 3, 4, 5})
	d, margin := a.Minus(b)
	if want := 3.182 * math.Sqrt(11.0/6); d != 9 || math.Abs(margin-want) > 1e-3 {
		t.Errorf("%v ± %v, want 9 ± %v", d, margin, want)
	}
	if d, margin := a.Minus(results.NewEstimate([]float64{2})); d != 10 || !math.IsInf(margin, 1) {
		t.Errorf("from a single value: %v ± %v", d, margin)
	}
	same := results.NewEstimate([]float64{500, 500})
	if d, margin := same.Minus(same); d != 0 || margin != 0 {
		t.Errorf("of equal values: %v ± %v", d, margin)
	}
}

// run writes the folder of a run that evaluates every 10 steps of 4 environment steps, with the given values.
func run(t *testing.T, dir string, seed int, values ...float64) {
	t.Helper()
	var b strings.Builder
	for i := range values {
		for k := 1; k < 10; k++ { // one line for three iterations
			if step := 10*i + k; step%3 == 0 {
				fmt.Fprintf(&b, `{"step":%d,"time":9,"time/step":0.5,"env/steps":%d}`+"\n", step, 4*step)
			}
		}
		fmt.Fprintf(&b, `{"step":%d,"time":9,"time/step":0.5,"env/steps":%d,"eval/return":%v,"eval/success_once":null}`+
			"\n", 10*(i+1), 40*(i+1), values[i])
	}
	b.WriteString(`{"step":1000,"time":9,"eval/ret`) // an incomplete line
	files := map[string]string{
		"metrics.jsonl": b.String(),
		"config.yaml":   fmt.Sprintf("actor: {seed: %d}\nenv: {train: {env_type: CartPole-v1}}\n", seed),
	}
	test.OK(t, os.MkdirAll(dir, 0o777))
	for name, text := range files {
		test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
}

func TestReadRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	run(t, dir, 7, 100, 300)
	r := test.Must(results.ReadRun(dir, "eval/return"))(t)
	want := results.Run{Name: dir, Task: "CartPole-v1", Seed: 7, Rows: []results.MetricsLine{
		{Step: 10, EnvSteps: 40, Seconds: 5, Values: map[string]float64{"eval/return": 100}},
		{Step: 20, EnvSteps: 80, Seconds: 10, Values: map[string]float64{"eval/return": 300}},
	}}
	if pace := r.Pace; pace.Rate() != 8 {
		t.Errorf("got the rate %v, want 8", pace.Rate())
	}
	if r.Pace = (metrics.Pace{}); !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	for _, c := range []struct {
		at, want float64
		ok       bool
	}{{40, 100, true}, {50, 150, true}, {80, 300, true}, {math.Inf(1), 300, true}, {39, 0, false}, {81, 0, false}} {
		if got, ok := r.At("eval/return", c.at); ok != c.ok || ok && got != c.want {
			t.Errorf("at %v: %v %v, want %v %v", c.at, got, ok, c.want, c.ok)
		}
	}
	if _, ok := r.At("eval/length", 40); ok {
		t.Error("a metric that is not there has a value")
	}
	if _, err := results.ReadRun(filepath.Dir(dir), "eval/"); err == nil ||
		!strings.Contains(err.Error(), "config.yaml") {
		t.Errorf("of a folder without a run: %v", err)
	}
	metrics := filepath.Join(dir, "metrics.jsonl")
	compact := test.Must(os.ReadFile(metrics))(t)
	for _, blanks := range [][2]string{{": ", ", "}, {" : ", " ,\t"}} {
		text := strings.ReplaceAll(strings.ReplaceAll(string(compact), ",", blanks[1]), ":", blanks[0])
		text = strings.ReplaceAll(text, "}", "\t}\r")
		test.OK(t, os.WriteFile(metrics, []byte(text), 0o666))
		r, err := results.ReadRun(dir, "eval/return")
		if err != nil || !reflect.DeepEqual(r.Rows, want.Rows) || r.Pace.Done != 80 {
			t.Errorf("with blanks in JSON: %+v, %v", r, err)
		}
		steps, seconds, err := results.StepTimes(dir)
		if err != nil || len(steps) != 8 || len(seconds) != 8 {
			t.Errorf("with blanks in JSON: times of %d steps, %v", len(steps), err)
		}
	}
	test.OK(t, os.WriteFile(metrics, []byte("no JSON\n"), 0o666))
	if _, err := results.ReadRun(dir, "eval/"); err == nil ||
		!strings.Contains(err.Error(), `line "no JSON" has no step`) {
		t.Errorf("of a damaged file: %v", err)
	}
}

// TestLoad reads a sweep of two points with seeds each, one of its points, one run, a folder with a run and a sweep,
// and the folder above.
func TestLoad(t *testing.T) {
	logs := t.TempDir()
	dir := filepath.Join(logs, "lr")
	test.OK(t, os.Mkdir(dir, 0o777))
	run(t, filepath.Join(logs, "both"), 7, 1)
	run(t, filepath.Join(logs, "both", "earlier-1"), 9, 1)
	run(t, filepath.Join(logs, "both", "seed_3"), 3, 1)
	run(t, filepath.Join(logs, "both", "lr=3", "seed_4"), 4, 1)
	run(t, filepath.Join(dir, "lr=1", "seed_10"), 10, 5, 10)
	run(t, filepath.Join(dir, "lr=1", "seed_2"), 2, 15, 30, 60)
	run(t, filepath.Join(dir, "lr=2", "seed_2"), 2, 1)
	for path, want := range map[string][]string{
		dir:                                     {"lr=1: 2 10", "lr=2: 2"},
		filepath.Join(dir, "lr=1"):              {"lr=1: 2 10"},
		filepath.Join(dir, "lr=1", "seed_10"):   {"seed_10: 10"},
		filepath.Join(dir, "lr=2") + "/../lr=1": {"lr=1: 2 10"},
		filepath.Join(logs, "both"):             {"both: 7", "both/seed_*: 3", "lr=3: 4"},
		logs: {"both: 7", "both/seed_*: 3", "both/lr=3: 4", "lr/lr=1: 2 10",
			"lr/lr=2: 2"},
	} {
		groups := test.Must(results.Load(path, "eval/"))(t)
		var got []string
		for _, g := range groups {
			line := g.Name + ":"
			for _, r := range g.Runs {
				line += fmt.Sprint(" ", r.Seed)
			}
			got = append(got, line)
		}
		test.EqualSlices(t, got, want, "%s", path)
	}
	groups := test.Must(results.Load(filepath.Join(dir, "lr=1"), "eval/"))(t)
	// At steps that both runs have reached: 5 and 15 at 40 steps, 10 and 30 at 80; with t(0.975, 1) = 12.706.
	c := groups[0].Curve("eval/return")
	if c.Name != "lr=1, 2 seeds" || !slices.Equal(c.X, []float64{40, 80}) || !slices.Equal(c.Y, []float64{10, 20}) ||
		math.Abs(c.High[1]-(20+12.706*10)) > 0.01 || math.Abs(c.Low[0]-(10-12.706*5)) > 0.01 {
		t.Errorf("curve %+v", c)
	}
	for _, path := range []string{filepath.Join(dir, "none"), t.TempDir()} {
		if groups, err := results.Load(path, "eval/"); err == nil {
			t.Errorf("%s: %v", path, groups)
		}
	}
}

// ReadKept reads what Keep wrote, to six digits.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(dir, "seed_1"), 1, 1.0/3, -120)
	run(t, filepath.Join(dir, "seed_3"), 3, 7)
	groups, err := results.Load(dir, "eval/return")
	test.OK(t, err)
	var b bytes.Buffer
	test.OK(t, results.Keep(&b, groups[0].Runs, "CartPole-v1"))
	const want = `# CartPole-v1
seed,step,env/steps,seconds,eval/return
1,10,40,5,0.333333
1,20,80,10,-120
3,10,40,5,7
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	path := filepath.Join(dir, "kept.csv")
	test.OK(t, os.WriteFile(path, b.Bytes(), 0o666))
	kept, err := results.Load(path, "eval/return")
	if err != nil || len(kept) != 1 || kept[0].Name != "kept" || len(kept[0].Runs) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if got := kept[0].At("eval/return", math.Inf(1)); !slices.Equal(got, []float64{-120, 7}) {
		t.Errorf("finals %v, want -120 and 7", got)
	}
	for i := range groups[0].Runs {
		groups[0].Runs[i].Forked = true
	}
	b.Reset()
	test.OK(t, results.Keep(&b, groups[0].Runs, "CartPole-v1, go1"))
	test.OK(t, os.WriteFile(path, b.Bytes(), 0o666))
	forks := test.Must(results.Load(path, "eval/return"))(t)[0].Runs
	test.Equal(t, forks[1].Forked && forks[1].Task == "CartPole-v1" && !kept[0].Runs[1].Forked, true)
	for text, want := range map[string]string{
		"":                   "expected a file of kept results: EOF",
		"a,b\n":              `kept.csv:1: columns a,b: expected seed,step,env/steps,seconds, then metrics`,
		want + "x,1,2,3,4\n": `kept.csv:6: seed: "x": expected a number`,
		want + "1,2\n":       "wrong number of fields",
	} {
		test.OK(t, os.WriteFile(path, []byte(text), 0o666))
		test.Fails(t, test.Err(results.ReadKept(path)), want, "%q", text)
	}
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	for i, v := range []float64{498, 500, 499} {
		run(t, filepath.Join(dir, "one", fmt.Sprintf("seed_%d", i)), i, v)
	}
	for i, v := range []float64{100, 200} {
		run(t, filepath.Join(dir, "two", fmt.Sprintf("seed_%d", i)), i, v, v+10)
	}
	groups := test.Must(results.Load(dir, "eval/return"))(t)
	table := results.ComparisonTable{Metric: "eval/return", At: math.Inf(1), Groups: groups}
	var b bytes.Buffer
	test.OK(t, table.WriteMarkdown(&b))
	// 160 ± 70.7 less 499 ± 1: ν = 1.0006, t(0.975, 1) = 12.706, √(1/3 + 2500) = 50.0033.
	const want = `|  | seeds | env steps | eval/return ± std | 95 % interval | lowest | difference from one | env steps/s |
|---|--:|--:|--:|--:|--:|--:|--:|
| one | 3 | 40 | 499.0 ± 1 | 496.5 … 501.5 | 498.0 |  | 8 |
| two | 2 | 80 | 160.0 ± 70.71 | -475.3 … 795.3 | 110.0 | -339.0 ± 635.4 | 8 |
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	table.At = 60 // the second run is between two rows there, and the first has not come so far
	es := table.Estimates()
	if es[0].N != 0 || es[1].Mean != 155 {
		t.Errorf("at 60 steps: %+v", es)
	}
}

// TestBest: the line of the best says if its lead over another group may be chance.
func TestBest(t *testing.T) {
	group := func(name string, values ...float64) results.SeedGroup {
		g := results.SeedGroup{Name: name}
		for _, x := range values {
			g.Runs = append(g.Runs, results.Run{Rows: []results.MetricsLine{{EnvSteps: 1,
				Values: map[string]float64{"eval/return": x}}}})
		}
		return g
	}
	a, b, c := group("a", 1, 2, 3), group("b", 1.1, 2.1, 3.1), group("c", 101, 102, 103)
	for _, tc := range []struct {
		groups []results.SeedGroup
		want   string
	}{
		{[]results.SeedGroup{a, b},
			"best: b, with the highest mean eval/return, 2.1; this may be chance: its difference " +
				"from a is 0.1 ± 2.267"},
		{[]results.SeedGroup{a, c}, "best: c, with the highest mean eval/return, 102.0"},
		{[]results.SeedGroup{group("few", 1), a, b}, "best: b, with the highest mean eval/return, 2.1; this may be " +
			"chance: its difference from a is 0.1 ± 2.267 (and 1 more)"},
		{[]results.SeedGroup{group("few", 1), a},
			"best: a, with the highest mean eval/return, 2; this may be chance: " +
				"its difference from few has no interval without a second seed of both"},
		{[]results.SeedGroup{a, group("none")}, "best: a, with the highest mean eval/return, 2"},
	} {
		table := results.ComparisonTable{Metric: "eval/return", At: math.Inf(1), Groups: tc.groups}
		if got := table.Best(); got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
	}
	var out bytes.Buffer
	table := results.ComparisonTable{Metric: "eval/return", At: math.Inf(1),
		Groups: []results.SeedGroup{group("few", 1), c, a, b}}
	test.OK(t, table.WriteJSON(&out))
	table.Groups = []results.SeedGroup{group("few", 1), a, b}
	test.OK(t, table.WriteJSON(&out))
	var got []string
	for in := json.NewDecoder(&out); in.More(); {
		var all struct {
			Groups []struct {
				Name   string
				Chance bool `json:"may_be_chance"`
			}
		}
		test.OK(t, in.Decode(&all))
		for _, g := range all.Groups {
			got = append(got, fmt.Sprint(g.Name, g.Chance))
		}
	}
	test.EqualSlices(t, got, []string{"fewtrue", "cfalse", "afalse", "bfalse", "fewtrue", "atrue", "bfalse"})
}

// TestReadRunOfTexts: the rows of a run that trains a language model are counted in iterations.
func TestReadRunOfTexts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml":   "runner: {task_type: sft}\nenv: {train: {env_type: CartPole-v1}}\n",
		"metrics.jsonl": `{"step":3,"time":1,"time/step":2,"eval/loss":0.5}` + "\n",
	} {
		test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	groups, err := results.Load(dir, "eval/loss")
	if err != nil || groups[0].Runs[0].Task != "sft" || groups[0].Runs[0].Last().EnvSteps != 3 {
		t.Fatalf("%v %+v", err, groups)
	}
	var b bytes.Buffer
	table := results.ComparisonTable{Metric: "eval/loss", At: math.Inf(1), Groups: groups}
	if err := table.WriteMarkdown(&b); err != nil ||
		!strings.HasPrefix(b.String(), "|  | seeds | iterations | eval/loss") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestDraw: pictures name the task and their axes, and clip intervals to possible values, also for kept files.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	kept := func(name, task, metric string, values ...float64) string {
		text := "# " + task + ", 2026-11-25\nseed,step,env/steps,seconds," + metric + "\n"
		steps := 4 // environment steps in an iteration
		if task == "sft" || task == "reasoning" {
			steps = 1
		}
		for i, v := range values {
			text += fmt.Sprintf("%d,10,%d,1,%v\n%d,20,%d,2,%v\n", i+1, 10*steps, v, i+1, 20*steps, v)
		}
		path := filepath.Join(dir, name+".csv")
		test.OK(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	bounds := func(task string) (least, most float64) {
		if task == "CartPole-v1" {
			return 0, 500
		}
		return math.Inf(-1), math.Inf(1)
	}
	for _, c := range []struct {
		name, task, metric string
		values             []float64
		title, axis        string
		least, most        float64 // limits of the ticks of the y axis
	}{
		{"accuracy", "reasoning", "eval/accuracy", []float64{0.5, 0.9, 1}, "reasoning: eval/accuracy", "iterations", 0,
			1},
		{"success", "Squares-v0", "eval/success_once/red", []float64{0, 0.4}, "Squares-v0: eval/success_once/red",
			"environment steps", 0, 1},
		{"return", "CartPole-v1", "eval/return", []float64{480, 500, 500}, "CartPole-v1: eval/return",
			"environment steps", 460, 500},
		{"free", "HalfCheetah-v4", "eval/return", []float64{480, 500, 500}, "HalfCheetah-v4: eval/return",
			"environment steps", 460, 530},
	} {
		groups := test.Must(results.Load(kept(c.name, c.task, c.metric, c.values...), c.metric))(t)
		svg := string(results.Draw(c.metric, groups, bounds))
		var ticks []float64
		for _, m := range regexp.MustCompile(`text-anchor="end">([^<]*)<`).FindAllStringSubmatch(svg, -1) {
			x := test.Must(strconv.ParseFloat(m[1], 64))(t)
			ticks = append(ticks, x)
		}
		if !strings.Contains(svg, ">"+c.title+"<") || !strings.Contains(svg, ">"+c.axis+"<") ||
			slices.Min(ticks) != c.least || slices.Max(ticks) != c.most {
			t.Errorf("%s: ticks %v\n%s", c.name, ticks, svg)
		}
	}
}

func TestBetter(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		metric string
		a, b   float64
		want   bool
	}{
		{"eval/return", 2, 1, true}, {"eval/return", 1, 2, false}, {"eval/return", 1, 1, false},
		{"eval/loss", 1, 2, true}, {"eval/loss", 2, 1, false},
		{"eval/loss", nan, 1, false}, {"eval/loss", 1, nan, true}, {"eval/loss", nan, nan, false},
	} {
		if got := results.Better(results.ModeOf(c.metric), c.a, c.b); got != c.want {
			t.Errorf("%s: is %v better than %v: %v", c.metric, c.a, c.b, got)
		}
	}
}

// TestIsRun: a run that has lost some of its files is still a run. A folder of other files is none.
func TestIsRun(t *testing.T) {
	for name, want := range map[string]bool{"config.yaml": true, "STATUS": true, "metrics.jsonl": true,
		"provenance.json": true, "curves.svg": false} {
		dir := t.TempDir()
		test.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
		if results.IsRun(dir) != want || results.IsRun(filepath.Join(dir, name)) || results.IsRun(dir+"/no") {
			t.Errorf("%s: %v, want %v", name, results.IsRun(dir), want)
		}
	}
}
