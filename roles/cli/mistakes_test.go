package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// manyMistakes are configurations with several mistakes each: in names, values, types, keys, the placement and the
// batch arithmetic. Every command finds values. Commands that begin a job on np ranks also find world.
var manyMistakes = []struct {
	overrides, np string
	values, world []string
}{
	{"actor.model.model_type=mpl_policy algorithm.gamma=1.5 actor.optim.lr=fast", "4", []string{
		"actor.optim.lr: fast: expected a number",
		"actor.model.model_type: mpl_policy: expected one of mlp_policy, cnn_policy, rnn_policy, vla_policy",
		"algorithm.gamma: 1.5: expected a number in [0, 1]",
	}, []string{
		"cluster.component_placement.actor: 0-7: expected resources 0..3, the ranks that were started (-np 4; the " +
			"placement has 8), not \"0-7\"",
		"cluster.component_placement.rollout: 4-7: expected resources 0..3, the ranks that were started (-np 4; the " +
			"placement has 8), not \"4-7\"",
	}},
	{"env.train.env_type=CartPol-v1 actor.global_batch_size=500 runner.max_epoch=3", "", []string{
		"runner.max_epoch: unknown key, did you mean max_epochs?",
		"env.train.env_type: CartPol-v1: expected a known environment: unknown environment \"CartPol-v1\", did you " +
			"mean CartPole-v1?%",
	}, []string{
		"actor.global_batch_size: 500: expected a multiple of 512 (micro_batch_size 64 × 8 actors) that divides the " +
			"samples of an iteration, 8192 (128 steps × 64 environments)",
	}},
	{"algorithm.adv_type=grop algorithm.filter_rewards=true algorithm.clip_ratio_high=0 env.eval.total_num_envs=6", "",
		[]string{
			"algorithm.clip_ratio_high: 0: expected a number > 0",
			"algorithm.adv_type: grop: expected one of gae, grpo, reinpp,%",
		}, []string{
			"env.eval.total_num_envs: 6: expected a multiple of 4 (4 env workers; 4 rollout workers)",
		}},
	{"algorithm.loss_type=lost actor.model.add_q_head=true cluster.component_placement.env=3-0 runner.deterministic=2",
		"", []string{
			"runner.deterministic: 2: expected true or false",
			"algorithm.loss_type: lost: expected one of actor_critic,%",
		}, []string{
			"cluster.component_placement.env: 3-0: expected a range that ascends, not \"3-0\"",
		}},
	{"+cluster.component_placement.reward=9 reward.reward_type=sucess reward.reward_mode=now " +
		"env.train.total_num_envs=-1", "", []string{
		"reward.reward_mode: now: expected per_step or terminal",
		"reward.reward_type: sucess: expected one of env, success, potential",
		"env.train.total_num_envs: -1: expected a number from 1 to 1048576",
	}, []string{"cluster.component_placement: expected a component on every one of the 10 ranks, there is none on 8: " +
		"start fewer ranks, or set cluster.allow_idle_ranks"}},
	{"~cluster.component_placement.rollout +cluster.component_placement.rolout=4-7 actor.micro_batch_size=[1] " +
		"env.eval.env_type=Pendulum", "", []string{
		"actor.micro_batch_size: a list: expected a whole number",
		"cluster.component_placement.rolout: rolout: expected one of actor, rollout, env, reward, inference",
		"env.eval.env_type: Pendulum: expected a known environment: unknown environment \"Pendulum\", did you mean " +
			"Pendulum-v1?%",
	}, nil},
	{"cluster.component_placement.actor=first env.train.total_num_envs=63 runner.max_time=soon " +
		"actor.model.activation=gelu", "", []string{
		"runner.max_time: soon: expected a duration%",
		"actor.model.activation: gelu: expected tanh or relu",
	}, []string{
		"cluster.component_placement.actor: first: expected resources n, a-b or all, not \"first\"",
		"env.train.total_num_envs: 63: expected a multiple of 2 (pipeline_stage_num 2)",
		"actor.global_batch_size: 512: expected a divisor of the samples of an iteration, 8064 (128 steps × 63 " +
			"environments)",
	}},
	{"algorithm.adv_type=embodied_sac algorithm.loss_type=embodied_sac env.train.auto_reset=false algorithm.tau=2 " +
		"runner.seed=-3", "9", []string{
		"runner.seed: -3: expected a whole number ≥ 0",
	}, []string{
		"algorithm.tau: 2: expected %",
		"algorithm.replay_buffer.sample_window_size: %",
		"actor.model.add_q_head: %: expected true (loss_type embodied_sac)",
		"env.train.auto_reset: false: expected true (loss_type embodied_sac)",
		"cluster.component_placement: expected a component on every one of the 9 ranks, there is none on 8: %",
	}},
	{"runner.async=true algorithm.group_size=two env.train.group_size=4 rollout.pipeline_stage_nun=2 " +
		"comm.table=nowhere.json", "", []string{
		"algorithm.group_size: two: expected a whole number",
		"rollout.pipeline_stage_nun: unknown key, did you mean pipeline_stage_num?",
	}, []string{
		"algorithm.staleness_threshold: %: expected at least 0%",
		"comm.table: expected a table that can be read: table of algorithms: open nowhere.json: no such file or " +
			"directory",
	}},
	{"actor.model.num_action_chunks=0 cluster.node_groups=[{\"label\":\"node\",\"node_ranks\":\"0\"}] " +
		"env.train.frame_stack=many algorithm.loss_type=actr actor.model.hiden_sizes=[8]", "", []string{
		"env.train.frame_stack: many: expected a whole number",
		"actor.model.hiden_sizes: unknown key, did you mean hidden_sizes?",
		"cluster.node_groups.0.label: %",
		"actor.model.num_action_chunks: 0: expected a number ≥ 1",
		"algorithm.loss_type: actr: expected one of actor_critic,%",
	}, nil},
}

