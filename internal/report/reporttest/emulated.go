// Package reporttest makes folders and pages of runs, for the tests of package report: large, hostile and damaged ones.
package reporttest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/report"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/internal/video"
)

// Noise returns a number from 0 to 1 that depends on its arguments alone.
func Noise(at ...int) float64 {
	x := uint64(0x9e3779b97f4a7c15)
	for _, v := range at {
		x = (x ^ uint64(v)) * 0xbf58476d1ce4e5b9
		x ^= x >> 29
	}
	return float64(x>>11) / (1 << 53)
}

// Emulated returns an attempt with the given numbers of ranks and iterations. Each rank has an actor, an env and a
// runner. An iteration takes 20 ms. The first three iterations have a window, and each n-th iteration, where n is the
// argument every. In a window each worker has the given number of spans.
func Emulated(ranks, iterations, every, spans int) trace.Attempt {
	a := trace.Attempt{ID: 1, Ranks: ranks, Hosts: []string{"node0"}}
	for r := range ranks {
		add := func(component string, sites ...trace.Site) {
			a.Workers = append(a.Workers, trace.Lane{Rank: r, Node: r / 8, Component: component, Member: r,
				Sites: sites})
		}
		idle := trace.Site{Op: trace.Idle, Name: "idle", Cause: trace.Idling}
		add("actor", idle, trace.Site{Op: trace.Work, Name: "train", Cause: trace.Working},
			trace.Site{Op: trace.Collect, Name: "gradients", Cause: trace.Gradient})
		add("env", idle, trace.Site{Op: trace.Work, Name: "simulate", Cause: trace.Working},
			trace.Site{Op: trace.Get, Name: "act", Peer: "rollout", Cause: trace.Action})
		add(trace.Runner, trace.Site{Op: trace.Idle, Name: "idle", Cause: trace.Other},
			trace.Site{Op: trace.Await, Name: "train", Cause: trace.Calling},
			trace.Site{Op: trace.Vote, Name: "vote", Cause: trace.Voting})
	}
	for r := range ranks { // messages to the neighbours, and votes to rank 0
		a.Sent = append(a.Sent, trace.Sent{From: r, To: (r + 1) % ranks, Messages: 1000, Bytes: int64(r) << 20},
			trace.Sent{From: r, To: 0, Messages: 10, Bytes: 100})
	}
	const long = emulatedStep
	for i := 1; i <= iterations; i++ {
		ph := trace.Phases{Iteration: int64(i)}
		for r := range ranks {
			step := float32(0.02 + 0.002*Noise(i, r))
			ph.Ranks = append(ph.Ranks, [trace.NumPhases]float32{step, 0.001, step / 4, 0.0002, step / 2})
		}
		if ranks > 64 {
			ph.Median = ph.Ranks[0]
			ph.Slowest = []trace.RankTimes{{Rank: 3, Times: ph.Ranks[3]}}
			ph.Ranks = nil
		}
		a.Phases = append(a.Phases, ph)
		for w := range a.Workers {
			busy := int64(long * (0.4 + 0.2*Noise(i, w)))
			a.Sums = append(a.Sums, trace.Sum{Iteration: int64(i), Worker: w,
				Times: []int64{long / 10, busy, long - long/10 - busy}})
		}
		if i%every != 0 && i > 3 {
			continue
		}
		a.Windows = append(a.Windows, emulatedWindow(a.Workers, i, spans))
	}
	return a
}

// emulatedStep is the time of an iteration, in nanoseconds.
const emulatedStep = 20_000_000

// emulatedWindow returns the window of iteration i. Each worker has the given number of spans. A runner has 4.
func emulatedWindow(workers []trace.Lane, i, spans int) trace.Window {
	const long = emulatedStep
	win := trace.Window{Iteration: int64(i), Why: trace.Regular}
	if i <= 3 {
		win.Why = trace.First
	}
	for w := range workers {
		t := trace.Track{Worker: w}
		at, n := int64(i)*long, spans
		if w%3 == 2 {
			n = 4 // runners
		}
		for k := range n {
			part := (float64(k+1) + Noise(i, w, k)/2) / float64(n)
			end := int64(i)*long + int64(0.98*part*long)
			t.Spans = append(t.Spans, trace.Span{Site: 1 + k%2, Start: at, End: end, Arg: int64(k % 5),
				N: int64(k)})
			at = end
		}
		win.Tracks = append(win.Tracks, t)
	}
	return win
}

