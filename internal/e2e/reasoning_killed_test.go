package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// TestReasoningKilled: a run, or one of its ranks, is killed by SIGKILL at any instant. After a resume the run ends
// with the metrics of an undisturbed run.
func TestReasoningKilled(t *testing.T) {
	t.Parallel()
	kills, on := 1, []*platform{openmpi}
	if full {
		kills, on = 10, platforms
	}
	t.Run("actors", func(t *testing.T) { reasonKilled(t, kills, on, "actor: 0-1\n    rollout: 1-2\n    reward: 3") })
	if full {
		t.Run("critic", func(t *testing.T) {
			reasonKilled(t, kills, on, "actor: 0-1\n    rollout: 1-2\n    critic: 2-3",
				append([]string{"actor.enable_dp_load_balance=true"}, withCritic...)...)
		})
	}
}

// reasonKilled kills a job with this placement so many times.
func reasonKilled(t *testing.T, kills int, on []*platform, place string, settings ...string) {
	dir := sums(t)
	run := func(on *platform, np int, place, name string, args ...string) *job {
		writeFile(t, dir, name+".yaml", components("%s", place)+reasoning)
		return on.start(t, dir, np,
			append([]string{"-c", name + ".yaml", "runner.logger.experiment_name=" + name, "runner.max_steps=60",
				startWeights},
				append(args, settings...)...)...)
	}
	finish := func(t testing.TB, j *job, name string) metrics {
		t.Helper()
		if r := j.result(); r.code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", name, r.code, r.stdout, r.stderr)
		}
		return readMetrics(t, filepath.Join(dir, "logs", name))
	}
	want := finish(t, run(local, 0, collocated, "whole"), "whole")
	for _, on := range on {
		t.Run(on.name, func(t *testing.T) {
			on.program(t, ".") // or skip the test
			draw := rand.New(rand.NewPCG(11, uint64(len(on.name))))
			const np = 4
			start := time.Now()
			finish(t, run(on, np, place, "timed"), "timed")
			wall := time.Since(start)
			for kill := range kills {
				name := fmt.Sprint(on.name, kill)
				j := run(on, np, place, name)
				at := time.Duration(draw.Float64() * float64(wall))
				whom := j.killAt(at, draw.IntN(2*np))
				t.Logf("killed %s after %v, in step %d", whom, at.Round(time.Millisecond),
					len(readMetrics(t, filepath.Join(dir, "logs", name)))+1)
				finish(t, run(on, np, place, name, "--resume", "auto"), name).same(t, want)
				verified(t, ".", dir, "logs/"+name)
			}
		})
	}
}
