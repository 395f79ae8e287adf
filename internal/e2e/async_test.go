package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
)

// asyncTasks are asynchronous jobs: PPO with the decoupled loss and new weights in every second iteration, and SAC,
// whose replay buffer takes the transitions that have arrived.
var asyncTasks = []struct{ name, yaml string }{
	{"PPO", `
env: {train: {env_type: CartPole-v1, total_num_envs: 48, max_steps_per_rollout_epoch: 16}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 12}}
algorithm: {loss_type: decoupled_actor_critic, staleness_threshold: 2, gamma: 0.99, gae_lambda: 0.95, update_epoch: 2}
actor: {micro_batch_size: 32, global_batch_size: 384, model: {hidden_sizes: [32]}, optim: {lr: 3.0e-3}}
`},
	{"SAC", `
env: {train: {env_type: Pendulum-v1, total_num_envs: 48, max_episode_steps: 12, max_steps_per_rollout_epoch: 16}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 12}}
algorithm: {adv_type: embodied_sac, loss_type: embodied_sac, staleness_threshold: 4, update_epoch: 2, replay_buffer: {sample_window_size: 20, min_buffer_size: 2}}
actor:
  recv_drain_max_trajectories: 3
  micro_batch_size: 64
  global_batch_size: 384
  model: {hidden_sizes: [32], add_q_head: true}
  optim: {lr: 3.0e-3}
`},
}

// An asyncRun is a run of one of asyncTasks. It saves every second step, and keeps all checkpoints.
type asyncRun struct {
	course
	yaml string
}

func newAsyncRun(t testing.TB, task int) asyncRun {
	return asyncRun{newCourse(t, 0), asyncTasks[task].yaml}
}

// start starts or resumes the job: two actors, two env workers and a rollout worker, each on its own rank.
func (r asyncRun) start(on *platform, args ...string) *job {
	r.t.Helper()
	const runner = `
runner:
  {async: true, weight_sync_interval: 2, save_interval: 2, val_check_interval: 2, keep_checkpoints: 0, logger: {experiment_name: run}}
`
	writeFile(r.t, r.dir, "job.yaml", components("actor: 0-1")+"    env: 2-3\n    rollout: 4\n"+runner+r.yaml)
	return on.start(r.t, r.dir, 5, append([]string{"-c", "job.yaml", "env.train.step_delay=2ms"}, args...)...)
}

// check checks that the run is done: it has n steps in order, no rollout is older than the bound, and every checkpoint
// is complete.
func (r asyncRun) check(n, bound int) {
	r.t.Helper()
	if s := r.status(); s != "done" {
		r.t.Errorf("STATUS is %s, expected done", s)
	}
	m := r.metrics()
	m.checkWhole(r.t, n)
	for _, line := range m {
		oldest, err := strconv.ParseFloat(fmt.Sprint(line["rollout/staleness_max"]), 64)
		if err != nil || oldest > float64(bound) {
			r.t.Errorf("step %v: rollout/staleness_max is %v, expected at most %d", line["step"],
				line["rollout/staleness_max"], bound)
		}
		if r.yaml == asyncTasks[0].yaml && line["rollout/dropped"] != json.Number("0") {
			r.t.Errorf("step %v: rollout/dropped is %v: nothing is made to be dropped", line["step"],
				line["rollout/dropped"])
		}
	}
	for step := 2; step <= n; step += 2 {
		if _, err := checkpoint.Load(filepath.Join(r.folder(), "checkpoints", fmt.Sprint("global_step_", step))); err !=
			nil {
			r.t.Error(err)
		}
	}
}

// TestAsyncStopped: an asynchronous run that is asked to stop in the middle of rollouts saves a checkpoint and says so.
// After a resume it runs to its end.
func TestAsyncStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on     *platform
		task   int
		signal syscall.Signal
		code   int
		status string
	}{
		{local, 0, syscall.SIGTERM, 143, "interrupted"},
		{local, 1, syscall.SIGUSR1, 75, "checkpointed"},
		{openmpi, 0, syscall.SIGUSR1, 75, "checkpointed"},
		{openmpi, 1, syscall.SIGUSR1, 75, "checkpointed"},
		{mpich, 0, syscall.SIGUSR1, 75, "checkpointed"},
	} {
		if c.on == mpich && !full {
			continue
		}
		t.Run(c.on.name+"/"+asyncTasks[c.task].name, func(t *testing.T) {
			t.Parallel()
			c.on.program(t, ".") // or skip the test
			run := newAsyncRun(t, c.task)
			j := run.start(c.on, steps(1_000_000))
			poll(t, j, func() bool { return len(run.metrics()) > 2 })
			j.signal(c.signal)
			if code := j.wait(); !c.on.stopped(code, c.code) {
				t.Fatalf("exit code %d, want %d\n%s%s", code, c.code, &j.stdout, &j.stderr)
			}
			if s := run.status(); s != c.status {
				t.Errorf("STATUS is %s, want %s", s, c.status)
			}
			done := len(run.metrics())
			if _, err := os.Stat(filepath.Join(run.folder(), "checkpoints", fmt.Sprint("global_step_", done))); err !=
				nil {
				t.Fatalf("stopped after step %d: %v", done, err)
			}
			if r := run.start(c.on, steps(done+4), "--resume", "auto").result(); r.code != 0 {
				t.Fatalf("resumed: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			run.check(done+4, []int{2, 4}[c.task])
		})
	}
}

// TestAsyncLearns: PPO with rollouts that are at most one iteration old learns to balance the pole. SAC, with up to
// eight waiting rollouts, learns to hold the pendulum up.
func TestAsyncLearns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config string
		steps  int
		least  float64
		args   []string
	}{
		{"cartpole_disaggregated", 30, 475, []string{
			"runner.async=true", "algorithm.loss_type=decoupled_actor_critic", "algorithm.staleness_threshold=1",
			"actor.micro_batch_size=128",
		}},
		{"pendulum_async_sac", 400, -250, []string{"env.train.step_delay=0s"}}, // -1200 at first, -145 at best
	} {
		t.Run(c.config, func(t *testing.T) {
			t.Parallel()
			m, got := learn(t, c.config, c.steps, c.args...)
			if got < c.least {
				t.Errorf("eval/return is %v, want at least %v", got, c.least)
			}
			if !slices.ContainsFunc(m, func(line map[string]any) bool {
				oldest, ok := line["rollout/staleness_max"].(json.Number)
				return ok && oldest != "0"
			}) {
				t.Error("no rollout is from before the last update")
			}
		})
	}
}
