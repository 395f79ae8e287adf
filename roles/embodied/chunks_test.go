package embodied

import (
	"context"
	"errors"
	"fmt"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// With chunks of actions, the metrics are the same on any ranks, at each level of log-probs.
func TestChunksOnAnyRanks(t *testing.T) {
	for _, more := range [][]string{
		{"algorithm.reward_type=action_level", "algorithm.logprob_type=token_level",
			"algorithm.entropy_type=chunk_level", "algorithm.entropy_bonus=0.01"},
		{"algorithm.reward_type=action_level", "env.train.auto_reset=false", "algorithm.normalize_rewards=true"},
		{"algorithm.logprob_type=chunk_level"},
	} {
		asks := slices.Concat(small, more, []string{"actor.model.num_action_chunks=2", "actor.micro_batch_size=8",
			"actor.global_batch_size=48"})
		_, want := metricsOf(t, 1, "actor: '0:0-1'; env,rollout: 0", 3, asks)
		for _, components := range []string{"actor: 0-1; env: 2; rollout: 3",
			"actor: 2-3; env: '0-1:0-3'; rollout: 1"} {
			_, got := metricsOf(t, 4, components, 3, append(asks, "rollout.pipeline_stage_num=2"))
			if !slices.EqualFunc(got, want, slices.Equal[[]float64]) || len(got) != 3 {
				t.Errorf("%v, %s: %v\non one rank %v", more, components, got, want)
			}
		}
	}
}

// blinkers are overrides for environments in which actions have no effect, with 24 episodes in an iteration.
func blinkers(chunk, times int, more ...string) []string {
	return append(more, "env.train.env_type=blinker", "env.train.total_num_envs=24",
		"env.train.max_steps_per_rollout_epoch=30",
		"env.train.auto_reset=false", "env.eval.total_num_envs=24", "env.eval.max_steps_per_rollout_epoch=30",
		"runner.val_check_interval=1", "actor.micro_batch_size=24", "actor.global_batch_size=24",
		fmt.Sprintf("actor.model.num_action_chunks=%d", chunk), fmt.Sprintf("env.train.action_repeat=%d", times))
}

// Success, figures and returns do not depend on the number of steps that an action or a chunk of actions takes.
func TestFiguresOfChunks(t *testing.T) {
	reg := rolestest.Registries()
	reg.Envs = rolestest.Blinkers()
	figures := func(chunk, times int, more ...string) (train, eval env.Summary) {
		path := placed(t, "../../configs/cartpole_ppo.yaml", "actor,env,rollout: 0")
		onRanksOf(t, reg, 1, path, blinkers(chunk, times, more...), func(ctx context.Context, r *EmbodiedRunner) error {
			var rep loop.RankReport
			err := errors.Join(r.sendWeights(ctx), r.collectRollouts(ctx), r.Evaluate(ctx))
			leader{r}.Describe(&rep)
			for rows, s := range map[*[]float64]*env.Summary{&rep.Episodes: &train, &rep.Evals: &eval} {
				episodes, bad := env.FromRows(*rows, 1)
				err = errors.Join(err, bad)
				*s = env.Summarize(episodes)
				s.EpisodeLen, s.Reward = 0, 0 // these two figures count actions
			}
			return err
		})
		return train, eval
	}
	for _, more := range [][]string{nil, {"env.train.reward_coef=0.5"},
		{"env.train.reward_mode=only_success", "env.train.frame_stack=2"}} {
		train, eval := figures(1, 1, more...)
		for _, s := range []env.Summary{train, eval} {
			if !(s.SuccessOnce > s.SuccessAtEnd && s.SuccessAtEnd > 0 && s.WrongObject > 0 && s.ToldObject > 0) ||
				s.Info[0] != 5.5 || len(s.ByTask) != 2 || s.ByTask[0].SuccessOnce == 0 || s.ByTask[1].SuccessOnce == 0 {
				t.Fatalf("%v: too little to see: %+v", more, s)
			}
		}
		for _, c := range [][2]int{{2, 1}, {3, 1}, {10, 1}, {1, 3}, {2, 3}, {10, 3}} {
			a, b := figures(c[0], c[1], more...)
			if !reflect.DeepEqual(a, train) || !reflect.DeepEqual(b, eval) {
				t.Errorf("%v, chunks of %d, each action %d times:\n%+v\n%+v\nin single steps\n%+v\n%+v", more, c[0],
					c[1], a, b, train, eval)
			}
		}
	}
}

// The rule success rewards a chunk if any of its steps was a success. The placement of workers does not matter.
func TestSuccessRuleOfChunks(t *testing.T) {
	reg := rolestest.Registries()
	reg.Envs = rolestest.Blinkers()
	rewards := func(np int, components string, more ...string) (all []float32) {
		path := placed(t, "../../configs/cartpole_ppo.yaml", components)
		onRanksOf(t, reg, np, path, blinkers(3, 2, more...), func(ctx context.Context, r *EmbodiedRunner) error {
			if err := r.sendWeights(ctx); err != nil {
				return err
			}
			if err := r.playRollout(ctx, 0); err != nil {
				return err
			}
			for _, a := range r.Actor.Here() {
				all = slices.Clone(a.Batch().Must("reward").F32())
			}
			return nil
		})
		return all
	}
	want, paid := rewards(1, "actor,env,rollout: 0", "env.train.reward_mode=only_success"), 0
	for i, r := range want { // steps 4 and 10 are in different chunks of 6 steps
		paid += int(r)
		want[i] = min(r, 1)
	}
	if paid == 0 || paid == len(want) {
		t.Fatalf("rewards of success %v: too little to see", want)
	}
	for np, components := range map[int]string{1: "actor,env,rollout,reward: 0",
		2: "actor: 0; env: 1; rollout: 0; reward: 1"} {
		test.EqualSlices(t, rewards(np, components, "reward.reward_type=success"), want, "%s", components)
	}
}
