package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// run is the command line; it returns the exit code and what was written to standard output and error.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t, rolestest.Registries(), args...)
}

// runWith is run with the parts of reg.
func runWith(t *testing.T, reg config.Registries, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	read := func(f **os.File) func() string {
		r, w, err := os.Pipe()
		test.OK(t, err)
		old := *f
		*f = w
		text := make(chan string)
		go func() {
			b, _ := io.ReadAll(r)
			text <- string(b)
		}()
		return func() string {
			*f = old
			w.Close()
			return <-text
		}
	}
	out, errs := read(&os.Stdout), read(&os.Stderr)
	code = Run(append([]string{"rlinf"}, args...), reg, tasks(), Own{})
	return code, out(), errs()
}

// TestBench runs the benchmarks from end to end on goroutine ranks, and reads what they write.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	few := []string{"-n", "8", "--max-time", "5s"}
	for _, c := range []struct {
		args string
		rows int // in the JSON form
		want []string
	}{
		{"bench -np 3 --sizes 8,1K,4K --algo ring,ordered --np-sweep 2,3 --plot " + file("plot.svg"), 12,
			[]string{"# rlinf bench", "allreduce", "fit allreduce ring", "complete"}},
		{"bench -o csv --op all --sizes 256 -np 2 --place both --mem arena,go --root rotate --shuffle --off-cache " +
			"--cache 3M -w 0", 36,
			[]string{"op,algo,n,size", "reduce_scatter", "go+out", "rotate"}},
		{"bench --sizes 8,64 --off-cache --cache 3M --data real -d bf16 --redop max", 2,
			[]string{"2.00 times its last-level cache of 3MiB"}},
		{"bench p2p --sizes 0,100 --window 4", 8, []string{"message_rate"}},
		{"bench channel --sizes 100 --window 4 --consume 10us", 3, []string{"back_pressure"}},
		{"bench overlap --sizes 4K --algo ring", 1, []string{"overlap_pct"}},
		{"bench overlap --sizes 4K --algo ring --link 20us,1GB/s -np 3", 1, []string{"overlap_pct"}},
		{"bench weights -np 3 --sizes 4K", 3, []string{"in-place", "slots=2"}},
		{"bench weights -np 3 --sizes 4K --source 2 --readers 0,2 --slots 1 --wire bf16 --patch --changed 0.1", 1,
			[]string{"slots=1+bf16+patch"}},
		{"bench env --envs 2 -np 1", 5, []string{"CartPole-v1", "Pendulum-v1", "Acrobot-v1"}},
		{"bench env --name CartPole-v1 --envs 3", 1, []string{"CartPole-v1", "steps_s_core"}},
		{"bench env -c ../../configs/cartpole_ppo.yaml env.train.env_type=Pendulum-v1", 1, []string{"Pendulum-v1"}},
		{"bench -np 2 --sizes 8,8K --tune " + file("table.json"), 12, nil},
		{"bench -np 2 --sizes 8 --table " + file("table.json"), 1, nil},
	} {
		t.Run(c.args, func(t *testing.T) {
			out := file("out.json")
			code, stdout, stderr := run(t, append(append(strings.Fields(c.args), few...), "--out", out)...)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			rep := test.Must(results.Read(out))(t)
			least := c.rows
			if strings.Contains(c.args, "--tune") || strings.Contains(c.args, "--op all") {
				least = 1
			}
			wholeReport(t, rep, least)
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("want %q in\n%s", want, stdout)
				}
			}
		})
	}
	if svg, err := os.ReadFile(file("plot.svg")); err != nil || !bytes.HasPrefix(svg, []byte("<svg")) {
		t.Errorf("plot: %v, %.20q", err, svg)
	}
}

