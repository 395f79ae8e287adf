package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// longer makes answers much longer than usual, so that they end at different times and move.
var longer = []string{"runner.seq_length=72", "actor.model.initializer_range=0.2", "runner.max_steps=4",
	"runner.val_check_interval=2", "runner.save_interval=2", "reward.random_reward=true"}

// dealt deals prompts to the ranks of a pool, and lets answers move.
const dealt = "cluster.auto_scheduler=true"

// TestDealt: dealt prompts, moved answers, and a pool of ranks change no metric and no checkpoint.
func TestDealt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	job := laidOut(reasoning)
	few := []string{dealt, "rollout.max_running_requests=5"}
	others := map[string]layout{
		"two ranks": {local, 2, "actor: 0-1", []string{dealt}},
		"few run":   {local, 0, "actor: '0:0-1'\n    rollout: 1-4\n    reward: 3", few},
		"Open MPI":  {openmpi, 4, "actor: 0-1\n    rollout: 0-3\n    reward: 0", []string{dealt}},
		"2 × 2":     {local, 0, "actor: 0-3", divided(2, dealt)},
	}
	if full {
		maps.Copy(others, map[string]layout{
			"one rank": {local, 0, collocated, []string{dealt}},
			"MPICH":    {mpich, 3, "actor: 0-1\n    rollout: 1-2", few},
			"apart": {local, 5, "actor: 0-1\n    rollout: 2-4",
				append(few, "cluster.use_pre_process_policy=false")},
			"2 × 2 × 2":      {local, 0, "actor: 0-7", answered(2, 2, 2, dealt)},
			"1 × 4":          {local, 0, "actor: 0-1\n    rollout: 0-3", answered(1, 1, 4, dealt)},
			"2 × 2 Open MPI": {openmpi, 4, "actor: 0-3", divided(2, few...)},
		})
	}
	sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, others, longer...)
	t.Run("a reference", func(t *testing.T) {
		args := append(longer, "algorithm.adv_type=grpo", "algorithm.kl_beta=0.1", "algorithm.recompute_logprobs=true",
			"actor.enable_dp_load_balance=true")
		sameLayouts(t, dir, job, layout{local, 0, "actor: 0-1\n    rollout: 2-3\n    inference: 1-2", nil},
			map[string]layout{
				"inference": {local, 0, "actor: '0:0-1'\n    rollout: 1-2\n    inference: 3", few},
				"2 × 2":     {local, 0, "actor: 0-3\n    rollout: 4-7\n    inference: 2-5", divided(2, dealt)},
			}, args...)
	})
	t.Run("dynamic sampling", func(t *testing.T) {
		args := append(longer, "algorithm.adv_type=grpo", "algorithm.group_size=4", "algorithm.max_num_gen_batches=3")
		sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
			"three ranks": {local, 3, "actor: 0-1\n    rollout: 2", few},
		}, args...)
	})
	t.Run("a critic", func(t *testing.T) {
		args := append(longer, "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic")
		sameLayouts(t, dir, job, layout{local, 0, collocated, nil}, map[string]layout{
			"of the actors": {local, 0, "actor: 0-1\n    rollout: 2-3", few},
		}, args...)
		sameLayouts(t, dir, job, layout{local, 0, "actor: 0-1\n    critic: 2-3", nil}, map[string]layout{
			"placed": {local, 0, "actor: '0:0-1'\n    rollout: 1\n    critic: 1-2", few},
		}, args...)
	})
}

