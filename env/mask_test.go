package env_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// guarded is a counter whose actions are 2×3 choices. A step forbids the options just taken until the next step, and
// the last step forbids all options. Episodes have two steps. With broken, the first step forbids all options.
type guarded struct {
	counter
	taken  [][2]int32
	broken bool
}

func newGuarded(n int) *guarded {
	return &guarded{counter: counter{state: make([]float32, n)}, taken: make([][2]int32, n)}
}

func (g *guarded) Spec() env.Spec {
	s := g.counter.Spec()
	s.Action = env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{2}, Nvec: []int{2, 3}}
	s.Obs = append(s.Obs, env.Field{Name: env.ActionMask, Space: env.Space{
		Kind: env.Box, DType: tensor.U8, Shape: []int{5}, Low: make([]float32, 5), High: []float32{1, 1, 1, 1, 1},
	}})
	return s
}

func (g *guarded) Reset(n int, seed uint64) error {
	g.state[n], g.taken[n] = 0, [2]int32{-1, -1}
	return nil
}

func (g *guarded) Step(action tensor.Tensor, turn []env.Turn, _ []float32, terminated []byte, _ []float32) error {
	for n := range g.state {
		if turn[n] != env.Idle {
			g.state[n]++
			copy(g.taken[n][:], action.I32()[2*n:])
			if terminated[n] = 0; g.state[n] == 2 {
				terminated[n] = 1
			}
		}
	}
	return nil
}

func (g *guarded) Observe(mask []bool, obs tensor.Dict) {
	g.counter.Observe(mask, obs)
	for n, taken := range g.taken {
		if mask != nil && !mask[n] {
			continue
		}
		row := obs.Must(env.ActionMask).U8()[5*n : 5*n+5]
		clear(row)
		if g.state[n] == 2 || g.broken && g.state[n] == 1 {
			continue
		}
		for i := range row {
			if i < 2 && int32(i) != taken[0] || i >= 2 && int32(i-2) != taken[1] {
				row[i] = 1
			}
		}
	}
}

func choices(rows ...int32) tensor.Dict {
	var d tensor.Dict
	d.Set("action", tensor.FromI32(rows, len(rows)/2, 1, 2))
	return d
}

// TestActionMask: wrappers show the mask unchanged, and stacked frames have the last mask alone. If no option is
// allowed at the end of an episode, the wrapper allows all options.
func TestActionMask(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.FrameStack = 3
	v := env.Wrap(env.NewEpisodic(newGuarded(2), cfg), cfg)
	if f := v.Spec().Obs[1]; f.Dim() != 5 || v.Spec().Obs[0].Dim() != 3 {
		t.Fatalf("mask of %v, state of %v", f.Shape, v.Spec().Obs[0].Shape)
	}
	out := begin(t, v, 1, 1, 2)
	wantU8(t, "at first", out.Obs.Must(env.ActionMask), 1, 1, 1, 1, 1 /**/, 1, 1, 1, 1, 1)
	step(t, v, out, choices(0, 2, 1, 1), 3, 4)
	after := []byte{0, 1, 1, 1, 0 /**/, 1, 0, 1, 0, 1}
	wantU8(t, "after a step", out.Obs.Must(env.ActionMask), after...)
	step(t, v, out, choices(1, 0, 0, 0), 3, 4)
	wantU8(t, "at the end", out.FinalObs.Must(env.ActionMask), 1, 1, 1, 1, 1 /**/, 1, 1, 1, 1, 1)
	wantU8(t, "of the next episode", out.Obs.Must(env.ActionMask), 1, 1, 1, 1, 1 /**/, 1, 1, 1, 1, 1)

	step(t, v, out, choices(0, 2, 1, 1))
	wantU8(t, "without auto-reset", out.Obs.Must(env.ActionMask), after...)
	for range 2 { // in the second step the episodes are over
		step(t, v, out, choices(1, 0, 0, 0))
		wantU8(t, "done", out.Obs.Must(env.ActionMask), 1, 1, 1, 1, 1 /**/, 1, 1, 1, 1, 1)
	}
}

// TestAllow: allowed options stay; others become the next allowed ones, and after the last option the first.
func TestAllow(t *testing.T) {
	space := newGuarded(1).Spec().Action
	action := []int32{0, 1 /**/, 1, 2}
	space.Allow(action, []uint8{0, 1, 1, 1, 1 /**/, 1, 0, 0, 1, 0})
	if want := []int32{1, 1 /**/, 0, 1}; !slices.Equal(action, want) {
		t.Errorf("%v, want %v", action, want)
	}
}

func TestActionMaskErrors(t *testing.T) {
	sim := newGuarded(2)
	v := env.Wrap(env.NewEpisodic(sim, env.DefaultConfig()), env.DefaultConfig())
	out := begin(t, v, 1, 1, 2)
	sim.broken = true
	err := v.Step(choices(0, 0, 0, 0), []uint64{3, 4}, out)
	if err == nil || !strings.Contains(err.Error(),
		"action_mask of environment 0 allows no option of choice 0, expected at least one") {
		t.Errorf("a mask that allows nothing: %v", err)
	}

	box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{0}, High: []float32{1}}
	floats := env.Field{Name: env.ActionMask, Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{5}}}
	for want, spec := range map[string]env.Spec{
		"its actions are continuous":                {Name: "X", Obs: sim.Spec().Obs, Action: box},
		"F32[5]: expected a box of U8[5], the opti": {Name: "X", Obs: []env.Field{floats}, Action: sim.Spec().Action},
		"U8[5]: expected a box of U8[4], the optio": {Name: "X", Obs: sim.Spec().Obs,
			Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{4}}},
	} {
		test.Fails(t, spec.CheckMask(), want)
	}
	test.Check(t, sim.Spec().CheckMask())
}
