package e2e

import (
	"slices"
	"strings"
	"testing"
)

// mistakes are mistakes on the command line and in the configuration, each with all messages of rlinf.
var mistakes = []struct {
	name string
	edit [2]string // in good: replace the first by the second
	args []string  // after -c job.yaml
	want string    // on standard error, a line each; "%" stands for any text
}{
	{name: "unknown key", edit: [2]string{"max_steps: 2", "max_steps: 2\n  max_stps: 2"},
		want: "job.yaml:9: runner.max_stps: unknown key, did you mean max_steps?"},
	{name: "unknown key on the command line", args: []string{"actor.optim.learning_rate=1"},
		want: "command line: actor.optim.learning_rate: unknown key%"},
	{name: "unknown section", edit: [2]string{"runner:", "runer:\n  a: 1\nrunner:"},
		want: "job.yaml:7: runer: unknown key, did you mean runner?"},
	{name: "imitation of nothing", args: []string{"algorithm.adv_type=embodied_bc", "algorithm.loss_type=embodied_bc"},
		want: "job.yaml%: algorithm.demo_buffer.load_path: not set: expected a file of demonstrations, as rlinf " +
			"demos writes it (loss_type embodied_bc)"},
	{name: "demonstrations that are not there",
		args: []string{"algorithm.adv_type=embodied_bc", "algorithm.loss_type=embodied_bc",
			"algorithm.demo_buffer.load_path=none"},
		want: "command line: algorithm.demo_buffer.load_path: none: expected demonstrations in CartPole-v1: open " +
			"none: no such file or directory: make it by rlinf demos -c FILE.yaml --out none, where the task has an " +
			"expert"},
	{name: "demonstrations for PPO", args: []string{"algorithm.demo_buffer.load_path=none"},
		want: "command line: algorithm.demo_buffer.load_path: none: expected none (loss_type actor_critic)"},
	{name: "labels of nobody",
		args: []string{"algorithm.adv_type=embodied_dagger", "algorithm.loss_type=embodied_dagger",
			"algorithm.replay_buffer.sample_window_size=1", "algorithm.replay_buffer.min_buffer_size=1"},
		want: "job.yaml:12: env.train.env_type: CartPole-v1: expected environments that have an expert (loss_type " +
			"embodied_dagger): CartPole-v1 has no expert (unsupported operation)"},
	{name: "labels of chunks",
		args: []string{"algorithm.adv_type=embodied_dagger", "algorithm.loss_type=embodied_dagger",
			"algorithm.replay_buffer.sample_window_size=1", "algorithm.replay_buffer.min_buffer_size=1",
			"actor.model.num_action_chunks=2"},
		want: "command line: actor.model.num_action_chunks: 2: expected 1 (loss_type embodied_dagger: experts say " +
			"what to do in a state, not what after it)"},
	{name: "word for a number", edit: [2]string{"max_steps: 2", "max_steps: many"},
		want: "job.yaml:8: runner.max_steps: many: expected a whole number"},
	{name: "fraction for a whole number", args: []string{"env.train.total_num_envs=8.5"},
		want: "command line: env.train.total_num_envs: 8.5: expected a whole number"},
	{name: "list for a number", edit: [2]string{"lr: 1.0e-3", "lr: [1, 2]"},
		want: "job.yaml:26: actor.optim.lr: %expected a number%"},
	{name: "map for a list", edit: [2]string{"hidden_sizes: [8]", "hidden_sizes: {a: 1}"},
		want: "job.yaml:24: actor.model.hidden_sizes: %expected a list%"},
	{name: "number for a truth value", args: []string{"runner.deterministic=2"},
		want: "command line: runner.deterministic: 2: expected true or false"},
	{name: "no duration", args: []string{"comm.stall_timeout=soon"},
		want: "command line: comm.stall_timeout: soon: expected a duration%"},
	{name: "value out of range", edit: [2]string{"update_epoch: 1", "gamma: 1.5"},
		want: "job.yaml:18: algorithm.gamma: 1.5: expected a number in [0, 1]"},
	{name: "no learning rate", edit: [2]string{"    lr: 1.0e-3\n", "    adam_eps: 1.0e-5\n"},
		want: "job.yaml:25: actor.optim.lr: not set: expected a number > 0"},
	{name: "several mistakes, told together", args: []string{"algorithm.gamma=2", "runner.max_stps=1",
		"actor.optim.lr=-1"},
		want: "command line: runner.max_stps: unknown key, did you mean max_steps?\n" +
			"command line: algorithm.gamma: 2: expected a number in [0, 1]\n" +
			"command line: actor.optim.lr: -1: expected a number > 0"},

	{name: "duplicate ranks", edit: [2]string{"actor: 0-1", "actor: 0,0-1"},
		want: `job.yaml:4: cluster.component_placement.actor: 0,0-1: expected every resource once and in ascending ` +
			`order, not "0-1" after 0`},
	{name: "descending ranks", edit: [2]string{"actor: 0-1", "actor: 1,0"},
		want: `job.yaml:4: cluster.component_placement.actor: 1,0: expected every resource once and in ascending ` +
			`order, not "0" after 1`},
	{name: "descending range", edit: [2]string{"actor: 0-1", "actor: 1-0"},
		want: `job.yaml:4: cluster.component_placement.actor: 1-0: expected a range that ascends, not "1-0"`},
	{name: "no ranks at all", edit: [2]string{"actor: 0-1", "actor: first"},
		want: `job.yaml:4: cluster.component_placement.actor: first: expected resources n, a-b or all, not "first"`},
	{name: "world too small", args: []string{"-np", "1"},
		want: `job.yaml:4: cluster.component_placement.actor: 0-1: expected resources 0..0, the ranks that were ` +
			`started (-np 1; the placement has 2), not "0-1"` + "\n" +
			`job.yaml:6: cluster.component_placement.rollout: 1: expected resources 0..0, the ranks that were ` +
			`started (-np 1; the placement has 2), not "1"`},
	{name: "world too large", args: []string{"-np", "4"},
		want: "job.yaml:3: cluster.component_placement: expected a component on every one of the 4 ranks, there is " +
			"none on 2, 3: " +
			"start fewer ranks, or set cluster.allow_idle_ranks"},
	{name: "component twice", edit: [2]string{"rollout: 1", "rollout: 1\n    env,rollout: 1"},
		want: `job.yaml:7: cluster.component_placement.env,rollout: expected component "env" once: it is placed above`},
	{name: "unknown component", edit: [2]string{"rollout: 1", "rollout: 1\n    rolout: 1"},
		want: "job.yaml:7: cluster.component_placement.rolout: rolout: expected one of actor, rollout, env, reward, " +
			"inference"},
	{name: "component without a place", edit: [2]string{"    rollout: 1\n", ""},
		want: "job.yaml:3: cluster.component_placement: expected a place for rollout, as 0-7 or all"},
	{name: "other number of nodes", args: []string{"cluster.num_nodes=2"},
		want: "command line: cluster.num_nodes: 2: expected 1, the nodes of this world"},

	{name: "batch that actors cannot share", args: []string{"actor.global_batch_size=16"},
		want: "command line: actor.global_batch_size: 16: expected a multiple of 32 (micro_batch_size 16 × 2 actors)"},
	{name: "batch that does not divide the samples", args: []string{"actor.global_batch_size=96"},
		want: "command line: actor.global_batch_size: 96: expected a divisor of the samples of an iteration, 64 (8 " +
			"steps × 8 environments)"},
	{name: "environments that actors cannot share", edit: [2]string{"total_num_envs: 8", "total_num_envs: 7"},
		want: "job.yaml:13: env.train.total_num_envs: 7: expected a multiple of 2 (2 actors)\n" +
			"job.yaml:21: actor.global_batch_size: 32: expected a divisor of the samples of an iteration, 56 (8 " +
			"steps × 7 environments)"},
	{name: "environments that stages cannot share", args: []string{"rollout.pipeline_stage_num=3"},
		want: "job.yaml:13: env.train.total_num_envs: 8: expected a multiple of 6 (1 env workers × " +
			"pipeline_stage_num 3; 1 rollout workers × pipeline_stage_num 3)"},
	{name: "saving between evaluations", args: []string{"runner.val_check_interval=2"},
		want: "job.yaml:9: runner.save_interval: 1: expected a multiple of 2 (val_check_interval)"},

	{name: "unknown environment", edit: [2]string{"CartPole-v1", "CartPol-v1"},
		want: `job.yaml:12: env.train.env_type: CartPol-v1: expected a known environment: unknown environment ` +
			`"CartPol-v1", did you mean CartPole-v1?%`},
	{name: "unknown policy", edit: [2]string{"mlp_policy", "mpl_policy"},
		want: "job.yaml:23: actor.model.model_type: mpl_policy: expected one of mlp_policy%"},
	{name: "unknown advantages", args: []string{"algorithm.adv_type=geometric"},
		want: "command line: algorithm.adv_type: geometric: expected one of gae, grpo, reinpp, embodied_sac, " +
			"embodied_crossq%"},
	{name: "unknown loss", args: []string{"algorithm.loss_type=lost"},
		want: "command line: algorithm.loss_type: lost: expected one of actor_critic, actor, decoupled_actor_critic, " +
			"a2c (with adv_type gae)"},
	{name: "replay buffer of unknown size",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true",
			"env.train.env_type=Pendulum-v1"},
		want: "job.yaml:17: algorithm.replay_buffer.sample_window_size: not set: expected a number of iterations > 0"},
	{name: "more critics in targets than there are",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true", "env.train.env_type=Pendulum-v1",
			"algorithm.replay_buffer.sample_window_size=200", "algorithm.critic_subsample_size=5"},
		want: "command line: algorithm.critic_subsample_size: 5: expected at most 2 (actor.model.num_q_heads)"},
	{name: "demonstrations in half a sample",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true",
			"env.train.env_type=Pendulum-v1", "algorithm.replay_buffer.sample_window_size=200",
			"algorithm.demo_buffer.load_path=none", "actor.micro_batch_size=1"},
		want: "command line: actor.micro_batch_size: 1: expected an even number (half of each batch is from " +
			"demo_buffer)"},
	{name: "replay buffer larger than memory",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true", "env.train.env_type=Pendulum-v1",
			"algorithm.replay_buffer.sample_window_size=1000000000"},
		want: "algorithm.replay_buffer.sample_window_size: 1000000000: expected at most %: the replay buffers of a " +
			"node take % MiB, and % has % MiB free"},
	{name: "replay buffer larger than any memory",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true", "env.train.env_type=Pendulum-v1",
			"algorithm.replay_buffer.sample_window_size=542551296285577047"},
		want: "algorithm.replay_buffer.sample_window_size: 542551296285577047: expected at most %: the replay " +
			"buffers of a node take 8796093022208.0 MiB, and % has % MiB free"},
	{name: "critics of continuous actions for discrete ones",
		args: []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
			"actor.model.add_q_head=true", "algorithm.replay_buffer.sample_window_size=200"},
		want: "command line: algorithm.loss_type: embodied_sac: expected an algorithm for CartPole-v1: this one " +
			"needs a policy with add_q_head, with " +
			"continuous actions (embodied_dqn is for discrete actions)"},
	{name: "values of single actions for ones in a box",
		args: []string{"algorithm.adv_type=embodied_dqn", "algorithm.loss_type=embodied_dqn",
			"actor.model.add_q_head=true", "algorithm.replay_buffer.sample_window_size=200",
			"env.train.env_type=Pendulum-v1"},
		want: "command line: algorithm.loss_type: embodied_dqn: expected an algorithm for Pendulum-v1: this one " +
			"needs a policy with add_q_head, whose " +
			"actions are discrete (embodied_sac is for continuous actions)"},
	{name: "sequences for a policy that remembers nothing", args: []string{"algorithm.sequence_length=4"},
		want: "command line: algorithm.sequence_length: 4: expected 0 (model_type mlp_policy remembers nothing)"},
	{name: "sequences that do not divide the steps", edit: [2]string{"mlp_policy", "rnn_policy\n    share_trunk: true"},
		args: []string{"algorithm.sequence_length=3"},
		want: "command line: algorithm.sequence_length: 3: expected a divisor of 8 (steps of an iteration)"},
	{name: "batch that sequences do not divide", edit: [2]string{"mlp_policy", "rnn_policy\n    share_trunk: true"},
		args: []string{"actor.micro_batch_size=4"},
		want: "command line: actor.micro_batch_size: 4: expected a multiple of 8 (steps of a sequence)"},
	{name: "two trunks with one memory", edit: [2]string{"mlp_policy", "rnn_policy"},
		want: "job.yaml:22: actor.model.share_trunk: not set: expected true (rnn_policy: actor and critic share the " +
			"hidden state)"},
	{name: "a memory for single steps", edit: [2]string{"mlp_policy", "rnn_policy\n    share_trunk: true"},
		args: []string{"algorithm.adv_type=embodied_sac",
			"algorithm.loss_type=embodied_sac", "algorithm.replay_buffer.sample_window_size=200",
			"env.train.env_type=Pendulum-v1"},
		want: "job.yaml:23: actor.model.model_type: rnn_policy: expected mlp_policy (loss_type embodied_sac learns " +
			"from single steps, not from sequences)"},
	{name: "a memory for demonstrations", edit: [2]string{"mlp_policy", "rnn_policy\n    share_trunk: true"},
		args: []string{"algorithm.adv_type=embodied_bc",
			"algorithm.loss_type=embodied_bc", "algorithm.demo_buffer.load_path=demos.safetensors"},
		want: "command line: algorithm.loss_type: embodied_bc: expected an algorithm for CartPole-v1: this one needs " +
			"a policy without a hidden state (demonstrations are single steps)"},
	{name: "element that is not observed", args: []string{"env.train.state_elements=[0,4]"},
		want: "job.yaml:12: env.train.env_type: CartPole-v1: expected environments that can be made: CartPole-v1: " +
			"state_elements [0 4]: element 4, expected some of 0 to 3, each once"},
	{name: "critics of actions for PPO", args: []string{"actor.model.add_q_head=true"},
		want: "command line: actor.model.add_q_head: true: expected false (loss_type actor_critic)%"},
	{name: "unknown schedule", args: []string{"actor.optim.lr_scheduler=step"},
		want: "command line: actor.optim.lr_scheduler: step: expected constant, linear or cosine"},
	{name: "key of RLinf without effect here, strictly", args: []string{"rollout.enable_offload=true", "--strict"},
		want: "command line: rollout.enable_offload: true: known, but without effect here"},

	{name: "staleness without a run to have it", args: []string{"algorithm.staleness_threshold=1"},
		want: "command line: algorithm.staleness_threshold: 1: expected no bound without runner.async"},
	{name: "staleness without a bound", args: []string{"runner.async=true"},
		want: "job.yaml:17: algorithm.staleness_threshold: -1 (the default): expected at least 0 " +
			"(runner.weight_sync_interval - 1): how many iterations a rollout may lie behind"},
	{name: "staleness that no rollout keeps", args: []string{"runner.async=true", "runner.weight_sync_interval=3",
		"algorithm.staleness_threshold=1",
		"algorithm.adv_type=embodied_dqn", "algorithm.loss_type=embodied_dqn", "actor.model.add_q_head=true",
		"algorithm.replay_buffer.sample_window_size=200"},
		want: "command line: algorithm.staleness_threshold: 1: expected at least 2 (runner.weight_sync_interval - " +
			"1): how many iterations a rollout may lie behind"},
	{name: "a2c while rollouts are made", args: []string{"runner.async=true", "algorithm.staleness_threshold=1",
		"algorithm.loss_type=a2c", "actor.global_batch_size=64"},
		want: "command line: algorithm.loss_type: a2c: expected another with runner.async (a2c is right for samples " +
			"of the present policy alone)"},
	{name: "imitation while rollouts are made", args: []string{"runner.async=true", "algorithm.staleness_threshold=0",
		"algorithm.adv_type=embodied_bc",
		"algorithm.loss_type=embodied_bc", "algorithm.demo_buffer.load_path=demos.safetensors"},
		want: "command line: runner.async: true: expected false (loss_type embodied_bc makes no rollouts)"},
	{name: "rewards of others while rollouts are made", edit: [2]string{"rollout: 1", "rollout: 1\n    reward: 1"},
		args: []string{"runner.async=true", "algorithm.staleness_threshold=1"},
		want: "job.yaml:7: cluster.component_placement.reward: expected no such component with runner.async"},
	{name: "several rollout workers for an environment's", edit: [2]string{"rollout: 1", "rollout: 0-1"},
		args: []string{"runner.async=true", "algorithm.staleness_threshold=1"},
		want: "job.yaml:3: cluster.component_placement: expected with runner.async as many env workers as rollout " +
			"workers, or a multiple: there are 1 and 2"},
	{name: "longest step below the shortest",
		args: []string{"env.train.step_delay=2ms", "env.train.step_delay_max=1ms"},
		want: "command line: env.train.step_delay_max: 1ms: expected at least 2ms (step_delay), or 0"},
	{name: "longest step that is negative", args: []string{"env.train.step_delay=0s", "env.train.step_delay_max=-1ms"},
		want: "command line: env.train.step_delay_max: -1ms: expected at least 0s (step_delay), or 0"},

	{name: "log path below a file", args: []string{"runner.logger.log_path=job.yaml/logs"},
		want: "command line: runner.logger.log_path: job.yaml/logs/job: expected a folder that can be written: write " +
			"in job.yaml: not a directory"},
	{name: "log path where nobody may write", args: []string{"runner.logger.log_path=/proc/logs"},
		want: "command line: runner.logger.log_path: /proc/logs/job: expected a folder that can be written: write " +
			"in /proc: no such file or directory"},
	{name: "run folder outside the log path", args: []string{"runner.logger.experiment_name=../other"},
		want: "command line: runner.logger.experiment_name: ../other: expected the name of a folder below log_path"},
	{name: "checkpoint that is not there", args: []string{"--resume", "logs/job/checkpoints/global_step_9"},
		want: "checkpoint logs/job/checkpoints/global_step_9: %no such file or directory"},
	{name: "weights that are not there", args: []string{"runner.ckpt_path=model.safetensors"},
		want: "runner.ckpt_path: open model.safetensors: no such file or directory"},
	{name: "profile that cannot be written", args: []string{"--cpu-profile", "nowhere/profile"},
		want: "--cpu-profile nowhere/profile-rank-0.pprof: open nowhere/profile-rank-0.pprof: no such file or " +
			"directory"},
	{name: "address without a port", args: []string{"--pprof", "localhost"},
		want: `--pprof "localhost": expected HOST:PORT, as localhost:6060`},

	{name: "camera that there is not",
		args: []string{"runner.val_check_interval=1", "env.eval.video_cfg={save_video: true, camera: top}"},
		want: `command line: env.eval.video_cfg: expected a view that can be drawn: CartPole-v1: camera "top"%`},
	{name: "films below a file",
		args: []string{"runner.val_check_interval=1",
			"env.eval.video_cfg={save_video: true, video_base_dir: job.yaml/films}"},
		want: "command line: env.eval.video_cfg.video_base_dir: job.yaml/films: expected a folder that can be " +
			"written: write in job.yaml: not a directory"},
	{name: "films where nobody may write",
		args: []string{"runner.val_check_interval=1", "env.eval.video_cfg={save_video: true, video_base_dir: /proc}"},
		want: "command line: env.eval.video_cfg.video_base_dir: /proc: expected a folder that can be written: write " +
			"in /proc: no such file or directory"},
	{name: "film without a picture", args: []string{"runner.val_check_interval=1", "env.eval.video_cfg.num_envs=0"},
		want: "command line: env.eval.video_cfg.num_envs: 0: expected a number from 1 to 256"},

	{name: "unknown flag", args: []string{"--fast"}, want: "unknown flag --fast: rlinf --help lists the flags"},
	{name: "flag without its value", args: []string{"--resume"},
		want: "--resume: expected a value (continue from a checkpoint: %"},
	{name: "argument that is no setting", args: []string{"runner.max_steps"},
		want: `argument "runner.max_steps": expected key=value (or a command: rlinf help lists them)`},
	{name: "setting without a key", args: []string{"=3"},
		want: "command line: =3: expected key=value with a dotted key, as runner.max_epochs=10"},
	{name: "no ranks", args: []string{"-np", "0"}, want: "-np 0: expected a number from 1 to 65536"},
	{name: "no number of ranks", args: []string{"-np", "two"},
		want: `-np two: expected a whole number (ranks to start without a launcher)`},
}

// TestMistakes makes one mistake after another in a good job. The exit code is 2, every mistake is reported once, with
// its place and what would be valid, and no file is created or changed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range mistakes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := strings.Replace(good, c.edit[0], c.edit[1], 1)
			if c.edit[0] != "" && text == good {
				t.Fatalf("nothing to edit: %q", c.edit[0])
			}
			writeFile(t, dir, "job.yaml", text)
			refused(t, local, dir, 0, c.want, slices.Concat([]string{"-c", "job.yaml"}, c.args)...)
		})
	}
	t.Run("none", func(t *testing.T) { // the job without a mistake is not refused
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", good)
		local.ok(t, dir, 0, "-c", "job.yaml")
	})
}
