package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// evaluated writes the folder of a run with one evaluation.
func evaluated(t *testing.T, dir string, seed int, value float64) {
	t.Helper()
	for name, text := range map[string]string{
		"metrics.jsonl": fmt.Sprintf(`{"step":1,"time":1,"time/step":2,"env/steps":100,"eval/return":%v,"eval/`+
			`episode_len":9}`+"\n", value),
		"config.yaml": fmt.Sprintf("actor: {seed: %d}\nenv: {train: {env_type: CartPole-v1}}\n", seed),
		"provenance.json": `[{"started":"2026-01-02T03:04:05Z","args":["/home/me/rlinf"],"build":{"go":"go1.26",` +
			`"platform":"linux/amd64"}}]`,
	} {
		test.OK(t, os.MkdirAll(dir, 0o777))
		writeFile(t, filepath.Join(dir, name), text)
	}
}

// sweepAndRun evaluates a sweep with the points a, of two seeds, and b, and another run. It returns their folder and
// the paths in it.
func sweepAndRun(t *testing.T) (dir string, at func(parts ...string) string) {
	t.Helper()
	dir = t.TempDir()
	at = func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	evaluated(t, at("sweep", "a", "seed_1"), 1, 10)
	evaluated(t, at("sweep", "a", "seed_2"), 2, 20)
	evaluated(t, at("sweep", "b", "seed_1"), 1, 40)
	evaluated(t, at("other", "a"), 7, 30)
	return dir, at
}

// TestCompare compares the points of a sweep with a run.
func TestCompare(t *testing.T) {
	dir, at := sweepAndRun(t)
	code, out, errs := run(t, "compare", "--format", "md", "--out", at("c.svg"), "--fail-below", "15.5", at("sweep"),
		at("other", "a"))
	want := fmt.Sprintf(
		`|  | seeds | env steps | eval/return ± std | 95 %% interval | lowest | difference from %[1]s/sweep/a | env steps/s |
|---|--:|--:|--:|--:|--:|--:|--:|
| %[1]s/sweep/a | 2 | 100 | 15 ± 7.071 | -48.53 … 78.53 | 10 |  | 50 |
| b | 1 | 100 | 40 |  | 40 | 25 | 50 |
| %[1]s/other/a | 1 | 100 | 30 |  | 30 | 15 | 50 |
# %[1]s/sweep/a: eval/return 15 ± 7.071: expected at least 15.5
`, dir)
	if code != loop.ExitCheck || out != want || errs != "" {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
	if svg, err := os.ReadFile(at("c.svg")); err != nil || !strings.Contains(string(svg), "sweep/a, 2 seeds") {
		t.Errorf("c.svg: %v\n%s", err, svg)
	}
}

// TestCompareKept compares a kept file with the runs that it was made from.
func TestCompareKept(t *testing.T) {
	_, at := sweepAndRun(t)
	if code, out, errs := run(t, "compare", "--keep", at("kept.csv"), at("sweep", "b"),
		at("other", "a")); code != loop.ExitOK {
		t.Fatalf("keep: code %d\n%s%s", code, out, errs)
	}
	kept, err := os.ReadFile(at("kept.csv"))
	wantKept := "# CartPole-v1, 2026-01-02, go1.26, " +
		"linux/amd64\nseed,step,env/steps,seconds,eval/episode_len,eval/return\n" +
		"1,1,100,2,9,40\n7,1,100,2,9,30\n"
	if err != nil || string(kept) != wantKept {
		t.Errorf("kept: %v\n%s\nwant\n%s", err, kept, wantKept)
	}
	code, out, errs := run(t, "compare", "--fail-below", "35", "--metric", "eval/return", at("kept.csv"))
	if code != loop.ExitOK || !strings.Contains(out, "kept  2      100        35 ± 7.071") {
		t.Errorf("of what was kept: code %d\n%s%s", code, out, errs)
	}
}

// TestCompareRefuses: arguments that cannot be compared, and flags that do not fit them, are errors.
func TestCompareRefuses(t *testing.T) {
	_, at := sweepAndRun(t)
	if code, _, errs := run(t, "compare", "--out", at("c.svg"), at("sweep")); code != loop.ExitOK {
		t.Fatal(errs)
	}
	for _, c := range []struct{ args, want string }{
		{"", "compare: expected the folders of runs or of sweeps, or files of kept results"},
		{at("none"), "none: no such file or folder"},
		{t.TempDir(), "expected the folder of a run or of a sweep, or a file of kept results"},
		{at("other", "a") + " --metric eval/success", "no eval/success: expected a metric that it has (--metric). It " +
			"has eval/episode_len, eval/return, env/steps, time/step"},
		{at("other", "a") + " --metric eval/retrun",
			"no eval/retrun: expected a metric that it has (--metric), did you mean eval/return? It has eval/"},
		{at("c.svg") + " " + t.TempDir(), "no run in any of "},
		{at("c.svg"), "expected the folder of a run or of a sweep, or a file of kept results"},
		{at("other", "a") + " --out c.png", "--out c.png: expected a file with the ending .svg"},
		{at("other", "a") + " --keep c.txt", "--keep c.txt: expected a file with the ending .csv"},
		{at("other", "a") + " --at 0", "--at 0: expected a number from 1 to 1e+18"},
		{at("other", "a") + " " + at("sweep") + " --at 5",
			"--at 5: no run has eval/return there: expected a number of environment steps from 100 to 100"},
		{at("other", "a") + " --at 101",
			"--at 101: no run has eval/return there: expected a number of environment steps from 100 to 100"},
		{at("other", "a") + " --format html", "--format html: expected table or md"},
		{at("sweep") + " --keep " + at("k.csv"), "2 groups of runs: expected the folder of one"},
		{at("sweep", "a") + " " + at("sweep", "b") + " --keep " + at("k.csv"), "seed 1: expected each seed once"},
	} {
		code, out, errs := run(t, append([]string{"compare"}, strings.Fields(c.args)...)...)
		if code != loop.ExitConfig || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d\n%s%s\nwant %s", c.args, code, out, errs, c.want)
		}
	}
}

