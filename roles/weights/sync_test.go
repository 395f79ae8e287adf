package weights

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// The configuration and the parameters determine how weights travel.
func TestWeightsSpec(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("shared")
	p.Add("shared.0", 3)
	p.Groups[0].Trainable = false
	p.Group("actor")
	p.Add("actor.0", 3, 30)
	p.Add("actor.1", 3)
	p.AddBuffer("obs.mean", 3)
	for _, c := range []struct {
		name      string
		overrides []string
		slots     int
		wire      tensor.DType
		patch     bool
		held      []bool
	}{
		{name: "every iteration", slots: 0, wire: tensor.F32},
		{name: "every third", overrides: []string{"runner.weight_sync_interval=3"}, slots: 2, wire: tensor.F32},
		{name: "rounded", overrides: []string{"weight_syncer.bucket.bucket_dtype=torch.bfloat16"}, slots: 2,
			wire: tensor.BF16},
		{name: "patch", overrides: []string{"weight_syncer.type=patch"}, wire: tensor.F32, patch: true,
			held: []bool{false, false, false, false}},
		{name: "from the beginning",
			overrides: []string{"weight_syncer.type=patch", "weight_syncer.patch.init_sync.enabled=false"},
			wire:      tensor.F32, patch: true,
			held: []bool{true, true, true, true}},
		{name: "except for the actor",
			overrides: []string{"weight_syncer.type=patch", "weight_syncer.patch.init_sync.prefixes=[actor., obs]"},
			wire:      tensor.F32, patch: true,
			held: []bool{true, false, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole,
				append(c.overrides, "weight_syncer.bucket.bucket_size=3KB")...)
			j := &job.Job{Config: cfg, SyncInterval: int64(cfg.Runner.WeightSyncInterval)}
			s := wireSpec(j, &flow{part: newPart(p)})
			if s.Slots != c.slots || s.Wire != c.wire || s.Bucket != 3<<10 || (s.Patch != nil) != c.patch {
				t.Errorf("got %+v", s)
			}
			if want := []bool{true, false, false, false}; !slices.Equal(s.Frozen, want) {
				t.Errorf("frozen: %v, want %v", s.Frozen, want)
			}
			if c.patch && (!slices.Equal(s.Patch.Held, c.held) || !s.Patch.Delta || s.Patch.Bucket != 128<<20) {
				t.Errorf("got %+v", s.Patch)
			}
		})
	}
}
