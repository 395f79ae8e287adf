package plan

import (
	"strings"
	"testing"

	yamlconfig "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
)

// newTestDraft returns a draft with these numbers of workers of the components.
func newTestDraft(c *config.Config, actors, rollouts, envs int) *Draft {
	return &Draft{Plan: &Plan{Job: &job.Job{Config: c}, Learning: rolestest.Registries().Learning(c), Actors: actors,
		rollouts: rollouts, simulators: envs},
		found: c.Findings()}
}

// newPlan makes the plan of a configuration.
func newPlan(c *config.Config, reg config.Registries, nodes []int) (*Plan, error) {
	return NewDraft(c, reg, nodes).Complete(c, reg)
}

// countErrors returns all mistakes of a job with these numbers of workers of the components.
func countErrors(c *config.Config, actors, rollouts, envs int) error {
	d := newTestDraft(c, actors, rollouts, envs)
	d.checkCounts()
	return d.found.Err()
}

func TestRLinfStyleFile(t *testing.T) {
	t.Setenv("EMBODIED_PATH", "/nowhere")
	c, warnings := rolestest.MustLoad(t, "../config/testdata/maniskill_like.yaml")
	autoReset := []string{"keys without effect here", "  THESE CHANGE WHAT IS LEARNT OR MEASURED:",
		"    env.eval.auto_reset  true  ../config/testdata/maniskill_like.yaml:73  an environment plays " +
			"rollout_epoch episodes, one after the other"}
	speed := []string{"  these change speed, memory or what is written:",
		"    env.train.video_cfg.info_on_video  true  ../config/testdata/maniskill_like.yaml:70"}
	rolestest.Expect(t, "warnings", warnings, append(autoReset, speed...)...)
	const compressed = "weight_syncer.patch.compression=nvcomp_lz4"
	_, warnings = rolestest.MustLoad(t, "../config/testdata/maniskill_like.yaml", compressed)
	rolestest.Expect(t, "warnings", warnings, append(autoReset, speed[0],
		"    env.train.video_cfg.info_on_video  true        ../config/testdata/maniskill_like.yaml:70",
		"    weight_syncer.patch.compression    nvcomp_lz4  command line")...)
	for _, v := range []struct {
		what      string
		got, want any
	}{
		{"env", c.Env.Train.ID(), "PickCube-v1"},
		{"train steps, from the preset", c.Env.Train.MaxStepsPerRolloutEpoch, 50},
		{"train auto_reset, over the preset", c.Env.Train.AutoReset, true},
		{"eval environments, int_div", c.Env.Eval.TotalNumEnvs, 32},
		{"batch, multiply", c.Actor.GlobalBatchSize, 6400},
		{"value_lr", c.Actor.Optim.ValueLR, float32(3e-4)},
		{"clip_ratio_c", c.Algorithm.ClipRatioC, float32(3)},
		{"resume_dir, null", c.Runner.ResumeDir, ""},
		{"weight_syncer.type, from the preset", c.WeightSyncer.Type, config.WeightSyncPatch},
	} {
		test.Equal(t, v.got, v.want, "%s", v.what)
	}
	test.Check(t, countErrors(c, 1, 1, 1))
	if _, _, err := config.Load(rolestest.Registries(), "../config/testdata/maniskill_like.yaml",
		[]string{compressed, "weight_syncer.use_ring_sync=true"}, true); len(yamlconfig.FieldErrors(err)) != 4 {
		t.Errorf("strict: %v, want an error for each key", err)
	}
}

