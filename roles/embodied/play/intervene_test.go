package play

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// guided returns a step of three environments with chunks of two actions. A person acts in the second action of
// environment 1, beyond the bounds in the first of environment 2, and after the end of the episode of environment 0.
func guided() (env.Spec, *env.Step) {
	spec := fakeSpec
	spec.Intervene = true
	out := spec.NewStep(3, fakeChunk)
	out.Truncated.U8()[0] = 1
	copy(out.Intervened.U8(), []byte{0, env.Acted, 0, env.Acted, env.Clipped, 0})
	for i := range out.Taken.F32() {
		out.Taken.F32()[i] = float32(-i)
	}
	return spec, out
}

// TransitionEncoder have the actions that were taken, one by one. Other trajectories leave out the steps in which a
// person acted.
func TestInterventionsInRollouts(t *testing.T) {
	t.Parallel()
	spec, out := guided()
	for _, onPolicy := range []bool{false, true} {
		var dicts []tensor.Dict
		for _, n := range []int{1, 2} {
			fields := TransitionFields(spec, fakeChunk, 1, n, true)
			if onPolicy {
				fields = TrajectoryFields(spec, fakeChunk, fakeLogProbs, 1, 0, 0, 1, n, true)
			}
			layout := tensor.NewLayout(fields...)
			dicts = append(dicts, layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes()))
		}
		r := NewRolloutBuilder(&fakePolicy{}, 1, 0, 3, []int{0, 1, 3}, false)
		r.Begin(dicts, 0)
		act := test.Must(r.Act(0, out.Obs, true))(t)
		want := append([]float32(nil), act.Action.F32()...)
		test.OK(t, r.Observe(0, out))
		if !onPolicy {
			copy(want[6:8], []float32{-6, -7})
			copy(want[8:10], []float32{-8, -9})
		}
		field := algo.FieldIntervened
		flags := []byte{0, 1, 1}
		if onPolicy {
			field, flags = algo.FieldMask, []byte{1, 0, 0}
		}
		got := append(dicts[0].Must("action").F32(), dicts[1].Must("action").F32()...)
		test.EqualSlices(t, got, want, "actions, on-policy", onPolicy)
		test.EqualSlices(t, append(dicts[0].Must(field).U8(), dicts[1].Must(field).U8()...), flags, field)
	}
}

// Recordings have what was taken, and say where a person acted.
func TestInterventionsOnTapes(t *testing.T) {
	t.Parallel()
	spec, out := guided()
	tr := NewTransitionEncoder(spec, 3, fakeChunk, false)
	for i, want := range [][]float32{{1, 1, 1, 1}, {1, 1, -6, -7}, {-8, -9, 1, 1}} {
		actions := tensor.New(tensor.F32, 3, fakeChunk, 2)
		for k := range actions.F32() {
			actions.F32()[k] = 1
		}
		row := tr.Append(nil, i, actions, out, out.Obs)
		test.Equal(t, len(row), tr.Size(), "bytes of a transition")
		d := map[string][]byte{}
		for _, f := range tr.Fields {
			d[f.Name], row = row[:f.Bytes()], row[f.Bytes():]
		}
		got := tensor.New(tensor.F32, 4)
		copy(got.Bytes(), d[algo.FieldAction])
		test.EqualSlices(t, got.F32(), want, "actions of environment", i)
		test.Equal(t, d[algo.FieldIntervened][0], byte(min(i, 1)), "intervened")
	}
}
