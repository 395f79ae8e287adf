package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/reward/frames"
	"github.com/rlinf/rlinf/tensor"
)

// squares is the program of tasks with images, or with goals.
const squares = "./internal/e2e/testdata/squares"

// trunk is the file with the weights of a frozen ResNet-10.
const trunk = "resnet10.safetensors"

const demonstrations = "algorithm.demo_buffer.load_path=demos.safetensors"

// robots are jobs that learn from a replay buffer: from images, from demonstrations, and from goals that hindsight
// replaces. The last job learns what success looks like. Each has so many replicas.
func robots(replicas int) []*nomad {
	const common = `
env:
  train: {env_type: Squares-v0, total_num_envs: 8, max_steps_per_rollout_epoch: 6, step_delay: 1ms}
  eval: {total_num_envs: 4, max_steps_per_rollout_epoch: 12}
algorithm: {update_epoch: 2, n_step: 2, replay_buffer: {sample_window_size: 3, min_buffer_size: 1}}
actor:
  micro_batch_size: 4
  global_batch_size: 16
  optim: {lr: 1.0e-3}
  model: {model_type: mlp_policy, hidden_sizes: [8], add_q_head: true, add_value_head: false}
`
	by := func(algorithm string, more ...string) []string {
		return append(more, "algorithm.adv_type="+algorithm, "algorithm.loss_type="+algorithm)
	}
	pixels := func(args ...string) []string {
		return append(args, "actor.model.model_type=cnn_policy", "actor.model.encoder=keypoints",
			"actor.enable_drq=true")
	}
	goals := func(task string, args ...string) []string {
		return append(args, "env.train.env_type="+task,
			"algorithm.replay_buffer.hindsight.goal_selection_strategy=future")
	}
	players := map[string]int{"actor": replicas, "env": 2, "rollout": 2}
	job := func(name string, args []string) *nomad {
		return &nomad{name: name, program: squares, yaml: common, members: players, args: args}
	}
	const noise = "actor.model.exploration_noise=0.2"
	crossq := []string{"actor.model.q_head_type=crossq"}
	return []*nomad{
		job("SAC", pixels(by("embodied_sac", "actor.model.num_q_heads=3", "algorithm.critic_subsample_size=2")...)),
		job("RLPD", pixels(by("embodied_sac", "actor.model.layer_norm=true", demonstrations)...)),
		job("a person", pixels(by("embodied_sac", "env.train.person.share=0.5",
			"algorithm.demo_buffer.sample_window_size=2")...)),
		job("CrossQ", pixels(by("embodied_crossq", crossq...)...)),
		job("TD3", pixels(by("embodied_td3", noise, "algorithm.target_update_type=q_head_only")...)),
		job("IQL", pixels(by("offline_iql", demonstrations, "algorithm.n_step=1")...)),
		job("hindsight by DQN", goals("BitFlip-v1", by("embodied_dqn", "env.train.init_params={bits: 4}")...)),
		job("hindsight by SAC", goals("Reach-v0", by("embodied_sac")...)),
		job("hindsight by TD3", goals("Reach-v0", by("embodied_td3", noise)...)),
		job("hindsight by CrossQ", goals("Reach-v0", by("embodied_crossq", crossq...)...)),
		job("a frozen trunk", by("embodied_sac", "actor.model.model_type=cnn_policy", "actor.model.backbone=resnet",
			"actor.model.model_path=trunk", "actor.model.encoder_config.ckpt_name="+trunk)),
		{name: "a classifier", program: squares, members: map[string]int{"actor": replicas},
			args: []string{"++runner.save_interval=4"}, yaml: `
runner: {task_type: sft}
data: {train_data_paths: train.safetensors, val_data_paths: train.safetensors}
actor:
  micro_batch_size: 2
  global_batch_size: 4
  model: {model_type: resnet, pretrained: false, hidden_dim: 4, image_size: [3, 32, 32], dropout: 0.3}
  optim: {lr: 1.0e-3}
`},
	}
}

func isDemos(arg string) bool { return arg == demonstrations }

// supply writes the files that the job of a robot reads.
func (c camp) supply(t testing.TB) {
	t.Helper()
	if args := slices.DeleteFunc(slices.Clone(c.args), isDemos); len(args) < len(c.args) {
		args = append([]string{"demos", "-c", "job.yaml", "--episodes", "6", "--all", "--noise", "1", steps(1)},
			args...)
		r := local.startProgram(t, local.program(t, c.program), c.dir, 0, args...).result()
		test.Equal(t, r.code, 0, "%s%s", r.stdout, r.stderr)
	}
	if slices.Contains(c.args, "actor.model.model_path=trunk") {
		test.OK(t, os.Symlink(resnettest.Folder(t, trunk), filepath.Join(c.dir, "trunk")))
	}
	if strings.Contains(c.yaml, "train.safetensors") {
		s := frames.Set{Images: tensor.New(tensor.U8, 9, 8, 8, 3), Labels: []byte{1, 0, 0, 1, 0, 0, 1, 0, 0}}
		for i := range s.Images.U8() {
			s.Images.U8()[i] = byte(i * i % 251)
		}
		test.OK(t, s.Write(filepath.Join(c.dir, "train.safetensors"), nil))
	}
}

// TestRobotsLearnTheSame: jobs of robots have the same metrics and the same last checkpoint in every placement and on
// every transport, after SIGKILL and a resume, and when their members move again and again.
func TestRobotsLearnTheSame(t *testing.T) {
	t.Parallel()
	const n, places = 8, 4
	for replicas := 1; replicas <= 2; replicas++ {
		for i, robot := range robots(replicas) {
			if !full && (replicas != 1+i%2 || strings.Contains(robot.yaml, "sft")) {
				continue // roles/classifier tests placements and a resume
			}
			t.Run(fmt.Sprintf("%s, %d replicas", robot.name, replicas), func(t *testing.T) {
				t.Parallel()
				draw := draws(t, i)
				c := newCamp(t, robot)
				c.supply(t)
				began := time.Now()
				same := c.settle(t, robot.place(draw), steps(n))
				lasted := time.Since(began)
				for p, on := range platforms {
					if !full && p != (i+replicas)%3 {
						continue
					}
					t.Run(on.name, func(t *testing.T) {
						on.program(t, robot.program) // or skip the test
						for k := range places {
							if place := robot.place(draw); full || k == 0 && i%3 != 0 {
								run := fmt.Sprint(on.name, k)
								r := c.start(t, on, run, place, steps(n)).result()
								test.Equal(t, r.code, 0, "%s%s", r.stdout, r.stderr)
								same(t, run)
							}
						}
						if run := on.name + "moves"; full || i%3 == 0 {
							start := robot.place(draw)
							j := c.start(t, on, run, start, steps(n))
							c.wander(j, run, start, draw).end(t, j, 1)
							same(t, run)
						}
						if run := on.name + "killed"; full || i%3 == 1 {
							start := robot.place(draw)
							j := c.start(t, on, run, start, steps(n))
							t.Log("killed ", j.killAt(time.Duration(draw.Float64()*float64(lasted)), draw.IntN(4)))
							r := c.start(t, on, run, robot.place(draw), steps(n), "--resume", "auto").result()
							test.Equal(t, r.code, 0, "%s%s", r.stdout, r.stderr)
							same(t, run)
							verified(t, robot.program, c.dir, c.folder(run))
						}
					})
				}
			})
		}
	}
}
