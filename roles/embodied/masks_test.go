package embodied

import (
	"context"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"slices"
	"sync"
	"testing"
)

// TestMasksOnAnyRanks: action masks travel with observations between ranks, also to inference workers.
func TestMasksOnAnyRanks(t *testing.T) {
	more := append([]string{
		"env.train.env_type=Ladders-v0", "env.eval.env_type=Ladders-v0", "algorithm.recompute_logprobs=true",
		"algorithm.kl_beta=0.01",
	}, small...)
	run := func(np int, components string) (all [][]float64) {
		var mu sync.Mutex
		reg := rolestest.Registries()
		reg.Envs = rolestest.Ladders(1, 5, 3)
		onRanksOf(t, reg, np, placed(t, "../../configs/cartpole_ppo.yaml", components), more,
			func(ctx context.Context, r *EmbodiedRunner) error {
				for range 3 {
					if err := r.iterate(ctx); err != nil {
						return err
					}
					if mu.Lock(); r.loop.Report().Names != nil {
						all = append(all, slices.Clone(r.loop.Report().Values))
					}
					mu.Unlock()
				}
				return nil
			})
		return all
	}
	want := run(1, "actor,env,rollout: 0")
	if got := run(4, "actor: 0; env: 1-2; rollout: 2-3; inference: 1"); len(want) != 3 ||
		!slices.EqualFunc(got, want, slices.Equal[[]float64]) {
		t.Errorf("on four ranks %v\non one %v", got, want)
	}
}