// TestManyMistakes: every way to begin a job ends with exit code 2, and reports each mistake once, in one message.
func TestManyMistakes(t *testing.T) {
	for _, c := range manyMistakes {
		args := append([]string{"-c", rolestest.Cartpole}, strings.Fields(c.overrides)...)
		np := args
		if c.np != "" {
			np = append([]string{"-np", c.np}, args...)
		}
		for _, command := range [][]string{np, append([]string{"check"}, np...),
			append([]string{"sweep", "--seeds", "2"}, np...), append([]string{"eval"}, args...)} {
			want := slices.Clone(c.values)
			if command[0] != "eval" {
				want = append(want, c.world...)
			}
			code, _, stderr := run(t, command...)
			stderr, verdict, _ := strings.Cut(stderr, "\nverdict: ")
			if command[0] == "check" != strings.HasPrefix(verdict, "does not run: ") {
				t.Errorf("rlinf %s: verdict %q", strings.Join(command, " "), verdict)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			slices.Sort(want)
			for i, line := range lines { // without what stands first: the file or the command line
				_, lines[i], _ = strings.Cut(line, ": ")
			}
			slices.Sort(lines)
			matches := func(line, want string) bool {
				parts := strings.Split(want, "%")
				return strings.HasPrefix(line, parts[0]) &&
					(len(parts) == 1 && line == want || len(parts) > 1 && strings.HasSuffix(line, parts[len(parts)-1]))
			}
			if code != loop.ExitConfig || !slices.EqualFunc(lines, want, matches) {
				t.Errorf("rlinf %s: exit code %d\ngot\n  %s\nwant\n  %s", strings.Join(command, " "), code,
					strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
			}
		}
	}
}

// TestStagesTogether: a message has both the mistakes in values and the mistakes that are found when parts are made.
func TestStagesTogether(t *testing.T) {
	const (
		batch  = "actor.global_batch_size: 500: expected a multiple of 512"
		policy = "actor.model.obs_dim: expected a value that fits: 7, but the observations have 4 elements"
		file   = "defaults: env/nowhere: no such preset"
	)
	job := filepath.Join(t.TempDir(), "job.yaml")
	text := readFile(t, rolestest.Cartpole)
	test.OK(t, os.WriteFile(job, append([]byte("defaults: [env/nowhere@env.train]\n"), text...), 0o666))
	for _, command := range []string{"", "check"} {
		args := append(strings.Fields(command), "-c", job, "actor.global_batch_size=500", "actor.model.obs_dim=7")
		code, _, stderr := run(t, args...)
		stderr, _, _ = strings.Cut(stderr, "\nverdict: ")
		for _, want := range []string{batch, policy, file} {
			if strings.Count(stderr, want) != 1 || code != loop.ExitConfig {
				t.Errorf("rlinf %s: exit code %d, want %q once\n%s", strings.Join(args, " "), code, want, stderr)
			}
		}
	}
}
