package plan

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestHindsightIsChecked: hindsight needs goals, a known rule, and the environments' own rewards of single steps.
func TestHindsightIsChecked(t *testing.T) {
	t.Parallel()
	const file, strategy = "../../configs/bitflip_dqn.yaml",
		"algorithm.replay_buffer.hindsight.goal_selection_strategy"
	reg := rolestest.Registries()
	reg.Envs.Add("Odd-v1", func(cfg env.Config, n int) (env.Vec, error) {
		vec, err := classic.NewBitFlip(cfg, classic.BitFlipKeys{Bits: 4}, n)
		if err == nil {
			vec = odd{vec}
		}
		return vec, err
	})
	for _, c := range []struct{ override, want string }{
		{"runner.max_steps=9", ""},
		{"env.train.env_type=CartPole-v1", strategy + ": future: expected none: CartPole-v1 has no goals"},
		{"env.train.env_type=Odd-v1", strategy + `: future: expected none: Odd-v1: goal: reward "odd": expected ` +
			"sparse, zero_one, or a rule"},
		{strategy + "=next", strategy + ": next: expected future, final or episode"},
		{"algorithm.replay_buffer.hindsight.n_sampled_goal=0", "n_sampled_goal: 0: expected a number > 0"},
		{"actor.model.num_action_chunks=2", "actor.model.num_action_chunks: 2: expected 1 (algorithm.replay_buffer." +
			"hindsight"},
		{"env.train.action_repeat=2", "env.train.action_repeat: 2: expected 1"},
		{"env.train.frame_stack=2", "env.train.frame_stack: 2: expected 1"},
		{"env.train.reward_mode=only_success", "env.train.reward_mode: only_success: expected raw"},
		{"env.train.use_rel_reward=true", "env.train.use_rel_reward: true: expected false"},
		{"env.train.reward_coef=2", "env.train.reward_coef: 2: expected 1"},
		{"env.train.reward_clip=2", "env.train.reward_clip: 2: expected 0"},
	} {
		cfg, _, err := config.Load(reg, file, []string{c.override}, false)
		if err == nil {
			_, err = newPlan(cfg, reg, []int{0})
		}
		if c.want == "" {
			test.OK(t, err, c.override)
		} else {
			test.Fails(t, err, c.want, c.override)
		}
	}
}

// odd is an environment whose goals have a rule that nobody knows.
type odd struct{ env.Vec }

func (o odd) Spec() env.Spec {
	spec := o.Vec.Spec()
	spec.Name, spec.Goal = "Odd-v1", &env.Goal{Reward: "odd"}
	return spec
}