// TestCompareNotes: compare omits paths without a run, and warns of doubtful comparisons, on standard error.
func TestCompareNotes(t *testing.T) {
	dir := t.TempDir()
	a, b, table, strange := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "table.md"),
		filepath.Join(dir, "strange.csv")
	evaluated(t, a, 1, 10)
	evaluated(t, b, 1, 20)
	for file, text := range map[string]string{
		filepath.Join(b, "config.yaml"): "actor: {seed: 1}\nenv: {train: {env_type: Pendulum-v1}}\n",
		filepath.Join(a, "STATUS"):      "running\n", filepath.Join(b, "STATUS"): "done\n", table: "| |\n",
		strange: "x,y\n1,2\n",
	} {
		writeFile(t, file, text)
	}
	code, out, errs := run(t, "compare", a, table, strange, b)
	want := fmt.Sprintf("ignored: %s: expected the folder of a run or of a sweep, or a file of kept results\n"+
		"ignored: %s:1: columns x,y: expected seed,step,env/steps,seconds, then metrics: expected the folder of a "+
		"run or of a sweep, or a file of kept results\n"+
		"note: %s: dead after step 1\nwarning: different tasks, whose figures cannot be compared: CartPole-v1, "+
		"Pendulum-v1\n", table, strange, a)
	best := "\nbest: b, with the highest mean eval/return, 20; this may be chance: its difference from a has " +
		"no interval without a second seed of both\n"
	if code != loop.ExitOK || errs != want || strings.Count(out, "\n") != 4 || !strings.HasSuffix(out, best) {
		t.Errorf("code %d\n%sgot\n%swant\n%s", code, out, errs, want)
	}
	_, out, _ = run(t, "compare", "--mode", "min", a, b)
	if best := "\nbest: a, with the lowest mean eval/return, 10; this "; !strings.Contains(out, best) {
		t.Errorf("--mode min: %s", out)
	}
	_, out, _ = run(t, "compare", "--mode", "min", "--json", a, b)
	if !strings.Contains(out, `"mode":"min","best":"a"`) {
		t.Errorf("--mode min --json: %s", out)
	}
	if code, _, errs := run(t, "compare", "--mode", "least", a, b); code != loop.ExitConfig ||
		!strings.Contains(errs, "--mode least: expected min or max") {
		t.Errorf("--mode least: code %d, %s", code, errs)
	}
	if code, _, errs := run(t, "compare", b); code != loop.ExitOK || errs != "" {
		t.Errorf("a run that is done: code %d, %s", code, errs)
	}
}

