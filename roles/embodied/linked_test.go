package embodied

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestDelayedLink: if one link between two ranks is slower than the others, the summary names both ends of this link,
// and no other fault. If all links are alike, it names none.
func TestDelayedLink(t *testing.T) {
	const usual, delayed = 200 * time.Microsecond, 15 * time.Millisecond
	for _, c := range []struct {
		name, components string
		np               int
		slow             [][2]int // pairs of ranks with a slow link
		want             string
	}{
		{"none", "actor: 0; env: 1-2; rollout: 3-4", 5, nil, ""},
		{"one direction", "actor: 0; env: 1-2; rollout: 3-4", 5, [][2]int{{2, 4}}, "slow link: env 1 to rollout 1"},
		// The rollout worker serves its env workers in turns, so it never waits for observations that arrive in time.
		{"both directions", "actor: 0; env: 1-2; rollout: 3", 4, [][2]int{{2, 3}, {3, 2}},
			"slow link: rollout 0 to env 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			overrides, read := recorded(t)
			on := local.NewLinks(c.np, func(from, to int) local.Link {
				if slices.Contains(c.slow, [2]int{from, to}) {
					return local.Link{Latency: delayed}
				}
				return local.Link{Latency: usual}
			})
			onTransports(t, rolestest.Registries(), on, placed(t, "../../configs/cartpole_ppo.yaml", c.components),
				slices.Concat(small, overrides, []string{"runner.max_steps=4", "env.train.step_delay=20ms",
					"rollout.pipeline_stage_num=1", "env.train.max_steps_per_rollout_epoch=6",
					"actor.global_batch_size=48",
					fmt.Sprintf("cluster.num_nodes=%d", c.np), "runner.save_interval=-1",
					"runner.save_at_end=false"}), nil,
				func(ctx context.Context, r *EmbodiedRunner) error { return r.Run(ctx) })
			a, got := read(), ""
			for _, f := range timeline.Conclude([]trace.Attempt{a}, nil) {
				t.Log(f.Text)
				if f.Kind != timeline.Fault || f.Rule == timeline.Stall { // a busy machine may stall
					continue
				}
				got += string(f.Rule)
				if f.Peer >= 0 {
					from, to := &a.Workers[f.Worker], &a.Workers[f.Peer]
					got += fmt.Sprintf(": %s %d to %s %d", from.Component, from.Member, to.Component, to.Member)
				}
			}
			test.Equal(t, got, c.want)
		})
	}
}
