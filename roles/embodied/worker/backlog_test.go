package worker

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A full backlog drops the oldest rollout in which nobody intervened, or else the oldest one.
func TestBacklog(t *testing.T) {
	t.Parallel()
	b := &backlog{}
	for range 4 {
		var d tensor.Dict
		d.Set(algo.FieldIntervened, tensor.New(tensor.U8, 2, 1))
		b.spare = append(b.spare, &finished{dicts: []tensor.Dict{d}})
	}
	add := func(version int64, guided byte) {
		b.begin()[0].Must(algo.FieldIntervened).U8()[1] = guided
		b.begin() // the same rollout, after a pause
		b.end(version)
	}
	versions := func() (all []int64) {
		for _, f := range b.waiting {
			all = append(all, f.version)
		}
		return all
	}
	add(0, 1)
	add(1, 0)
	add(2, 1)
	add(3, 0)
	test.EqualSlices(t, versions(), []int64{0, 1, 2, 3}, "a rollout for each memory")
	add(4, 1)
	test.EqualSlices(t, versions(), []int64{0, 2, 3, 4}, "without 1")
	add(5, 1)
	test.EqualSlices(t, versions(), []int64{0, 2, 4, 5}, "without 3")
	add(6, 0)
	test.EqualSlices(t, versions(), []int64{2, 4, 5, 6}, "without 0, the oldest")
	test.Equal(t, b.dropped, int64(3), "dropped")
	test.Equal(t, b.untold, 3, "untold")
}