// TestDealtStruck: while answers are dealt, a rank that gives and takes answers dies or stops responding. The job ends
// as in any other phase. After a resume it ends like an undisturbed run.
func TestDealtStruck(t *testing.T) {
	t.Parallel()
	times := 1
	if full {
		times = 3
	}
	for _, c := range []struct {
		on     *platform
		signal syscall.Signal
		code   int
		says   string
	}{
		{openmpi, syscall.SIGKILL, 137, "%process rank 1 with PID % on node % exited on signal 9 (Killed)."},
		{openmpi, syscall.SIGSTOP, 76, "rank 1 (host %) has been silent for %"},
		{mpich, syscall.SIGKILL, 9, "%BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"}, // it names another
		{mpich, syscall.SIGSTOP, 76, "rank 1 (host %) has been silent for %"},
	} {
		if !full && (c.on != openmpi || c.signal != syscall.SIGKILL) {
			continue
		}
		t.Run(c.on.name+"/"+c.signal.String(), func(t *testing.T) {
			t.Parallel()
			c.on.program(t, ".") // or skip the test
			for instant := range times {
				n := &nomad{yaml: reasoning, args: append(longer, dealt)}
				at, start := newCamp(t, n), "{actor: 0-1, rollout: 0-3}"
				j := at.start(t, c.on, "run", start, steps(1_000_000), "comm.stall_timeout=2s")
				poll(t, j, func() bool { return len(readMetrics(t, at.folder("run"))) > 1 })
				time.Sleep(time.Duration(draws(t, instant).IntN(100)) * time.Millisecond)
				syscall.Kill(processOf(t, at.folder("run"), 1), c.signal)
				r := j.result()
				if r.code != c.code || count(r.stderr+r.stdout, c.says) != 1 {
					t.Errorf("exit code %d, want %d, and once %q\n%s%s", r.code, c.code, c.says, r.stdout, r.stderr)
				}
				done := len(readMetrics(t, at.folder("run")))
				if r := at.start(t, c.on, "run", start, steps(done+2), "--resume", "auto").result(); r.code != 0 {
					t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
				}
				at.settle(t, start, steps(done+2))(t, "run")
			}
		})
	}
}

// BenchmarkDealt prints how much faster two ranks generate answers that are dealt than answers that are assigned. The
// runs alternate. Of each iteration the shortest time counts, because other programs rarely disturb all runs.
func BenchmarkDealt(b *testing.B) {
	dir := b.TempDir()
	local.ok(b, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	writeFile(b, dir, "job.yaml", components("actor: 0-1")+laidOut(reasoning))
	var best [2][]float64
	var all [2]metrics
	for b.Loop() {
		for range 4 {
			for i, auto := range []string{"false", "true"} {
				local.ok(b, dir, 2, append(slices.Concat([]string{"-c", "job.yaml"}, longer), "runner.seq_length=300",
					"data.rollout_batch_size=16", "runner.val_check_interval=-1", "runner.max_steps=3",
					"cluster.auto_scheduler="+auto)...)
				all[i] = readMetrics(b, filepath.Join(dir, "logs", "run"))
				for k, x := range generationTimes(b, filepath.Join(dir, "logs", "run", "metrics.jsonl")) {
					if k == len(best[i]) {
						best[i] = append(best[i], x)
					}
					best[i][k] = min(best[i][k], x)
				}
			}
		}
		if diff := all[1].diff(all[0]); diff != "" {
			b.Fatal(diff)
		}
		sum := func(x []float64) (s float64) {
			for _, v := range x[1:] { // the first finds cold memory
				s += v
			}
			return s
		}
		b.ReportMetric(sum(best[0])/sum(best[1]), "times_as_fast")
	}
}

// generationTimes returns the seconds that the iterations of a run took to generate answers.
func generationTimes(b *testing.B, path string) (all []float64) {
	b.Helper()
	text := test.Must(os.ReadFile(path))(b)
	for line := range bytes.Lines(text) {
		var m struct {
			Generate float64 `json:"time/generate_rollouts"`
		}
		test.OK(b, json.Unmarshal(line, &m))
		all = append(all, m.Generate)
	}
	return all
}

// TestLargePool: a pool that does not fit into memory is refused. The message names the rank that needs the most.
func TestLargePool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	writeFile(t, dir, "job.yaml", components("actor: 0-1\n    rollout: 2-3")+laidOut(reasoning))
	r := local.start(t, dir, 0, "-c", "job.yaml", dealt, "actor.model.intermediate_size=16777216",
		"actor.model.num_hidden_layers=300").result()
	const want = " of them on rank 0 of the pool (cluster.auto_scheduler), with actor[0], rollout[0], "
	if r.code != 2 || !strings.Contains(r.stderr, want) {
		t.Errorf("exit code %d: %s\nexpected %q", r.code, r.stderr, want)
	}
}
