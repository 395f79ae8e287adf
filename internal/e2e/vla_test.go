package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// visions are jobs whose policy sees images, reads instructions, and acts in chunks: PPO with a ratio for each token,
// GRPO in groups that wait for each other, with adapters, and DAgger with random crops of images. In the first job
// instructions point at objects. The last jobs have critics of actions.
var visions = []struct {
	name      string
	overrides []string
}{
	{"PPO", []string{"env.train.max_episode_steps=10", "algorithm.adv_type=gae", "algorithm.loss_type=actor_critic",
		"algorithm.logprob_type=token_level",
		"algorithm.entropy_type=token_level", "algorithm.reward_type=action_level", "algorithm.update_epoch=2",
		"actor.optim.critic_warmup_steps=2",
		"actor.model.vision_words=true", "actor.model.vision_film=true"}},
	{"GRPO", []string{"env.train.auto_reset=false", "algorithm.adv_type=grpo", "algorithm.loss_type=actor",
		"algorithm.group_size=2",
		"algorithm.filter_rewards=true", "algorithm.rewards_lower_bound=0.0", "algorithm.rewards_upper_bound=1.0",
		"env.eval.group_size=1",
		"actor.model.is_lora=true", "actor.model.lora_rank=2"}},
	{"PPO by flow", []string{"env.train.max_episode_steps=10", "algorithm.adv_type=gae",
		"algorithm.loss_type=actor_critic", "algorithm.logprob_type=action_level",
		"algorithm.kl_beta=0.1", "actor.model.action_head=flow", "actor.model.num_steps=2",
		"rollout.sampling_params.temperature_train=1"}},
	{"DAgger", []string{"algorithm.adv_type=embodied_dagger", "algorithm.loss_type=embodied_dagger",
		"algorithm.update_epoch=2",
		"algorithm.replay_buffer={sample_window_size: 3, min_buffer_size: 1}", "actor.model.num_action_chunks=1",
		"actor.model.image_crop=0.7"}},
	{"SAC", slices.Concat(soft, []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
		"actor.model.layer_norm=true", "actor.model.num_q_heads=3", "algorithm.critic_subsample_size=2"})},
	{"TD3", slices.Concat(soft, []string{"algorithm.adv_type=embodied_td3", "algorithm.loss_type=embodied_td3",
		"actor.model.exploration_noise=0.2", "algorithm.target_update_type=q_head_only"})},
}

// soft are the overrides that replace the policy by one whose critics share an encoder with it. Images are shifted.
var soft = []string{"~actor.model", "actor.model={model_type: cnn_policy, encoder: keypoints, hidden_sizes: [8]}",
	"actor.model.add_q_head=true", "actor.model.add_value_head=false", "actor.enable_drq=true",
	"algorithm.update_epoch=2", "algorithm.replay_buffer={sample_window_size: 3, min_buffer_size: 1}"}

// vision is the common part of these jobs.
const vision = `
env:
  train: {env_type: Squares-v0, max_steps_per_rollout_epoch: 12}
  eval: {max_steps_per_rollout_epoch: 12}
rollout: {sampling_params: {temperature_train: 1.2, temperature_eval: 0.6}}
actor:
  micro_batch_size: 6
  global_batch_size: 36
  optim: {lr: 1.0e-3, value_lr: 3.0e-3}
  model:
    {model_type: vla_policy, num_action_chunks: 2, action_bins: 8, image_crop: 0.8, vision_keypoints: 1, vision_grid: 2, vision_width: 4,
     hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2, hidden_sizes: [8]}
`

// seen is the number of environments of these jobs, in training and in evaluation. In full tests the environments
// divide evenly in all placements.
func seen() (train, eval int) {
	if full {
		return 48, 12
	}
	return 12, 6
}

// begin starts one of these jobs in a placement, with two actors.
func begin(t testing.TB, on *platform, dir string, job int, place placement, more ...string) *job {
	t.Helper()
	np, cluster := place.place(2)
	config := writeFile(t, dir, fmt.Sprintf("ranks-%d.yaml", np), cluster+vision)
	train, eval := seen()
	args := append([]string{"-c", config, fmt.Sprint("env.train.total_num_envs=", train),
		fmt.Sprint("env.eval.total_num_envs=", eval),
		"runner.val_check_interval=2", "runner.save_interval=2", "runner.logger.experiment_name=run",
		"runner.logger.logger_backends=[]"},
		visions[job].overrides...)
	return on.startProgram(t, on.program(t, "./internal/e2e/testdata/squares"), dir, np, append(args, more...)...)
}

// see runs one of these jobs in a placement, and returns its metrics.
func see(t testing.TB, on *platform, dir string, job int, place placement, more ...string) metrics {
	t.Helper()
	if r := begin(t, on, dir, job, place, more...).result(); r.code != 0 {
		t.Fatalf("%s, %s on %s: exit code %d\n%s%s", visions[job].name, place.name, on.name, r.code, r.stdout, r.stderr)
	}
	return readMetrics(t, filepath.Join(dir, "logs", "run"))
}

