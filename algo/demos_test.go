package algo_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// Demonstrations of single actions become chunks, which end with their episodes.
func TestChunkedDemonstrations(t *testing.T) {
	const m = 6
	var file tensor.Dict
	file.Set("action", tensor.FromF32([]float32{0, 1, 2, 3, 4, 5}, m, 1, 1))
	file.Set("reward", tensor.FromF32([]float32{1, 2, 4, 8, 16, 32}, m))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 1, 0, 0}, tensor.U8, m))
	file.Set("truncated", tensor.Of([]byte{0, 0, 0, 0, 0, 1}, tensor.U8, m))
	file.Set("observation.x", tensor.FromF32([]float32{0, 1, 2, 3, 4, 5}, m, 1))
	file.Set("next_observation.x", tensor.FromF32([]float32{1, 2, 3, 9, 5, 6}, m, 1))
	field := func(name string, dtype tensor.DType, shape ...int) tensor.Field {
		return tensor.Field{Name: name, DType: dtype, Shape: append([]int{7, 2}, shape...)}
	}
	d := test.Must(algo.ReadDemos(writeDemos(t, file), []tensor.Field{field("action", tensor.F32, 3, 1),
		field("reward", tensor.F32), field("terminated", tensor.U8), field("truncated", tensor.U8),
		field("observation.x", tensor.F32, 1),
		field("next_observation.x", tensor.F32, 1)}))(t)
	for name, want := range map[string][]float32{
		"action": {0, 1, 2, 1, 2, 3, 2, 3, 3, 3, 3, 3, 4, 5, 5, 5, 5, 5}, "reward": {7, 14, 12, 8, 48, 32},
		"observation.x": {0, 1, 2, 3, 4, 5}, "next_observation.x": {3, 9, 9, 9, 6, 6},
	} {
		test.EqualSlices(t, d.Must(name).F32(), want, "%s", name)
	}
	test.EqualSlices(t, d.Must("terminated").U8(), []byte{0, 1, 1, 1, 0, 0}, "terminated")
}

// TestSplitChunkedDemonstrations: the demonstrations that are set aside are whole episodes, also if they became chunks.
// The file has episodes of 5, 1, 2 and 4 actions.
func TestSplitChunkedDemonstrations(t *testing.T) {
	const m = 12
	fields := transitions(1, 1, tensor.F32)
	fields[2].Shape = []int{1, 1, 3, 1} // chunks of three actions
	var file tensor.Dict
	file.Set("action", tensor.New(tensor.F32, m, 1, 1))
	file.Set("reward", tensor.New(tensor.F32, m))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1}, tensor.U8, m))
	file.Set("truncated", tensor.New(tensor.U8, m))
	file.Set("observation.state", tensor.New(tensor.F32, m, 1))
	file.Set("next_observation.state", tensor.New(tensor.F32, m, 1))
	d := test.Must(algo.ReadDemos(writeDemos(t, file), fields))(t)
	for share := 1; share < m; share++ {
		learnt, aside := algo.SplitDemos(d, float32(share)/m)
		n := learnt.Must(algo.FieldReward).Len()
		if ends := []int{5, 6, 8, m}; !slices.Contains(ends, n) || aside.Len() > 0 && m-n < share {
			t.Errorf("%d of %d transitions: %d are learnt, want one of %v, at most %d or all", share, m, n, ends,
				m-share)
		}
	}
}

// spaced has the spaces of an environment.
type spaced struct {
	obs    []env.Field
	action env.Space
}

func (s spaced) Spaces() ([]env.Field, env.Space) { return s.obs, s.action }

