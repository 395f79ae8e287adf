package embodied

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// TestTargetsOfGivenWeights: if a run begins with given weights, the target policy of TD3 begins with them, too.
func TestTargetsOfGivenWeights(t *testing.T) {
	onRanks(t, 1, "../../configs/pendulum_td3.yaml", nil, func(_ context.Context, r *EmbodiedRunner) error {
		actor, given := r.Actor.Here()[0], tensor.Dict{}
		params := actor.Policy().Params()
		for i, f := range params.Fields {
			x := tensor.New(tensor.F32, f.Shape...)
			for k := range x.F32() {
				x.F32()[k] = float32(i + k)
			}
			given.Set(f.Name, x)
		}
		for i := range params.Buffers.Len() {
			given.Set(params.Buffers.Entry(i))
		}
		if err := actor.Load(member.State{Model: given}); err != nil {
			return err
		}
		state, err := actor.Algorithm().Save()
		if err != nil {
			return err
		}
		for i := range job.ModelDict(params).Len() {
			name, want := job.ModelDict(params).Entry(i)
			if got := state.Must("target." + name); !slices.Equal(got.Bytes(), want.Bytes()) {
				return fmt.Errorf("%s of the target is not %v", name, want.F32()[:1])
			}
		}
		return nil
	})
}