// TestSeesTheSameEverywhere: the metrics of policies that see and read are the same in every placement, in stages, on
// every transport, and after a resume in another placement.
func TestSeesTheSameEverywhere(t *testing.T) {
	t.Parallel()
	type way struct {
		on            *platform
		place, stages int
	}
	ways := [][]way{{{local, 3, 1}}, {{local, 5, 1}}, {{local, 4, 2}}, {{local, 2, 1}}, {{local, 4, 2}},
		{{local, 5, 1}}}
	if full {
		for job := range ways {
			ways[job] = nil
			for _, on := range platforms {
				for place := range placements {
					ways[job] = append(ways[job], way{on, place, 1 + place%2})
				}
			}
		}
	}
	for job := range visions {
		t.Run(visions[job].name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, episodes := seen()
			want := see(t, local, dir, job, placements[0], steps(4))
			want.checkWhole(t, 4)
			for _, w := range ways[job] {
				got := see(t, w.on, t.TempDir(), job, placements[w.place], steps(4),
					fmt.Sprint("rollout.pipeline_stage_num=", w.stages))
				got.same(t, want, "%v: not the metrics of one rank", w)
			}
			dir = t.TempDir()
			see(t, local, dir, job, placements[0], steps(2))
			resumed := see(t, local, dir, job, placements[2], steps(4), "runner.resume_dir=auto")
			resumed.same(t, want, "not the metrics of the undisturbed run after a resume")
			verified(t, "./internal/e2e/testdata/squares", dir, "logs/run")
			// The command draws actions from the same random numbers as the run.
			r := local.startProgram(t, local.program(t, "./internal/e2e/testdata/squares"), dir, 1, "eval", "-c",
				filepath.Join("logs", "run", "config.yaml"), "--episodes", strconv.Itoa(episodes)).result()
			returns := want.values(t, "eval/return")
			of := strconv.FormatFloat(returns[len(returns)-1], 'g', 4, 64)
			if words := strings.Fields(r.stdout); r.code != 0 || !slices.Contains(words, of) {
				t.Errorf("eval: exit code %d, want return %s:\n%s%s", r.code, of, r.stdout, r.stderr)
			}
		})
	}
}

// TestVisionKilled: a job with a policy that sees, or one of its ranks, is killed by SIGKILL at any instant. After a
// resume the job ends with the metrics of an undisturbed run.
func TestVisionKilled(t *testing.T) {
	t.Parallel()
	const n = 20
	const slow = "env.train.step_delay=5ms" // most instants then fall into steps
	kills, on := 1, []*platform{openmpi}
	if full {
		kills, on = 10, platforms
	}
	want := make([]metrics, len(visions))
	for job := range visions[:min(kills, len(visions))] {
		want[job] = see(t, local, t.TempDir(), job, placements[0], steps(n))
	}
	for _, on := range on {
		t.Run(on.name, func(t *testing.T) {
			on.program(t, ".") // or skip the test
			draw := rand.New(rand.NewPCG(3, uint64(len(on.name))))
			for kill := range kills {
				job, place := kill%len(visions), placements[(3+5*kill)%len(placements)]
				start := time.Now()
				see(t, on, t.TempDir(), job, place, steps(n), slow)
				at := time.Duration(draw.Float64() * float64(time.Since(start)))
				dir := t.TempDir()
				j := begin(t, on, dir, job, place, steps(n), slow)
				np, _ := place.place(2)
				whom := j.killAt(at, draw.IntN(2*np))
				t.Logf("%s, %s: killed %s after %v, in step %d", visions[job].name, place.name, whom,
					at.Round(time.Millisecond), len(readMetrics(t, filepath.Join(dir, "logs", "run")))+1)
				if diff := see(t, on, dir, job, place, steps(n), slow, "--resume", "auto").diff(want[job]); diff != "" {
					t.Errorf("%s, %s: not the metrics of the undisturbed run:\n%s", visions[job].name, place.name, diff)
				}
			}
		})
	}
}

// TestAdaptersOnWeights: adapters start from the weights of a whole model. The checkpoint has these weights, too.
func TestAdaptersOnWeights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	see(t, local, dir, 1, placements[0], steps(2), "actor.model.is_lora=false")
	weights := filepath.Join(dir, "logs", "run", "checkpoints", "global_step_2", "model.safetensors")
	for _, way := range []string{"actor.model.is_lora=true", "actor.model.freeze_trunk=true"} {
		dir := t.TempDir()
		see(t, local, dir, 1, placements[0], steps(2), "actor.model.is_lora=false", way, "runner.ckpt_path="+weights)
		want, got := readTensors(t, weights),
			readTensors(t, filepath.Join(dir, "logs", "run", "checkpoints", "global_step_2", "model.safetensors"))
		for _, name := range []string{"model.layers.1.mlp.down_proj.weight", "model.norm.weight"} {
			if !bytes.Equal(got.Must(name).Bytes(), want.Must(name).Bytes()) {
				t.Errorf("%s: %s is not that of the model it began with", way, name)
			}
		}
		if bytes.Equal(got.Must("slots").Bytes(), want.Must("slots").Bytes()) {
			t.Errorf("%s: nothing was trained", way)
		}
	}
}

func readTensors(t testing.TB, path string) tensor.Dict {
	t.Helper()
	d, _, err := tensor.ReadSafetensors([]byte(readFile(t, path)))
	test.OK(t, err)
	return d
}

// TestSeesWhileItTrains: rollouts of policies that see can be asynchronous.
func TestSeesWhileItTrains(t *testing.T) {
	t.Parallel()
	m := see(t, local, t.TempDir(), 0, placements[3], steps(4), "runner.async=true",
		"algorithm.loss_type=decoupled_actor_critic",
		"algorithm.staleness_threshold=2", "algorithm.reward_type=chunk_level")
	test.Equal(t, len(m), 4, "steps")
}