// wholeReport checks that a report has at least this number of rows, each with the 8 samples of -n 8, and a description
// of the machine.
func wholeReport(t *testing.T, rep *results.Report, least int) {
	t.Helper()
	if len(rep.Rows) < least || !rep.Complete {
		t.Errorf("%d rows, complete %v, want %d", len(rep.Rows), rep.Complete, least)
	}
	for _, row := range rep.Rows {
		if len(row.Samples) != 8 {
			t.Errorf("%s has %d samples, want the 8 that -n asks for", row.Key(), len(row.Samples))
		}
	}
	m := rep.Machine
	if len(m.Hosts) != 1 || m.Go == "" || len(m.Args) == 0 || m.Roof <= 0 {
		t.Errorf("the machine is not described: %+v", m)
	}
}

// TestBenchScale: without a configuration bench scale has a job of its own, and as many ranks as CPUs.
func TestBenchScale(t *testing.T) {
	t.Setenv(asProgram, "1")
	code, stdout, stderr := run(t, "bench", "scale", "--steps", "2", "--skip", "0")
	if code != 0 || !strings.Contains(stdout, "cartpole") || !strings.Contains(stdout, "efficiency_pct") ||
		!strings.Contains(stdout, " complete") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := run(t, strings.Fields("bench scale -c "+rolestest.Cartpole+
		" cluster.component_placement.actor=0-2 --steps 2 --skip 0")...); code != loop.ExitConfig ||
		!strings.Contains(stderr, "have no such part") {
		t.Errorf("a placement for 3 ranks: exit code %d, %s", code, stderr)
	}
}

// refuses runs each command line, the name of its case, and checks that it ends as a mistake of the configuration
// with the error that follows.
func refuses(t *testing.T, cases map[string]string) {
	t.Helper()
	for args, want := range cases {
		t.Run(args, func(t *testing.T) {
			code, _, stderr := run(t, strings.Fields(args)...)
			if code != loop.ExitConfig || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, %q, want %d and %q", code, stderr, loop.ExitConfig, want)
			}
		})
	}
}

// TestBenchRefusesMeasurements: sizes and numbers of samples have bounds, which the error names.
func TestBenchRefusesMeasurements(t *testing.T) {
	refuses(t, map[string]string{
		"bench --op allredcue":     `"allredcue": expected some of barrier, broadcast`,
		"bench -d f16":             `"f16": expected some of f32, f64, i32, i64, u8, bf16, or all`,
		"bench --algo rnig":        `"rnig": expected some of auto`,
		"bench -b 8X":              `--begin: "8X": expected a size as 8, 64K, 1M or 1GiB`,
		"bench -b 64 -e 8":         "expected 1 <= begin <= end",
		"bench -f 1":               "--factor 1: expected a number from 1.01 to 1e+06",
		"bench --sizes 8,,9":       `--sizes: "": expected a size`,
		"bench -e 1024G -f 1.01":   "sizes: expected at most 2000",
		"bench -np 2 --np-sweep 3": `--np-sweep: "3": expected numbers from 1 to 2`,
		"bench -np 0":              "-np 0: expected a number from 1 to 1024",
		"bench --redop avg":        `"avg": expected some of sum, prod, min, max`,
		"bench --redop sum,max":    "expected one of sum, prod, min, max",
		"bench --root 7 -np 2":     "--root 7: expected a rank from 0 to 1, or rotate",
		"bench --place here":       "expected in, out or both",
		"bench --mem gpu":          `"gpu": expected some of arena, go`,
		"bench --data noise":       "expected integer or real",
		"bench --rel-ci 2":         "--rel-ci 2: expected a number from 0 to 0.99",
		"bench --min 0":            "--min 0: expected a number from 1 to 16777216",
		"bench --max 3":            "--max 3: expected at least --min, which is 30",
		"bench --max-time 0":       "--max-time 0s: expected a time from 1µs to 24h0m0s",
		"bench -w -2":              "--warmup -2: expected",
		"bench --cache 0":          "--cache 0: expected a size > 0, as 32M",
		"bench -n 0":               "-n 0: expected a number from 1 to 16777216",
		"bench extra":              `argument "extra": expected none`,
		"bench --no-such-flag":     "unknown flag --",

		"bench --sizes " + strings.Repeat("8,", 2000) + "8":           "--sizes: 2001 items: expected at most 2000",
		"bench -np 2 --np-sweep " + strings.Repeat("1,", 60000) + "2": "--np-sweep: 60001 items: expected at most 2000",
	})
}