// MetricsText returns the metrics.jsonl of a run that learns.
func MetricsText(iterations, ranks int) string {
	var b strings.Builder
	for i := 1; i <= iterations; i++ {
		x := float64(i) / float64(iterations)
		fmt.Fprintf(&b, `{"step":%d,"time":%.3f`, i, 1.7e9+0.02*float64(i))
		put := func(name string, v float64) { fmt.Fprintf(&b, `,%q:%v`, name, v) }
		put("env/steps", float64(2048*i))
		put("env/return", 500*(1-math.Exp(-5*x))+40*(Noise(i)-0.5))
		put("env/episode_len", 500*(1-math.Exp(-5*x)))
		put("train/actor/policy_loss", -0.01*Noise(i, 1))
		put("train/critic/value_loss", 20*math.Exp(-4*x)*(0.5+Noise(i, 2)))
		put("train/actor/approx_kl", 0.01*Noise(i, 3))
		put("train/actor/clip_fraction", 0.1*Noise(i, 4))
		put("train/actor/entropy_loss", 0.7-0.4*x)
		put("train/critic/explained_variance", 1-math.Exp(-3*x))
		put("train/actor/grad_norm", 5+Noise(i, 5))
		put("train/actor/lr", 1e-3*(1-x))
		for k := range 40 { // as many metrics as a run has
			put(fmt.Sprintf("env/info/figure_%02d", k), Noise(i, k, 6))
		}
		put("time/step", 0.021+0.001*Noise(i, 7))
		put("time/step_mean", 0.0205)
		put("time/generate_rollouts", 0.005)
		put("time/actor_training", 0.01)
		put("time/env_steps_per_second", 1e5*(1+0.1*Noise(i, 8)))
		if i%50 == 0 {
			put("eval/return", 500*(1-math.Exp(-5*x)))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// ConfigText is the configuration in the folders of RunFolder.
const ConfigText = `runner:
    seed: 7
    max_steps: 1000
env:
    train:
        env_type: CartPole-v1
`

// RunFolder writes the folder of a finished run, with the given number of films. A film has 20 frames. In a run of 1000
// or more iterations it has 240 large frames.
func RunFolder(t testing.TB, iterations, films int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	WriteFile(t, dir, "metrics.jsonl", MetricsText(iterations, 8))
	WriteFile(t, dir, "config.yaml", ConfigText)
	WriteFile(t, dir, "STATUS", "done\n")
	WriteFile(t, dir, "provenance.json", `[{"started":"2026-01-02T03:04:05Z","args":["rlinf","-c","job.yaml"],`+
		`"build":{"version":"v1","go":"go1","platform":"linux/amd64"},"env":{"RLINF_X":"secret"},"transport":"local",`+
		`"hosts":["a","a"],"binding":["0","1"],"iterations":1000}]`)
	WriteFile(t, dir, "logs/rank-0000.log", "warning: a line\n")
	frames := 20
	if iterations >= 1000 {
		frames = 240
	}
	for i := range films {
		name := fmt.Sprintf("global_step_%d.png", 500*(i+1))
		Film(t, filepath.Join(dir, "videos", name), frames, frames > 20)
	}
	return dir
}

func WriteFile(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Film writes a film whose frame i has the colour (10 i, 0, 0) in its left half. If grain is true, the right half is
// noise, and a frame is large.
func Film(t testing.TB, path string, frames int, grain bool) {
	t.Helper()
	s := video.NewSheet(2, 64, 64, 1)
	f, err := video.Create(path, s, 25, programs.Entered{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range frames {
		pixels := make([]byte, 64*64*3)
		for k := 0; k < len(pixels); k += 3 {
			pixels[k] = byte(10 * i)
		}
		s.Put(0, pixels)
		for k := range pixels {
			if grain {
				pixels[k] = byte(256 * Noise(i, k))
			}
		}
		s.Put(1, pixels)
		if err := f.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// PageOf returns the page of a run.
func PageOf(t testing.TB, dir string, attempts ...trace.Attempt) []byte {
	t.Helper()
	about := report.About{Defaults: []byte("runner: {seed: 1, max_steps: 1000}\n"),
		Next: "run         " + dir + ": done\nevaluate    rlinf eval -c config.yaml\n"}
	run := report.Gather(dir, about, &trace.Trace{Attempts: attempts})
	var page strings.Builder
	if err := report.WriteRun(&page, run); err != nil {
		t.Fatal(err)
	}
	return []byte(page.String())
}
