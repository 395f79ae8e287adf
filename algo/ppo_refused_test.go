package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A number that is not finite gives an error that names it, and changes no state.
func TestNotFinite(t *testing.T) {
	p := mustPPO(t, ppoSetup())
	for _, c := range []struct{ name, want string }{
		{"reward", "reward is NaN at step 2 of environment 3"},
		{"value", "value is NaN at step 2 of environment 3"},
		{"next_value", "next_value is NaN at step 2 of environment 3"},
	} {
		r := algo.RandomRollout(1, 16, 0, 8)
		clear(r.Must("terminated").U8())
		r.Must(c.name).F32()[2*8+3] = float32(math.NaN())
		test.Fails(t, p.Prepare(&r), c.want)
	}
	for _, c := range []struct{ name, want string }{
		{"observation.state", "epoch 0: minibatch 0: gradient of actor.weight[3 2]: NaN at element 0"},
		{"sample_log_prob", "epoch 0: minibatch 0: gradient of actor.weight[3 2]: NaN at element 0"},
		{"return", "epoch 0: minibatch 0: gradient of critic.weight[3 1]: NaN at element 0"},
	} {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.ShuffleRollout = false }))
		before := slices.Clone(p.params())
		r := algo.RandomRollout(1, 16, 0, 8)
		test.OK(t, p.Prepare(&r))
		r.Must(c.name).F32()[1] = float32(math.NaN())
		test.Fails(t, test.Err(p.Update(r)), c.want, "%s", c.name)
		if !slices.Equal(before, p.params()) || p.optimiser(t, "steps").I64()[0] != 0 {
			t.Errorf("%s: the parameters moved", c.name)
		}
	}
}

func TestNewPPOErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*algo.Setup)
	}{
		{"global_batch_size 0: expected a divisor of the rollout of 128 samples",
			func(s *algo.Setup) { s.GlobalBatch = 0 }},
		{"expected a divisor of the rollout of 0 samples", func(s *algo.Setup) { s.Steps = 0 }},
		{"global_batch_size 48: expected a divisor", func(s *algo.Setup) { s.GlobalBatch = 48 }},
		{"global_batch_size 256: expected a divisor", func(s *algo.Setup) { s.GlobalBatch = 256 }},
		{"micro_batch_size 12: expected a divisor of the 32 samples", func(s *algo.Setup) { s.MicroBatch = 12 }},
		{"algorithm.gamma: 1.5: expected a number in [0, 1]", func(s *algo.Setup) { s.Config.Gamma = 1.5 }},
		{"optim.lr: 0: expected a number > 0", func(s *algo.Setup) { s.Optim.LR = 0 }},
		{"optim.total_training_steps: not set", func(s *algo.Setup) { s.Optim.LRScheduler = algo.ScheduleCosine }},
		{"no adv_type gea with loss_type actor_critic, expected one of: gae with actor_critic, gae with actor, " +
			"gae with decoupled_actor_critic, gae with a2c, grpo with actor",
			func(s *algo.Setup) { s.Config.AdvType = "gea" }},
	} {
		test.Fails(t, test.Err(algo.Builtin().New(ppoSetup(c.change))), c.want)
	}
	if _, err := algo.Builtin().New(ppoSetup()); err != nil {
		t.Error(err)
	}
}

func TestRolloutErrors(t *testing.T) {
	p := mustPPO(t, ppoSetup())
	var r tensor.Dict
	test.Fails(t, p.Prepare(&r), "no reward", "an empty rollout")
	r = algo.RandomRollout(0, 16, 0, 8)
	r.Set("truncated", tensor.New(tensor.U8, 16, 7))
	test.Fails(t, p.Prepare(&r), "truncated is U8[16 7], expected U8[16 8]", "another shape")
	r = algo.RandomRollout(0, 16, 0, 8)
	test.Fails(t, test.Err(p.Update(r)), "no advantage", "not prepared")
}