func TestBadConfigIsReportedWhole(t *testing.T) {
	c, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, []string{
		"cluster.num_node=1", "cluster.component_placement={critic: 0, actor: ''}",
		"runner.logger.experiment_name=../x", "runner.logger.logger_backends=[tensorbord]",
		"runner.max_epochs=-1", "runner.save_interval=15", "runner.weight_sync_interval=0", "algorithm.gamma=1.5",
		"algorithm.entropy_type=word_level",
		"algorithm.reward_type=sum", "actor.model.activation=gelu", "actor.model.add_value_head=false",
		"actor.optim.lr=fast", "rollout.pipeline_stage_num=0",
		"comm.reduce=tree", "comm.stall_timeout=1ms", "env.train.total_num_envs=0", "env.eval.reward_coef=0",
		"actor.micro_batch_size=0",
		"runner.task_type=embodid", "cluster.node_groups=[{label: node, node_ranks: 3-1}]", "algorithm.adv_typ=gae",
		"runner.keep_checkpoints=-1",
	}, false)
	if c == nil {
		t.Fatal("no configuration beside the errors")
	}
	rolestest.Expect(t, "errors", rolestest.ErrorLines(err),
		"command line: cluster.num_node: unknown key, did you mean num_nodes?",
		"command line: cluster.node_groups.0.node_ranks: 3-1: expected ranks, as 3, 0-3 or [0, 2]",
		"command line: algorithm.adv_typ: unknown key, did you mean adv_type?",
		"command line: actor.optim.lr: fast: expected a number",
		"command line: runner.task_type: embodid: expected embodied, embodied_eval, sft or reasoning, did you mean "+
			"embodied?",
		`command line: cluster.component_placement.actor: "": expected a placement, as 0-7 or all`,
		"command line: cluster.component_placement.critic: critic: expected one of actor, rollout, env, reward, "+
			"inference",
		"command line: cluster.node_groups.0.label: node: expected a name other than cluster and node",
		"command line: comm.stall_timeout: 1ms: expected at least 100ms, or 0 for ever",
		"command line: comm.reduce: tree: expected ordered or fast",
		"command line: runner.logger.experiment_name: ../x: expected the name of a folder below log_path",
		"command line: runner.logger.logger_backends: tensorbord: expected tensorboard, or an empty list",
		"command line: runner.max_epochs: -1: expected a number ≥ 0, here or in max_steps, or a max_time",
		"command line: runner.save_interval: 15: expected a multiple of 10 (val_check_interval)",
		"command line: runner.keep_checkpoints: -1: expected a number > 0, or 0 to keep all",
		"command line: runner.weight_sync_interval: 0: expected a number > 0",
		"command line: rollout.pipeline_stage_num: 0: expected a number > 0",
		"command line: actor.model.activation: gelu: expected tanh or relu",
		"command line: algorithm.gamma: 1.5: expected a number in [0, 1]",
		"command line: algorithm.entropy_type: word_level: expected chunk_level, action_level or token_level",
		"command line: algorithm.reward_type: sum: expected chunk_level or action_level",
		"command line: actor.model.add_value_head: false: expected true (loss_type actor_critic)",
		"command line: actor.micro_batch_size: 0: expected a number > 0",
		"command line: env.train.total_num_envs: 0: expected a number from 1 to 1048576",
		"command line: env.eval.reward_coef: 0: expected a number other than 0",
	)
	before := len(yamlconfig.FieldErrors(err))
	d := newTestDraft(c, 8, 4, 4)
	d.found.Problem("env.train.env_type", c.Env.Train.EnvType, "another one")
	d.checkCounts()
	if got := len(yamlconfig.FieldErrors(d.found.Err())); got != before+1 {
		t.Errorf("%d errors in a world, want the %d before and the one of problem:\n%v", got, before, d.found.Err())
	}
	if got := len(yamlconfig.FieldErrors(c.Err())); got != before {
		t.Errorf("%d errors of the configuration after the job's checks, want the %d before", got, before)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		overrides              []string
		actors, rollouts, envs int
		want                   []string
	}{
		{"fits", nil, 8, 4, 4, nil},
		{"fits one rank", nil, 1, 1, 1, nil},
		{"environments of train, and of eval", []string{"env.train.total_num_envs=60", "env.eval.total_num_envs=4"}, 8,
			4, 4, []string{
				"command line: env.train.total_num_envs: 60: expected a multiple of 8 (4 env workers × " +
					"pipeline_stage_num 2; 4 rollout workers × pipeline_stage_num 2; 8 actors)",
			}},
		{"eval from train is said once", []string{"~env.eval"}, 8, 3, 4, []string{
			"../config/testdata/cartpole.yaml:16: env.train.total_num_envs: 64: expected a multiple of 24 (3 rollout " +
				"workers × pipeline_stage_num 2)",
		}},
		{"groups", []string{"algorithm.group_size=16", "env.eval.group_size=16"}, 8, 4, 4, []string{
			"../config/testdata/cartpole.yaml:16: env.train.total_num_envs: 64: expected a multiple of 128 (4 env " +
				"workers × pipeline_stage_num 2 × group_size 16; 8 actors × group_size 16)",
			"../config/testdata/cartpole.yaml:19: env.eval.total_num_envs: 16: expected a multiple of 64 (4 env " +
				"workers × group_size 16)",
		}},
		{"batch and micro-batch", []string{"actor.global_batch_size=500"}, 4, 4, 4, []string{
			"command line: actor.global_batch_size: 500: expected a multiple of 256 (micro_batch_size 64 × 4 actors) " +
				"that divides the samples of an iteration, 8192 (128 steps × 64 environments)",
		}},
		{"micro-batch", []string{"actor.micro_batch_size=96"}, 8, 4, 4, []string{
			"../config/testdata/cartpole.yaml:25: actor.global_batch_size: 512: expected a multiple of 768 " +
				"(micro_batch_size 96 × 8 actors)",
		}},
		{"batch", []string{"env.train.max_steps_per_rollout_epoch=124", "env.train.rollout_epoch=3"}, 8, 4, 4, []string{
			"../config/testdata/cartpole.yaml:25: actor.global_batch_size: 512: expected a divisor of the samples of " +
				"an iteration, 23808 (372 steps × 64 environments)",
		}},
		{"chunks are samples", []string{"actor.model.num_action_chunks=32"}, 8, 4, 4, []string{
			"../config/testdata/cartpole.yaml:20: env.eval.max_steps_per_rollout_epoch: 500: expected a multiple of " +
				"32 (num_action_chunks)",
			"../config/testdata/cartpole.yaml:25: actor.global_batch_size: 512: expected a divisor of the samples of " +
				"an iteration, 256 (4 steps × 64 environments)",
		}},
		{"too many environments", []string{"env.train.total_num_envs=9007199254740992"}, 8, 4, 4, []string{
			"command line: env.train.total_num_envs: 9007199254740992: expected a number from 1 to 1048576",
		}},
		{"absurd numbers", []string{"actor.micro_batch_size=4611686018427387904",
			"rollout.pipeline_stage_num=4611686018427387904"}, 8, 4, 4, []string{
			"../config/testdata/cartpole.yaml:16: env.train.total_num_envs: 64: expected a multiple of " +
				"9223372036854775807 (4 env workers × pipeline_stage_num 4611686018427387904; 4 rollout workers × " +
				"pipeline_stage_num 4611686018427387904)",
			"../config/testdata/cartpole.yaml:25: actor.global_batch_size: 512: expected a multiple of " +
				"9223372036854775807 (micro_batch_size 4611686018427387904 × 8 actors)",
		}},
	} {
		c, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, tc.overrides, false)
		if c == nil {
			t.Fatal(err)
		}
		rolestest.Expect(t, tc.name, rolestest.ErrorLines(countErrors(c, tc.actors, tc.rollouts, tc.envs)), tc.want...)
	}
}

