package e2e

import (
	"fmt"
	"testing"
	"time"
)

// hoarder is a job of SAC whose replay buffer has the transitions of 6 iterations.
const hoarder = `
runner: {val_check_interval: -1, save_at_end: false, logger: {log_path: logs, experiment_name: run}}
env: {train: {env_type: Pendulum-v1, total_num_envs: 64}}
algorithm:
  adv_type: embodied_sac
  loss_type: embodied_sac
  gamma: 0.99
  update_epoch: 1
  tau: 0.005
  replay_buffer: {sample_window_size: 6, min_buffer_size: 1}
actor:
  micro_batch_size: 32
  global_batch_size: 256
  model: {hidden_sizes: [16], add_q_head: true}
  optim: {lr: 1.0e-3}
`

// TestMemoryOfReplay: a replay buffer of 560 MiB on 8 ranks, or of 10⁶ transitions on one. While the job saves or
// resumes, no rank needs much more memory than the running job.
func TestMemoryOfReplay(t *testing.T) {
	if !full {
		t.Skip("a replay buffer of 560 MiB: RLINF_TEST_FULL=1")
	}
	for _, c := range []struct {
		on          *platform
		np          int
		place       string
		stack, each int // observations in a transition, and steps of an environment in an iteration
	}{{openmpi, 8, "0-7", 64, 1000}, {local, 0, "0", 16, 2605}} {
		t.Run(fmt.Sprintf("%s %d", c.on.name, c.np), func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", components("actor,env,rollout: %s", c.place)+hoarder)
			peaks := func(args ...string) map[int]float64 {
				t.Helper()
				j := c.on.start(t, dir, c.np, append([]string{"-c", "job.yaml",
					fmt.Sprint("env.train.frame_stack=", c.stack),
					fmt.Sprint("env.train.max_steps_per_rollout_epoch=", c.each)}, args...)...)
				peak := map[int]float64{}
				for ; !j.over(); time.Sleep(10 * time.Millisecond) {
					for _, p := range j.processes() {
						if p.rank >= 0 || j.launcher == "" {
							peak[p.rank] = max(peak[p.rank], shareOf(p.pid))
						}
					}
				}
				if code := j.wait(); code != 0 {
					t.Fatalf("%q: exit code %d\n%s%s", args, code, &j.stdout, &j.stderr)
				}
				return peak
			}
			runs := peaks("runner.max_steps=6", "runner.save_interval=-1", "runner.logger.experiment_name=plain")
			saves := peaks("runner.max_steps=6", "runner.save_interval=6")
			resumes := peaks("runner.max_steps=7", "runner.save_interval=-1", "--resume", "auto")
			for rank, share := range runs {
				t.Logf("rank %d: %.0f MiB, %.0f at a save, %.0f at a resume", rank, share, saves[rank], resumes[rank])
				if most := max(saves[rank], resumes[rank]); most > share+64 {
					t.Errorf("rank %d: %.0f MiB, want at most 64 more than %.0f", rank, most, share)
				}
			}
		})
	}
}
