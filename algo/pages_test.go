package algo_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

// TestPages: every algorithm of the registry has a page that names its configuration's pair and explains each
// of its metrics.
func TestPages(t *testing.T) {
	ppo, decoupled := ppoMetrics(t, "actor_critic"), ppoMetrics(t, "decoupled_actor_critic")
	var seen []string
	for _, x := range []struct {
		pair, page string
		metrics    []string
	}{
		{"gae actor_critic", "ppo", ppo},
		{"gae actor", "ppo", ppo},
		{"gae decoupled_actor_critic", "ppo", decoupled},
		{"gae a2c", "a2c", []string{"actor/policy_loss", "critic/value_loss"}}, // the others as PPO's
		{"grpo actor", "grpo", []string{"rollout/gen_batches", "actor/policy_loss"}},
		{"reinpp actor", "reinforce", []string{"rollout/returns_mean"}},
		// TestOffPolicyPages has the metrics of algorithms that learn from transitions
		{"embodied_sac embodied_sac", "sac", nil},
		{"embodied_crossq embodied_crossq", "crossq", []string{"sac/critic_loss"}}, // the others as SAC's
		{"embodied_dqn embodied_dqn", "dqn", nil},
		{"embodied_td3 embodied_td3", "td3", nil},
		{"embodied_dagger embodied_dagger", "dagger", nil},
		{"offline_iql offline_iql", "iql", nil},
		{"embodied_bc embodied_bc", "bc", nil},
	} {
		text, err := os.ReadFile("../docs/algorithms/" + x.page + ".md")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range x.metrics {
			if !strings.Contains(string(text), "`"+m+"`") {
				t.Errorf("docs/algorithms/%s.md does not explain %s", x.page, m)
			}
		}
		seen = append(seen, x.pair)
	}
	index := test.Must(os.ReadFile("../docs/algorithms/README.md"))(t)
	for _, pair := range algo.Builtin().Pairs() {
		advType, lossType := pair[0], pair[1]
		if !slices.Contains(seen, advType+" "+lossType) {
			t.Errorf("no page for adv_type %s, loss_type %s", advType, lossType)
		}
		if !strings.Contains(string(index), "`"+advType+"`, `"+lossType+"`") && lossType != "actor" {
			t.Errorf("docs/algorithms/README.md does not list adv_type %s, loss_type %s", advType, lossType)
		}
	}
}

// ppoMetrics are the names of PPO's metrics with a critic and a reference policy.
func ppoMetrics(t *testing.T, lossType string) []string {
	t.Helper()
	p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Config.KLBeta, s.Config.LossType = cartPolePolicy(t), 0.1, lossType
	}))
	r := cartPoleLike(16, 8)
	return p.learn(t, &r).Names
}
