package embodied

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestCounts: in every placement, progress counts all steps of a rollout, all micro-batches of an update, and all
// episodes of an evaluation.
func TestCounts(t *testing.T) {
	small := []string{"env.train.total_num_envs=8", "env.eval.total_num_envs=4", "actor.micro_batch_size=16",
		"actor.global_batch_size=32",
		"env.train.max_steps_per_rollout_epoch=16", "env.eval.max_steps_per_rollout_epoch=20",
		"runner.val_check_interval=1", "algorithm.update_epoch=2"}
	for name, c := range map[string]struct {
		np        int
		overrides []string
	}{
		"collocated": {2, []string{"cluster.component_placement={actor: 0-1, env: 0-1, rollout: 0-1}",
			"rollout.pipeline_stage_num=1"}},
		"disaggregated": {3, []string{"cluster.component_placement={actor: 0, env: 1, rollout: 2}",
			"rollout.pipeline_stage_num=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			last := map[string]string{} // last progress of each member and kind of work
			whole := map[string]bool{}
			onCounted(t, rolestest.Registries(), c.np, "../config/testdata/cartpole.yaml",
				slices.Concat(small, c.overrides), func(component string, member int) func(string, int, int) {
					return func(what string, done, total int) {
						mu.Lock()
						defer mu.Unlock()
						key := fmt.Sprintf("%s %d %s", component, member, what)
						last[key] = fmt.Sprintf("%d/%d", done, total)
						whole[key] = done == total && total > 0
					}
				}, func(ctx context.Context, r *EmbodiedRunner) error { return r.iterate(ctx) })
			works := map[string]bool{}
			for key, done := range whole {
				works[key[strings.LastIndex(key, " ")+1:]] = true
				if !done {
					t.Errorf("%s: %s at the end", key, last[key])
				}
			}
			if got := slices.Sorted(maps.Keys(works)); !slices.Equal(got, []string{"evaluation", "rollout", "update"}) {
				t.Errorf("counted %v: %v", got, last)
			}
		})
	}
}
