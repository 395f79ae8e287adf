package embodied

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Ranks without actors learn whether another rollout is needed, and make it. The metrics are those of one rank.
func TestDynamicSamplingOnAnyRanks(t *testing.T) {
	text := test.Must(os.ReadFile("../../configs/cartpole_grpo.yaml"))(t)
	apart := filepath.Join(t.TempDir(), "apart.yaml")
	placed := strings.Replace(string(text), "actor,env,rollout: 0", "actor: 1\n    env: 0\n    rollout: 1-2", 1)
	test.OK(t, os.WriteFile(apart, []byte(placed), 0o600))
	run := func(np int, path string) (all [][]float64, most float64) {
		onRanks(t, np, path, []string{
			"env.train.total_num_envs=16", "env.train.max_steps_per_rollout_epoch=12", "env.train.max_episode_steps=12",
			"actor.global_batch_size=192", "actor.micro_batch_size=192",
			"algorithm.max_num_gen_batches=4", "algorithm.group_size=2", "runner.val_check_interval=-1",
		}, func(ctx context.Context, r *EmbodiedRunner) error {
			for range 4 {
				if err := r.iterate(ctx); err != nil {
					return err
				}
				if r.loop.Report().Names != nil {
					all = append(all, slices.Clone(r.loop.Report().Values))
					most = max(most, r.loop.Report().Values[slices.Index(r.loop.Report().Names, "rollout/gen_batches")])
				}
			}
			return nil
		})
		return all, most
	}
	want, most := run(1, "../../configs/cartpole_grpo.yaml")
	got, _ := run(3, apart)
	if most < 2 {
		t.Errorf("at most %v rollouts for an update: the test sees too little", most)
	}
	if !slices.EqualFunc(got, want, slices.Equal[[]float64]) || len(got) != 4 {
		t.Errorf("on three ranks %v\non one %v", got, want)
	}
}
