package embodied

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/tensor"
)

// TestTargetsOfGivenWeights: if a run begins with given weights, the target policy of TD3 begins with them, too.
func TestTargetsOfGivenWeights(t *testing.T) {
	onRanks(t, 1, "../../configs/pendulum_td3.yaml", nil, func(_ context.Context, r *EmbodiedRunner) error {
		actor, given := r.Actor.Here()[0], state.Pack{}
		params := actor.Policy().Params()
		for i, f := range params.Fields {
			x := tensor.New(tensor.F32, f.Shape...)
			for k := range x.F32() {
				x.F32()[k] = float32(i + k)
			}
			given = append(given, state.PartOf(state.ModelFile, f.Name, x, nn.Slice{}))
		}
		for i := range params.Buffers.Len() {
			name, x := params.Buffers.Entry(i)
			given = append(given, state.PartOf(state.ModelFile, name, x.Clone(), nn.Slice{}))
		}
		if err := given.Take(leader{r}.Workers()[0].State(state.Purpose{})); err != nil {
			return err
		}
		saved, err := actor.Algorithm().Save()
		if err != nil {
			return err
		}
		for i := range job.ModelDict(params).Len() {
			name, want := job.ModelDict(params).Entry(i)
			if got := saved.Must("target." + name); !slices.Equal(got.Bytes(), want.Bytes()) {
				return fmt.Errorf("%s of the target is not %v", name, want.F32()[:1])
			}
		}
		return nil
	})
}