// TestBenchRefusesReports: formats, files and checks that a benchmark does not support are errors.
func TestBenchRefusesReports(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	os.WriteFile(bad, []byte("{}"), 0o644)
	refuses(t, map[string]string{
		"bench --threshold -1":               "--threshold -1: expected a number from 0 to 1e+06",
		"bench -o xml":                       `format "xml": expected one of table`,
		"bench -o wide":                      `format "wide": it was removed: expected csv`,
		"bench channel -o osu":               `format "osu": it was removed: expected json`,
		"bench --out x.md":                   "expected a file with the ending .txt, .csv or .json",
		"bench --out /nowhere/x.json":        "no such file or directory",
		"bench --plot x.png":                 "expected a file with the ending .svg",
		"bench --compare /nowhere/x.json":    "no such file or directory",
		"bench --compare " + bad:             "schema 0: expected 1",
		"bench --table " + bad:               "table of algorithms",
		"bench --tune x.json --algo ring":    "expected it without --algo",
		"bench --baseline --op all":          "--baseline with --op reduce: expected barrier, broadcast or allreduce",
		"bench --check-min-busbw -1":         "expected a number from 0 to 1e+09",
		"bench --starts 0":                   "--starts 0: expected a number from 1 to 30",
		"bench --starts 3 --launcher mpirun": "expected {np} where the number of ranks stands",
		"bench --starts 3 --tune x.json":     "expected it without --starts",
	})
}

// TestBenchRefusesFlagsOfOneBenchmark: flags of p2p, channel, overlap and weights have bounds of their own.
func TestBenchRefusesFlagsOfOneBenchmark(t *testing.T) {
	const link = "expected a latency up to 1s and a rate from 1kB/s to 1000GB/s, as 50us,1GB/s"
	refuses(t, map[string]string{
		"bench p2p --window 0":             "--window 0: expected a number from 1 to 65536",
		"bench p2p --pair 0,9":             `"9": expected ranks from 0 to`,
		"bench p2p --pair 1,1":             "expected two different ranks",
		"bench p2p -np 1":                  "expected at least 2",
		"bench p2p --op speed":             `"speed": expected some of latency`,
		"bench channel --depth 0":          "--depth 0: expected a number from 1 to 65536",
		"bench channel --consume 0s":       "--consume 0s: expected a time from 1ns to 1h0m0s",
		"bench overlap --link 50us":        link,
		"bench overlap --link 50us,1furl":  link,
		"bench overlap -d f32,f64":         "expected one of f32",
		"bench overlap --op barrier":       `"barrier": expected some of broadcast`,
		"bench weights -np 1":              "expected at least 2",
		"bench weights --source 2":         "--source 2: expected a rank from 0 to 1",
		"bench weights --readers 5":        `--readers: "5": expected ranks from 0 to 1`,
		"bench weights --slots 3":          `--slots: "3": expected 0, 1 or 2`,
		"bench weights --wire u8":          "--wire u8: expected f32 or bf16",
		"bench weights --wire bf16":        "expected slots 1 or 2",
		"bench weights --bucket 0":         "--bucket 0: expected a size > 0",
		"bench weights --changed 0":        "--changed 0: expected a number from 1e-06 to 1",
		"bench weights --sizes 1":          "expected at least 4",
		"bench p2p --seed 3":               "unknown flag --",
		"bench p2p extra --window 2 -np 2": `argument "extra": expected none`,
	})
}

