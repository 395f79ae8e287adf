package trainer

import (
	"errors"
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// TestCollectLabels: a rollout has the expert's action for each observation. The states follow from actions of the
// expert and of the policy.
func TestCollectLabels(t *testing.T) {
	cfg := rolestest.EnvConfig("walker", 6)
	vec := test.Must(rolestest.Walkers().New(cfg, 1))(t)
	pol := test.Must(policy.NewMLP(policy.DefaultConfig(), vec.Spec(), 1, tensor.Heap))(t)
	for name, beta := range map[string]float64{"the expert": 1, "the policy": 0, "both": 0.5} {
		c := test.Must(NewSyncCollector(rolestest.Walkers(), cfg, pol, 1))(t)
		test.OK(t, c.CollectLabels(algo.DaggerConfig{InitBeta: beta, BetaDecay: 1}))
		rollout := test.Must(c.Collect(100, true))(t)
		if _, ok := rollout.Get("observation." + env.ExpertAction); ok || len(c.Spec().Obs) != 1 {
			t.Error("the policy is shown what the expert would do")
		}
		obs, next, label := rollout.Must("observation.state").F32(), rollout.Must("next_observation.state").F32(),
			rollout.Must("action").F32()
		followed := 0
		for i, a := range label {
			if a != 1 && a != 2 { // the expert's speeds
				t.Fatalf("%s acts, sample %d: %v is recorded, want the expert's action", name, i, a)
			}
			if next[i] == obs[i]+a {
				followed++
			}
		}
		if share := float64(followed) / float64(len(label)); math.Abs(share-beta) > 0.1 ||
			beta != 0.5 && share != beta {
			t.Errorf("%s acts: %v of the steps are the expert's", name, share)
		}
	}

	c := newCollector(t, rolestest.EnvConfig("CartPole-v1", 1),
		rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 1), 1, nil))
	test.OK(t, c.CollectLabels(algo.DefaultConfig().OffPolicy.Dagger))
	if _, err := c.Collect(1, true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without an expert: %v", err)
	}
	chunks := rolestest.NewPolicy(t, rolestest.EnvConfig("Pendulum-v1", 1), 1, func(c *policy.Config) {
		c.NumActionChunks = 2
	})
	if err := newCollector(t, rolestest.EnvConfig("Pendulum-v1", 1),
		chunks).CollectLabels(algo.DaggerConfig{}); err == nil {
		t.Error("chunks of two actions: no error")
	}
}
