//go:build mujoco

package mujoco

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
)

// TestSuiteMix: an instruction that succeeds half of the time is drawn the most often, and what was counted is part of
// an environment's state.
func TestSuiteMix(t *testing.T) {
	cfg := suiteConfig("", "", "text")
	cfg.Instructions, cfg.InstructionMix = env.Mix{"reach_cube": 1, "reach_ball": 1, "reach_zone": 1}, env.MixBySuccess
	v, err := TabletopSuite(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tb := table{t, v, v.Spec().NewStep(1, 1)}
	drawn, names := map[string]int{}, v.Spec().Tasks
	const episodes = 400
	for seed := range uint64(episodes) {
		start(t, v, []uint64{seed}, tb.out)
		memo := tb.read("memo")
		name := names[int(memo[suiteOrder])]
		drawn[name]++
		tb.write("memo", suiteClock, 7) // the episode ends, with success or without
		if name == "reach_cube" || name == "reach_zone" && drawn[name]%2 == 0 {
			tb.write("memo", suiteLen+tallySolved, 1)
		}
	}
	if n := drawn["reach_zone"]; n < episodes*45/100 || drawn["reach_cube"] < episodes/10 ||
		drawn["reach_ball"] < episodes/10 {
		t.Errorf("drawn %v: want the one that succeeds half of the time in about 55 %%, and all of them", drawn)
	}

	w, err := TabletopSuite(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	other := table{t, w, w.Spec().NewStep(1, 1)}
	start(t, w, []uint64{0}, other.out)
	copyState(t, w, v)
	var said, resumed []string
	for seed := range uint64(30) {
		for _, x := range []struct {
			of   table
			list *[]string
		}{{tb, &said}, {other, &resumed}} {
			start(t, x.of.vec, []uint64{seed}, x.of.out)
			*x.list = append(*x.list, x.of.said())
		}
	}
	if !slices.Equal(said, resumed) {
		t.Errorf("after a resume the sentences are %q, want %q", resumed, said)
	}
	cfg.InstructionMix = ""
	plain, err := TabletopSuite(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var without []string
	third := table{t, plain, plain.Spec().NewStep(1, 1)}
	for seed := range uint64(30) {
		start(t, plain, []uint64{seed}, third.out)
		without = append(without, third.said())
	}
	if slices.Equal(said, without) {
		t.Error("what succeeded makes no difference")
	}
}