func TestDescribe(t *testing.T) {
	c, _ := rolestest.MustLoad(t, rolestest.Cartpole, "algorithm.update_epoch=4", "env.train.rollout_epoch=2")
	test.OK(t, countErrors(c, 8, 4, 4))
	rolestest.Expect(t, "lines", newTestDraft(c, 8, 4, 4).Describe(),
		"rollout: 64 environments, 16 on each of 4 env workers in 2 stages of 8, 8 at a time for each of 4 rollout "+
			"workers; 256 steps each",
		"samples: 16384 per iteration (256 steps × 64 environments), 2048 for each of 8 actors",
		"update: 4 epochs × 32 minibatches of 512 samples (64 on each actor, 64 at a time) = 128 optimiser steps per "+
			"iteration",
		"evaluation: 16 environments, 4 on each of 4 env workers, 4 at a time for each of 4 rollout workers; 500 "+
			"steps each at most",
	)
}

// TestLearningRates: check prints the rate at which critics learn, if they have a rate of their own.
func TestLearningRates(t *testing.T) {
	const sac = "../../configs/pendulum_sac.yaml"
	for _, tc := range []struct {
		file      string
		overrides []string
		want      string
	}{
		{sac, []string{"actor.optim.value_lr=0.5", "actor.critic_optim.lr=0.25"},
			"learning rates: 0.001, critics 0.25"},
		{sac, []string{"actor.optim.value_lr=0.5"}, "learning rates: 0.001, critics 0.5"},
		{sac, nil, "learning rates: 0.001, critics 0.001"},
		{rolestest.Cartpole, []string{"actor.optim.lr=0.25", "actor.optim.value_lr=0.5"},
			"learning rates: 0.25, critics 0.5"},
		{rolestest.Cartpole, []string{"actor.optim.lr=0.25", "actor.optim.value_lr=0"}, ""},
	} {
		c, _ := rolestest.MustLoad(t, tc.file, append(tc.overrides, "cluster.allow_idle_ranks=true")...)
		p := test.Must(newPlan(c, rolestest.Registries(), make([]int, 8)))(t)
		got := ""
		for _, line := range p.Describe() {
			if strings.HasPrefix(line, "learning rates") {
				got = line
			}
		}
		test.Equal(t, got, tc.want, "%s %q", tc.file, tc.overrides)
	}
}

