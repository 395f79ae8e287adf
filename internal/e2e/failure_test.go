package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// frail is a job of three ranks that wait for each other. The environments, which are faulty's, are on rank 1 alone.
// They fail in the third iteration. A run that resumes after the second iteration ends before they fail again.
const frail = `
cluster:
  component_placement: {actor: 0-2, env: 1, rollout: 2}
runner: {max_steps: 3, save_interval: 1}
env:
  train: {total_num_envs: 6, max_steps_per_rollout_epoch: 8}
algorithm: {update_epoch: 1}
actor:
  micro_batch_size: 16
  global_batch_size: 48
  model: {hidden_sizes: [8]}
  optim: {lr: 1.0e-3}
`

// A failure is a way in which rank 1 fails, and the expected end of the job.
type failure struct {
	fault  string // the name of faulty's environment, CartPole-…
	args   []string
	async  bool   // the run is asynchronous, and each component has its own ranks
	codes  []int  // any of these; none: any but 0, the launcher's
	says   string // the line that names the culprit; "%" stands for any text, $PID for rank 1's process
	status runfolder.Status
	logged bool // the log of rank 1 has the line, too
}

// These failures end in the same way on all platforms.
var (
	panics = failure{fault: "panic", codes: []int{1}, says: "env[0] rank 1 host % step 3: panic: out of its mind",
		status: runfolder.Failed, logged: true}
	errs = failure{fault: "error", codes: []int{1},
		says: "env[0] rank 1 host % step 3: interact: step 3: out of patience", status: runfolder.Failed, logged: true}
)

// TestFailures lets rank 1 fail while the other ranks wait for it. The job ends with the right exit code, names the
// culprit, leaves no process, keeps the last checkpoint, and can be resumed. TestFailures of spmd/mpi has all failures
// under each MPI.
func TestFailures(t *testing.T) {
	t.Parallel()
	// Only the launcher knows which rank was killed, and the launcher of MPICH does not say so.
	stopped := failure{fault: "stop", args: []string{"comm.stall_timeout=5s"}, codes: []int{76},
		status: runfolder.Failed,
		says: "rank 1 (host %, pid $PID) has been silent for % (stall timeout 5s): it is stopped, or its node " +
			"hangs; rank % on % ends the job with exit code 76"}
	asyncErrs := failure{fault: "error", async: true, codes: []int{1}, status: runfolder.Failed, logged: true,
		says: "env[0] rank 1 host % step %: simulate: environments 0-5, step %: out of patience"}
	asyncKill := failure{fault: "kill", async: true, codes: []int{137}, status: runfolder.Running,
		says: "%process rank 1 with PID % on node % exited on signal 9 (Killed)."}
	for _, c := range []struct {
		p        *platform
		failures []failure
	}{
		{local, []failure{panics, errs, asyncErrs,
			{fault: "nan-reward", codes: []int{1}, status: runfolder.Failed,
				says: "actor[0] rank 0 host % step 3: compute_advantages_and_returns: ppo: rollout: reward is NaN at " +
					"step 3 of environment 0 of this replica"},
			{fault: "nan-observation", codes: []int{1}, status: runfolder.Failed,
				says: "rollout[0] rank 2 host % step 3: generate: environments 0-5, step 4: policy: forward: row 0: " +
					"log-prob is NaN: its observation, " +
					"or the parameters, are not finite"},
		}},
		{openmpi, []failure{panics, stopped, asyncKill,
			{fault: "exit", codes: []int{3}, status: runfolder.Running, says: "%Process name: [[%],1]"},
			{fault: "kill", codes: []int{137}, status: runfolder.Running,
				says: "%process rank 1 with PID % on node % exited on signal 9 (Killed)."},
		}},
		{mpich, []failure{errs, stopped,
			{fault: "kill", codes: []int{9}, status: runfolder.Running},
		}},
	} {
		for _, f := range c.failures {
			name := c.p.name + "/" + f.fault
			if f.async {
				name += ", async"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for range repeats() {
					fails(t, c.p, f)
				}
			})
		}
	}
}

// repeats is the number of times that each failure is tried.
func repeats() int {
	if full {
		return 20
	}
	return 1
}

