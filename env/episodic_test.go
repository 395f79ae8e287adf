package env_test

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

func TestEpisodicBothFlags(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps = 2
	v := newCounter(cfg, 3)
	test.Equal(t, v.Spec().MaxSteps, 2, "MaxSteps")
	out := begin(t, v, 1, 10, 20, 30)
	step(t, v, out, actions(1, 1, 1, 100), 1, 2, 3)
	wantU8(t, "terminated", out.Terminated, 0, 0, 1)
	wantU8(t, "truncated", out.Truncated, 0, 0, 0)
	step(t, v, out, actions(1, 1, 100, 1), 1, 2, 3)
	wantU8(t, "terminated at the limit", out.Terminated, 0, 1, 0)
	wantU8(t, "truncated at the limit", out.Truncated, 1, 1, 0)
	wantF32(t, "obs", out.Obs.Must("state"), 1, 2, 3.01)
	wantF32(t, "final obs", out.FinalObs.Must("state"), 10.02, 20.02, 30.01)
}

func TestEpisodicIgnoreTerminations(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.IgnoreTerminations = true
	v := newCounter(cfg, 1)
	out := begin(t, v, 5, 10)
	step(t, v, out, actions(5, 1, 100, 2, 100, 60), 20)
	wantF32(t, "reward", out.Reward, 1, 100, 2, 100, 60)
	wantU8(t, "terminated", out.Terminated, 0, 0, 0, 0, 0)
	wantU8(t, "truncated", out.Truncated, 0, 0, 0, 0, 1)
	wantF32(t, "info", out.Info, 0, 1, 0, 1, 1)
}

func TestEpisodicChunk(t *testing.T) {
	v := newCounter(env.DefaultConfig(), 2)
	out := begin(t, v, 4, 10, 20)
	step(t, v, out, actions(4, 1, 2, 3, 4, 5, 100, 60, 7))
	wantF32(t, "reward", out.Reward, 1, 2, 3, 4, 5, 100, 0, 0)
	wantU8(t, "terminated", out.Terminated, 0, 0, 0, 0, 0, 1, 0, 0)
	wantF32(t, "info", out.Info, 0, 0, 0, 0, 0, 1, 0, 0)
	wantF32(t, "obs", out.Obs.Must("state"), 10.04, 20.02)
	step(t, v, out, actions(4, 1, 2, 3, 4, 60, 60, 60, 60))
	wantF32(t, "reward of the second chunk", out.Reward, 1, 0, 0, 0, 0, 0, 0, 0)
	wantU8(t, "truncated", out.Truncated, 1, 0, 0, 0, 0, 0, 0, 0)
	wantU8(t, "terminated, again", out.Terminated, 0, 0, 0, 0, 1, 0, 0, 0)
	wantF32(t, "info, again", out.Info, 0, 0, 0, 0, 1, 0, 0, 0)
}

func TestEpisodicClose(t *testing.T) {
	sim := &counter{state: make([]float32, 1)}
	if err := env.NewEpisodic(sim, env.DefaultConfig()).Close(); err != nil || !sim.closed {
		t.Errorf("Close: %v, simulator closed: %v", err, sim.closed)
	}
}

func TestEpisodicOnlySuccess(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.RewardMode = env.RewardOnlySuccess
	v := newCounter(cfg, 2)
	out := begin(t, v, 3, 10, 20)
	step(t, v, out, actions(3, 1, 60, 2, 3, 100, 60))
	wantF32(t, "reward", out.Reward, 0, 1, 0, 0, 1, 0)
}
