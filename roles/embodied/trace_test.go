package embodied

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/roles/member"
)

// TestTraceHasAllWorkers: workers of every component leave spans in the trace.
func TestTraceHasAllWorkers(t *testing.T) {
	for _, c := range []struct {
		components string
		np         int
		more, want []string
	}{
		{"actor,env,rollout: 0; reward: 1", 2, potential,
			[]string{"play of rollout 0", "score of reward 0", "train of actor 0"}},
		{"env: 0; rollout: 1; inference: 2; actor: 3", 4, []string{"algorithm.recompute_logprobs=true"},
			[]string{"infer of inference 0", "infer of rollout 0", "simulate of env 0", "train of actor 0"}},
	} {
		var mu sync.Mutex
		seen := map[string]bool{}
		onRanks(t, c.np, placed(t, "../../configs/cartpole_ppo.yaml", c.components),
			slices.Concat(small, c.more, []string{"cluster.tracer.enable=true"}),
			func(ctx context.Context, r *EmbodiedRunner) error {
				if err := r.iterate(ctx); err != nil {
					return err
				}
				var text bytes.Buffer
				if err := member.WriteEvents(&text, leader{r}.Tracers()); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for line := range strings.Lines(text.String()) {
					var e struct{ Name, Tid string }
					if err := json.Unmarshal([]byte(strings.TrimSuffix(line, ",\n")), &e); err != nil {
						return err
					}
					seen[e.Name+" of "+e.Tid] = true
				}
				return nil
			})
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.components, got, c.want)
		}
	}
}