// TestFitDemos: demonstrations with a choice that the spaces do not have, or that the action mask forbids, are refused.
// The error names the transition and the value.
func TestFitDemos(t *testing.T) {
	choices := func(nvec ...int) env.Space {
		kind := env.MultiDiscrete
		if len(nvec) == 1 {
			kind = env.Discrete
		}
		return env.Space{Kind: kind, DType: tensor.I32, Shape: []int{len(nvec)}, Nvec: nvec}
	}
	bits := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{5}, Low: make([]float32, 5),
		High: []float32{1, 1, 1, 1, 1}}
	steps := env.Space{Kind: env.Box, DType: tensor.I32, Shape: []int{2}, Low: []float32{-3, 0}, High: []float32{3, 9}}
	to := spaced{[]env.Field{{Name: policy.ActionMask, Space: bits}, {Name: "place", Space: choices(4)},
		{Name: "steps", Space: steps}}, choices(2, 3)}
	number := func(name string, i int, x int32) func(tensor.Dict) {
		return func(d tensor.Dict) { d.Must(name).I32()[i] = x }
	}
	forbid := func(prefix string, lo, hi int) func(tensor.Dict) {
		return func(d tensor.Dict) { clear(d.Must(prefix + ".action_mask").U8()[lo:hi]) }
	}
	const m = 4
	for name, c := range map[string]struct {
		change func(d tensor.Dict)
		want   string // "" if the demonstrations fit
	}{
		"fits":      {func(tensor.Dict) {}, ""},
		"too large": {number("action", 5, 3), "action is 3 in transition 2: expected 0 to 2"},
		"another's": {number("action", 6, 2), "action is 2 in transition 3: expected 0 to 1"},
		"negative":  {number("action", 0, -1), "action is -1 in transition 0: expected 0 to 1"},
		"huge":      {number("action", 1, math.MaxInt32), "action is 2147483647 in transition 0: expected 0 to 2"},
		"a place":   {number("observation.place", 2, 4), "observation.place is 4 in transition 2: expected 0 to 3"},
		"the next steps": {number("next_observation.steps", 7, -1),
			"next_observation.steps is -1 in transition 3: expected 0 to 9"},
		"forbidden":    {forbid("observation", 7, 8), "action is 0 in transition 1: action_mask does not allow it"},
		"nothing left": {forbid("observation", 5, 7), "observation.action_mask of transition 1 allows no option"},
		"nothing left in the middle": {forbid("next_observation", 0, 5),
			"next_observation.action_mask of transition 0 allows no option"},
		"nothing left at the end": {forbid("next_observation", 15, 20), ""},
	} {
		var d tensor.Dict
		for _, prefix := range []string{"observation.", "next_observation."} {
			d.Set(prefix+"action_mask", tensor.Of(bytes.Repeat([]byte{1}, 5*m), tensor.U8, m, 5))
			d.Set(prefix+"place", tensor.New(tensor.I32, m, 1))
			d.Set(prefix+"steps", tensor.New(tensor.I32, m, 2))
		}
		d.Set("action", tensor.New(tensor.I32, m, 1, 2))
		d.Set("terminated", tensor.New(tensor.U8, m))
		d.Set("truncated", tensor.Of([]byte{0, 0, 0, 1}, tensor.U8, m))
		c.change(d)
		err := algo.FitDemos(d, to)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && bytes.IndexByte(d.Must("next_observation.action_mask").U8(), 0) >= 0 {
			t.Errorf("%s: a mask at the end of an episode forbids all options", name)
		}
	}
}

// TestFitChunkedDemos: the error names the transition of the action. In chunks that were cut from a file of single
// actions it is not the transition in which the chunk begins.
func TestFitChunkedDemos(t *testing.T) {
	to := spaced{action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}}
	var d, file tensor.Dict
	d.Set("action", tensor.FromI32([]int32{0, 1, 1, 0, 0, 2, 2, 2}, 4, 2, 1))
	test.Fails(t, algo.FitDemos(d, to), "action is 2 in transition 2: ")
	file.Set("action", tensor.FromI32([]int32{0, 1, 0, 2}, 4, 1, 1))
	file.Set("reward", tensor.New(tensor.F32, 4))
	file.Set("terminated", tensor.Of([]byte{0, 0, 0, 1}, tensor.U8, 4))
	file.Set("truncated", tensor.New(tensor.U8, 4))
	cut := test.Must(algo.ReadDemos(writeDemos(t, file), []tensor.Field{
		{Name: "action", DType: tensor.I32, Shape: []int{1, 1, 2, 1}},
		{Name: "reward", DType: tensor.F32, Shape: []int{1, 1}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{1, 1}},
		{Name: "truncated", DType: tensor.U8, Shape: []int{1, 1}}}))(t)
	test.Fails(t, algo.FitDemos(cut, to), "action is 2 in transition 3, in the chunk that begins in transition 2: ")
}

// writeDemos writes demonstrations to a file, and returns its path.
func writeDemos(t *testing.T, d tensor.Dict) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	var b bytes.Buffer
	test.OK(t, tensor.WriteSafetensors(&b, d, nil))
	test.OK(t, os.WriteFile(path, b.Bytes(), 0o666))
	return path
}

// TestMasksOfDemonstrations: an element of an action mask is 0 or 1.
func TestMasksOfDemonstrations(t *testing.T) {
	const name = algo.Observations + "." + policy.ActionMask
	var d tensor.Dict
	d.Set("reward", tensor.New(tensor.F32, 2))
	d.Set(name, tensor.Of([]uint8{1, 0, 1, 2}, tensor.U8, 2, 2))
	_, err := algo.ReadDemos(writeDemos(t, d), []tensor.Field{{Name: name, DType: tensor.U8, Shape: []int{1, 1, 2}}})
	if want := name + " is 2 in transition 1: expected 0 or 1"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