// TestBenchRefusesConfigurations: env and scale refuse flags that contradict the configuration.
func TestBenchRefusesConfigurations(t *testing.T) {
	refuses(t, map[string]string{
		"bench env -c x.yaml --name A":     "expected -c FILE.yaml or --name NAME, or neither",
		"bench env --name Chess":           `unknown environment "Chess"`,
		"bench env --name CartPole-v1 a=b": `argument "a=b": expected none without -c`,
		"bench env --envs 0":               "--envs 0: expected a number from 1 to 1048576",
	})
	const scale = "bench scale -c ../../configs/cartpole_ppo.yaml"
	refuses(t, map[string]string{
		scale + " --np-sweep 3":                           "--np-sweep 3: ",
		scale + " --np-sweep 0":                           `"0": expected numbers of ranks from 1 to 65536`,
		scale + " --steps 3":                              "expected more steps than are skipped",
		scale + " --launcher mpirun":                      "expected {np} where the number of ranks stands",
		"bench scale -c ../../configs/cartpole_auto.yaml": "auto for actor, env, rollout: expected ranks",
	})
}

// TestBenchChecks: a check that fails ends with code 3. A missing baseline is an error.
func TestBenchChecks(t *testing.T) {
	dir := t.TempDir()
	base := "bench -np 2 --sizes 8 --max-time 5s -n 10 --out "
	if code, _, stderr := run(t, strings.Fields(base+filepath.Join(dir, "old.json"))...); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, _ := run(t, strings.Fields(base+filepath.Join(dir, "a.json")+" --check-min-busbw 1e6")...)
	if code != loop.ExitCheck || !strings.Contains(stdout, "allreduce on 2 ranks: best bus bandwidth") {
		t.Errorf("a bandwidth that nothing has: exit code %d\n%s", code, stdout)
	}
	code, _, stderr := run(t, strings.Fields("bench -np 2 --sizes 8 -n 3 --baseline")...)
	if code != loop.ExitFailed || !strings.Contains(stderr, `the transport "local" has no library underneath`) {
		t.Errorf("a baseline without a library: exit code %d, %s", code, stderr)
	}
}

// TestBenchComparesWithThePast: compared with a report that is a thousand times faster, several starts show a
// regression, and one start shows nothing.
func TestBenchComparesWithThePast(t *testing.T) {
	if testing.Short() {
		return // starts are processes of their own, which the race detector sees nothing of
	}
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	old := filepath.Join(dir, "old.json")
	starts := "bench -np 2 --sizes 8 --max-time 1s -n 10 --starts 4 --out " + old
	if code, _, stderr := run(t, strings.Fields(starts)...); code != 0 {
		t.Fatal(stderr)
	}
	past := filepath.Join(dir, "past.json")
	writeScaled(t, old, past, 1e-3)
	compare := "bench -np 2 --sizes 8 --max-time 5s -n 10 --out " + filepath.Join(dir, "b.json") + " --compare " + past
	for _, c := range []struct {
		name, flags string
		code        int
		want        string
	}{
		{"several starts", "", loop.ExitCheck, "REGRESSION"},
		{"one start", " --starts 1", 0, "one start"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, _ := run(t, strings.Fields(compare+c.flags)...)
			regression := strings.Contains(stdout, "REGRESSION")
			if code != c.code || !strings.Contains(stdout, c.want) || regression != (c.code != 0) {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, stdout)
			}
		})
	}
}

// writeScaled writes the results of old, which are of 4 starts with 10 samples each, to path with every time
// multiplied by factor.
func writeScaled(t *testing.T, old, path string, factor float64) {
	t.Helper()
	rep, err := results.Read(old)
	test.OK(t, err)
	if rep.Starts() != 4 || len(rep.Rows[0].Samples) != 40 {
		t.Fatalf("%d starts, %d samples", rep.Starts(), len(rep.Rows[0].Samples))
	}
	for i := range rep.Rows {
		row := &rep.Rows[i]
		for _, x := range [][]float64{row.Samples, row.Starts} {
			for s := range x {
				x[s] *= factor
			}
		}
		row.Median *= factor
	}
	f := test.Must(os.Create(path))(t)
	w, err := results.NewWriter("json", f)
	if err == nil {
		err = w.End(rep)
	}
	test.OK(t, err)
	f.Close()
}
