//go:build mujoco

package mujoco

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

// mixed returns a table with the instructions reach_cube, reach_ball and reach_zone and this InstructionMix.
func mixed(t *testing.T, mix string) table {
	t.Helper()
	cfg := suiteConfig("", "", "text")
	cfg.Instructions = env.Mix{"reach_cube": 1, "reach_ball": 1, "reach_zone": 1}
	cfg.InstructionMix = mix
	v := test.Must(TabletopSuite(cfg, 1))(t)
	t.Cleanup(func() { v.Close() })
	return table{t, v, v.Spec().NewStep(1, 1)}
}

// playMix plays a number of episodes. The cube is always reached, the zone every second time, and the ball never. It
// returns how often each instruction was drawn.
func playMix(t *testing.T, tb table, episodes int) map[string]int {
	t.Helper()
	drawn, names := map[string]int{}, tb.vec.Spec().Tasks
	for seed := range uint64(episodes) {
		start(t, tb.vec, []uint64{seed}, tb.out)
		name := names[int(tb.read("memo")[suiteOrder])]
		drawn[name]++
		tb.write("memo", suiteClock, 7) // the episode ends, with success or without
		if name == "reach_cube" || name == "reach_zone" && drawn[name]%2 == 0 {
			tb.write("memo", suiteLen+tallySolved, 1)
		}
	}
	return drawn
}

// nextSentences returns the sentences of the next 30 episodes.
func nextSentences(t *testing.T, tb table) (all []string) {
	t.Helper()
	for seed := range uint64(30) {
		start(t, tb.vec, []uint64{seed}, tb.out)
		all = append(all, tb.said())
	}
	return all
}

// TestSuiteMix: an instruction that succeeds half of the time is drawn the most often.
func TestSuiteMix(t *testing.T) {
	const episodes = 400
	drawn := playMix(t, mixed(t, env.MixBySuccess), episodes)
	if drawn["reach_zone"] < episodes*45/100 || drawn["reach_cube"] < episodes/10 || drawn["reach_ball"] < episodes/10 {
		t.Errorf("drawn %v: want the one that succeeds half of the time in about 55 %%, and all of them", drawn)
	}
}

// TestSuiteMixIsState: the counts are part of an environment's state, and change the following episodes.
func TestSuiteMixIsState(t *testing.T) {
	tb, other := mixed(t, env.MixBySuccess), mixed(t, env.MixBySuccess)
	playMix(t, tb, 400)
	start(t, other.vec, []uint64{0}, other.out)
	copyState(t, other.vec, tb.vec)
	said := nextSentences(t, tb)
	if resumed := nextSentences(t, other); !slices.Equal(said, resumed) {
		t.Errorf("after a resume the sentences are %q, want %q", resumed, said)
	}
	if slices.Equal(said, nextSentences(t, mixed(t, ""))) {
		t.Error("what succeeded makes no difference")
	}
}