func fails(t *testing.T, p *platform, f failure) {
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", frail)
	program := p.program(t, "./internal/e2e/testdata/faulty")
	args := append([]string{"-c", "job.yaml", "env.train.env_type=CartPole-" + f.fault}, f.args...)
	if f.async {
		args = append(args, "runner.async=true", "algorithm.staleness_threshold=1",
			"cluster.component_placement={actor: 0, env: 1, rollout: 2}")
	}
	r := p.startProgram(t, program, dir, 3, args...).result() // the result fails if a process is left
	if !slices.Contains(f.codes, r.code) && (f.codes != nil || r.code == 0) {
		t.Errorf("exit code %d, want one of %d", r.code, f.codes)
	}
	run := filepath.Join(dir, "logs", "job")
	says := strings.ReplaceAll(f.says, "$PID", fmt.Sprint(processOf(t, run, 1)))
	if says != "" && count(r.stderr, says) != 1 {
		t.Errorf("want once: %s", says)
	}
	if f.logged {
		rank := 1
		if p == local { // all ranks are one process
			rank = 0
		}
		log, err := os.ReadFile(runfolder.RankLog(run, rank))
		if err != nil || count(string(log), says) != 1 {
			t.Errorf("rank 1's log: %v, want once: %s\n%s", err, says, log)
		}
	}
	if strings.Contains(r.stderr, "goroutine ") {
		t.Error("there are stacks on standard error")
	}
	if f.fault == "panic" || f.fault == "stop" {
		logs, err := filepath.Glob(filepath.Join(run, "logs", "*"))
		stacks := 0
		for _, file := range logs {
			text, _ := os.ReadFile(file)
			stacks += min(strings.Count(string(text), "goroutine "), 1)
		}
		if err != nil || stacks != 1 {
			t.Errorf("stacks are in %d of the logs %q, want 1", stacks, logs)
		}
	}
	test.Equal(t, readStatus(t, run), f.status, "STATUS")
	last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest"))
	if err != nil || last.Step < 1 || last.Step > 2 {
		t.Errorf("latest checkpoint: %+v, %v", last, err)
	}
	if t.Failed() {
		t.Fatalf("%s%s", r.stdout, r.stderr)
	}

	if p != local && f.fault != "kill" && !full {
		return // the others leave the same checkpoint
	}
	r = p.startProgram(t, program, dir, 3, append(args, "--resume", "auto")...).result()
	if got := readStatus(t, run); r.code != 0 || got != runfolder.Done || len(readMetrics(t, run)) != 3 {
		t.Fatalf("resumed: exit code %d, STATUS %q\n%s%s", r.code, got, r.stdout, r.stderr)
	}
}

// TestDivergence trains with a learning rate that is far too large. Both actors find the gradient that is not finite,
// and the first actor reports it.
func TestDivergence(t *testing.T) {
	t.Parallel()
	for _, p := range platforms[:2] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			r := p.run(t, dir, 2, "-c", "job.yaml", "actor.optim.lr=1e30", "runner.max_steps=100")
			if r.code != 1 || count(r.stderr, "actor[%] rank % host % step %: run_training: ppo: %") != 1 ||
				count(r.stderr, "actor[0] rank 0 host % step %: run_training: ppo: epoch %: minibatch %: gradient of "+
					"%[%]: % at element %") != 1 {
				t.Errorf("exit code %d, want 1 and, once, the gradient that is not finite\n%s", r.code, r.stderr)
			}
			if got := readStatus(t, filepath.Join(dir, "logs", "job")); got != runfolder.Failed {
				t.Errorf("STATUS %q", got)
			}
		})
	}
}

// count returns the number of lines of text that match pattern; see like.
func count(text, pattern string) (n int) {
	for line := range strings.Lines(text) {
		if like(strings.TrimSuffix(line, "\n"), pattern) {
			n++
		}
	}
	return n
}

// readStatus returns the word in the STATUS of the run whose folder is dir.
func readStatus(t *testing.T, dir string) runfolder.Status {
	t.Helper()
	text := readFile(t, filepath.Join(dir, "STATUS"))
	return runfolder.Status(strings.TrimSpace(text))
}

// readRanks returns the ranks of the run in dir.
func readRanks(t *testing.T, dir string) []runfolder.Rank {
	t.Helper()
	text := readFile(t, filepath.Join(dir, "ranks.jsonl"))
	var ranks []runfolder.Rank
	for line := range strings.Lines(text) {
		var r runfolder.Rank
		test.OK(t, json.Unmarshal([]byte(line), &r))
		ranks = append(ranks, r)
	}
	return ranks
}

// processOf returns the PID of rank.
func processOf(t *testing.T, dir string, rank int) int {
	t.Helper()
	return readRanks(t, dir)[rank].PID
}