// TestNoteOfRepeatedStates: check and the start say that episodes of an evaluation begin in the same states.
func TestNoteOfRepeatedStates(t *testing.T) {
	for _, tc := range []struct {
		overrides []string
		key, want string
	}{
		{nil, "", ""},
		{[]string{"algorithm.group_size=4", "env.train.use_fixed_reset_state_ids=true"}, "", ""},
		{[]string{"env.eval.group_size=4"}, "group_size", "16 episodes from 4 initial states"},
		{[]string{"env.eval.use_fixed_reset_state_ids=true"}, "", ""}, // one episode in each environment
		{[]string{"env.eval.use_fixed_reset_state_ids=true", "env.eval.rollout_epoch=2"}, "use_fixed_reset_state_ids",
			"32 episodes from 16 initial states"},
		{[]string{"env.eval.group_size=4", "runner.val_check_interval=0"}, "", ""},
	} {
		c, _ := rolestest.MustLoad(t, rolestest.Cartpole, tc.overrides...)
		d := newTestDraft(c, 8, 4, 4)
		notes, lines := strings.Join(d.Notes(), "\n"), strings.Join(d.Describe(), "\n")
		if tc.want != "" {
			tc.key = "env.eval." + tc.key + ": an evaluation plays " + tc.want
		}
		if notes != tc.key || strings.HasSuffix(lines, "at most: "+tc.want) == (tc.want == "") &&
			!strings.HasSuffix(lines, "2 times: "+tc.want) {
			t.Errorf("%q: notes %q, lines\n%s", tc.overrides, notes, lines)
		}
	}
}

// TestNoteOfOneRank: on one rank, a job with a scheduler has a note that workers cannot move.
func TestNoteOfOneRank(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.auto_scheduler=true",
		"cluster.component_placement={actor: 0, env: 0, rollout: 0}")
	for ranks, want := range map[int]int{1: 1, 2: 0} {
		cfg.Cluster.AllowIdleRanks = true
		if got := NewDraft(cfg, rolestest.Registries(), make([]int, ranks)).Notes(); len(got) != want {
			t.Errorf("%d ranks: %q", ranks, got)
		}
	}
}
