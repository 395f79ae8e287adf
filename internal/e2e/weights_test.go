package e2e

import "testing"

// TestWeightsTravelAlike: the metrics do not depend on how weights are sent to nodes without an actor. Rounding of
// weights has the same effect on all rollouts.
func TestWeightsTravelAlike(t *testing.T) {
	t.Parallel()
	const nodes, everywhere, pendulum = 10, 11, 2 // placements: on four nodes, and on one; a task with statistics
	for _, c := range []struct {
		name     string
		on       *platform
		place    int
		sync     int
		settings []string
		rounds   bool
		private  bool // ranks cannot share memory
	}{
		{name: "patch", on: local, place: nodes, sync: 1, settings: []string{"weight_syncer.type=patch"}},
		{name: "patch, places", on: openmpi, place: nodes, sync: 3,
			settings: []string{"weight_syncer.type=patch", "weight_syncer.patch.delta_encoding=false"}},
		{name: "patch from the beginning", on: mpich, place: nodes, sync: 3,
			settings: []string{"weight_syncer.type=patch", "weight_syncer.patch.init_sync.enabled=false"}},
		{name: "patch of the critic", on: local, place: nodes, sync: 3,
			settings: []string{"weight_syncer.type=patch", "weight_syncer.patch.init_sync.prefixes=[actor]"}},
		{name: "small buckets", on: local, place: nodes, sync: 1,
			settings: []string{"weight_syncer.bucket.bucket_size=1KB"}},
		{name: "private, on a node", on: openmpi, place: everywhere, sync: 1, private: true},
		{name: "private, older weights", on: local, place: everywhere, sync: 3, private: true},
		{name: "rounded", on: local, place: nodes, sync: 1,
			settings: []string{"weight_syncer.bucket.bucket_dtype=bf16"}, rounds: true},
		{name: "rounded, patch", on: mpich, place: nodes, sync: 1,
			settings: []string{"weight_syncer.type=patch", "weight_syncer.bucket.bucket_dtype=bf16"}, rounds: true},
		{name: "rounded, on a node", on: local, place: everywhere, sync: 3,
			settings: []string{"weight_syncer.bucket.bucket_dtype=bf16"}, rounds: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.on.program(t, ".") // or skip the test
			v := variant{on: c.on, place: c.place, task: pendulum, actors: 2, stages: 1, epochs: 1, sync: c.sync}
			plain := v.likeness().run(t)
			want := plain
			if c.rounds {
				want = v.likeness().run(t, c.settings...)
				if want.diff(plain) == "" {
					t.Error("rounding changes nothing")
				}
			}
			if c.private {
				v.on = c.on.with("RLINF_SHM=off")
			}
			v.run(t, c.settings...).same(t, want, "not the metrics of %v", v.likeness())
		})
	}
}
