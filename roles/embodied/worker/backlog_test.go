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
	versions := func() (all []int64) { // and how many were dropped before each
		for _, f := range b.waiting {
			all = append(all, f.version, int64(f.lost))
		}
		return all
	}
	add(0, 1)
	add(1, 0)
	add(2, 1)
	add(3, 0)
	test.EqualSlices(t, versions(), []int64{0, 0, 1, 0, 2, 0, 3, 0}, "a rollout for each memory")
	add(4, 1)
	test.EqualSlices(t, versions(), []int64{0, 0, 2, 1, 3, 0, 4, 0}, "without 1")
	add(5, 1)
	test.EqualSlices(t, versions(), []int64{0, 0, 2, 1, 4, 1, 5, 0}, "without 3")
	add(6, 0)
	test.EqualSlices(t, versions(), []int64{2, 2, 4, 1, 5, 0, 6, 0}, "without 0, the oldest")
	test.Equal(t, b.dropped, int64(3), "dropped")
	for range 3 {
		add(7, 0)
	}
	test.EqualSlices(t, versions(), []int64{2, 2, 4, 1, 5, 0, 7, 3}, "the newest is dropped")
}