// TestCompareHeadline: without --metric, compare takes the first headline metric that a run has. It names the runs
// without that metric, and omits them.
func TestCompareHeadline(t *testing.T) {
	dir := t.TempDir()
	full, young, text := filepath.Join(dir, "full"), filepath.Join(dir, "young"), filepath.Join(dir, "text")
	evaluated(t, full, 1, 10)
	for run, files := range map[string][2]string{
		young: {"env: {train: {env_type: CartPole-v1}}\n",
			`{"step":1,"time":1,"time/step":2,"env/steps":100,"env/return":7}`},
		text: {"runner: {task_type: sft}\n", `{"step":1,"time":1,"time/step":2,"train/sft/loss":3,"eval/loss":2}`},
	} {
		test.OK(t, errors.Join(os.Mkdir(run, 0o777), os.WriteFile(filepath.Join(run, "config.yaml"), []byte(files[0]),
			0o666), os.WriteFile(filepath.Join(run, "metrics.jsonl"), []byte(files[1]+"\n"), 0o666)))
	}
	for _, c := range []struct {
		args      []string
		out, errs string
	}{
		{[]string{young}, "young  1      100        7", ""},
		{[]string{text}, "text  1      1           2", ""},
		{[]string{dir}, "full  1      100        10", "left out: " + text + ": no eval/return\nleft out: " + young +
			": no eval/return\n"},
		{[]string{full, young}, "full  1      100        10", "left out: " + young + ": no eval/return\n"},
	} {
		if code, out, errs := run(t, append([]string{"compare"}, c.args...)...); code != loop.ExitOK ||
			!strings.Contains(out, c.out) || errs != c.errs {
			t.Errorf("%s: code %d\n%s%s\nwant %s\n%s", c.args, code, out, errs, c.out, c.errs)
		}
	}
}

// TestJSON: check, compare and envs write JSON with the names that docs/running.md has.
func TestJSON(t *testing.T) {
	dir := t.TempDir()
	evaluated(t, filepath.Join(dir, "a", "seed_1"), 1, 10)
	evaluated(t, filepath.Join(dir, "a", "seed_2"), 2, 20)
	evaluated(t, filepath.Join(dir, "b", "seed_1"), 1, 40)
	page := readFile(t, "../../docs/running.md")
	for command, want := range map[string]struct {
		args []string
		code int
	}{
		"compare --json": {[]string{"compare", "--json", dir}, loop.ExitOK},
		"check --json":   {[]string{"check", "--json", "-c", rolestest.Cartpole}, loop.ExitOK},
		"envs --json":    {[]string{"envs", "--json"}, loop.ExitOK},
	} {
		code, out, errs := run(t, want.args...)
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil || code != want.code {
			t.Errorf("%s: code %d, %v\n%s%s", command, code, err, out, errs)
		}
		_, row, _ := strings.Cut(page, "| `"+command+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		for _, name := range jsonNames(value, nil) {
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/running.md: %s lacks %s", command, name)
			}
		}
	}
	var compared struct {
		Groups []struct {
			Mean, Difference float64
			Interval         []float64
		}
	}
	_, out, _ := run(t, "compare", "--json", dir)
	if err := json.Unmarshal([]byte(out), &compared); err != nil || len(compared.Groups) != 2 ||
		compared.Groups[0].Mean != 15 || compared.Groups[1].Difference != 25 || len(compared.Groups[0].Interval) != 2 ||
		compared.Groups[1].Interval != nil {
		t.Errorf("%v: %s", err, out)
	}
	var checked struct {
		Runs   bool
		Errors []string
		Ranks  []struct{ Bytes map[string]int64 }
	}
	code, out, errs := run(t, "check", "--json", "-c", rolestest.Cartpole, "algorithm.gamma=2")
	if err := json.Unmarshal([]byte(out), &checked); err != nil || code != loop.ExitConfig || checked.Runs ||
		len(checked.Errors) != 1 || !strings.Contains(checked.Errors[0], "gamma") || !strings.Contains(errs, "gamma") {
		t.Errorf("code %d, %v: %s%s", code, err, out, errs)
	}
	code, out, errs = run(t, "check", "--json", "-c", "none.yaml")
	if want := `{"runs":false,"verdict":"cannot be read","errors":["none.yaml: no such file"],"overrides":[]}` +
		"\n"; code != loop.ExitConfig || out != want {
		t.Errorf("without a file: exit code %d, %q, %q, want %q", code, out, errs, want)
	}
}

// jsonNames returns all names in value.
func jsonNames(value any, names []string) []string {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			names = jsonNames(x, names)
		}
	case map[string]any:
		for name, x := range v {
			if names = append(names, name); name != "bytes" { // whose names are the table's columns
				names = jsonNames(x, names)
			}
		}
	}
	return names
}
