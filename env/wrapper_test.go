package env_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestContract runs the conformance suite over every wrapper of the environments that need only Go.
func TestContract(t *testing.T) {
	registry := all.Registry()
	wrap := map[string]func(*env.Config){
		"repeat": func(c *env.Config) { c.ActionRepeat = 3 },
		"reward": func(c *env.Config) { c.RewardCoef, c.RewardClip = -0.5, 0.4 },
		"rel":    func(c *env.Config) { c.UseRelReward = true },
		"part":   func(c *env.Config) { c.StateElements = []int{1, 0} },
		"stack":  func(c *env.Config) { c.FrameStack = 3 },
		"delay":  func(c *env.Config) { c.StepDelay = time.Nanosecond },
		"all": func(c *env.Config) {
			c.ActionRepeat, c.RewardCoef, c.StateElements = 2, 0.1, []int{1, 0}
			c.FrameStack, c.StepDelay = 2, time.Nanosecond
		},
	}
	for _, name := range []string{"CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0",
		"Acrobot-v1"} {
		for what, with := range wrap {
			t.Run(name+"/"+what, func(t *testing.T) {
				cfg := env.DefaultConfig()
				cfg.EnvType, cfg.MaxEpisodeSteps = name, 20
				with(&cfg)
				envtest.Run(t, func(n int) (env.Vec, error) { return registry.New(cfg, n) },
					envtest.Options{ChunkFrames: cfg.FrameStack > 1})
			})
		}
	}
}

func TestActionRepeat(t *testing.T) {
	v := env.NewActionRepeat(newCounter(env.DefaultConfig(), 2), 3)
	if got := v.Spec().MaxSteps; got != 2 { // 5 steps of the simulator are an action of 3 steps and an action of 2
		t.Errorf("MaxSteps %d, want 2", got)
	}
	out := begin(t, v, 1, 10, 20)
	step(t, v, out, actions(1, 1, 100))
	wantF32(t, "reward", out.Reward, 3, 100) // environment 1 ends in the first of its three steps
	wantU8(t, "terminated", out.Terminated, 0, 1)
	wantF32(t, "obs", out.Obs.Must("state"), 10.03, 20.01)
	step(t, v, out, actions(1, 1, 1), 30, 40)
	wantF32(t, "reward", out.Reward, 2, 0)
	wantU8(t, "truncated", out.Truncated, 1, 0)
	wantU8(t, "terminated", out.Terminated, 0, 1)
	wantF32(t, "final obs", out.FinalObs.Must("state").Slice(0, 1), 10.05)
	wantF32(t, "obs", out.Obs.Must("state"), 30, 20.01)

	out = begin(t, v, 2, 10, 20)
	step(t, v, out, actions(2, 1, 2, 60, 3), 30, 40)
	wantF32(t, "reward of a chunk", out.Reward, 3, 4, 180, 6)
	wantU8(t, "truncated of a chunk", out.Truncated, 0, 1, 0, 1)
	wantF32(t, "info of a chunk", out.Info, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0)
	if steps := out.Steps.I32(); steps[0] != 5 || steps[1] != 5 {
		t.Errorf("steps of a chunk: %v, want 5 each", steps)
	}
	step(t, v, out, actions(2, 1, 2, 100, 3))
	step(t, v, out, actions(2, 1, 2, 100, 3))
	wantF32(t, "info of what is done", out.Info, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)
	if steps := out.Steps.I32(); steps[0] != 1 || steps[1] != 1 {
		t.Errorf("steps of what is done: %v, want 1 each: the last", steps)
	}
	twice := env.NewActionRepeat(env.NewActionRepeat(newCounter(env.DefaultConfig(), 1), 2), 2)
	out = begin(t, twice, 1, 10)
	step(t, twice, out, actions(1, 1), 30)
	step(t, twice, out, actions(1, 60), 30)
	wantF32(t, "info of repeats repeated", out.Info, 1, 0, 0, 0)
	if steps := out.Steps.I32()[0]; steps != 1 {
		t.Errorf("%d steps of repeats repeated, want the last of 5", steps)
	}
}

func TestRewardScale(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps = 1000
	v := env.NewRewardScale(newCounter(cfg, 2), -0.5, 3, false)
	out := begin(t, v, 2, 10, 20)
	step(t, v, out, actions(2, 1, 2, -60, 60))
	wantF32(t, "reward", out.Reward, -0.5, -1, 3, -3)
	wantF32(t, "info", out.Info, 0, 1, 0, 2, 0, -60, 1, 60) // success, task_reward
	v = env.NewRewardScale(newCounter(cfg, 1), 2, 0, false)
	out = begin(t, v, 1, 10)
	step(t, v, out, actions(1, 90))
	wantF32(t, "reward without clipping", out.Reward, 180)
}

func TestRelativeReward(t *testing.T) {
	v := env.NewRewardScale(newCounter(env.DefaultConfig(), 2), 2, 0, true)
	out := begin(t, v, 2, 10, 20)
	step(t, v, out, actions(2, 1, 4, 100, 3), 30, 40) // environment 1 ends in its first step, and begins again
	wantF32(t, "first", out.Reward, 2, 6, 200, 0)
	wantF32(t, "the task's", out.Info, 0, 1, 0, 4, 1, 100, 0, 0)
	state := test.Must(env.Save(v))(t)
	step(t, v, out, actions(2, 3, 100, 5, 6))
	wantF32(t, "second", out.Reward, -2, 194, 10, 2)
	step(t, v, out, actions(2, 7, 7, 8, 8))
	wantF32(t, "the first idles", out.Reward, 0, 0, 4, 0)
	test.OK(t, v.Reset([]bool{false, true}, []uint64{50, 60}, out))
	step(t, v, out, actions(2, 7, 7, 8, 8))
	wantF32(t, "reset of one", out.Reward, 0, 0, 16, 0)

	again := env.NewRewardScale(newCounter(env.DefaultConfig(), 2), 2, 0, true)
	test.OK(t, env.Load(again, state))
	step(t, again, out, actions(2, 3, 100, 5, 6))
	wantF32(t, "after Load", out.Reward, -2, 194, 10, 2)
	if err := env.Load(again, tensor.Dict{}); err == nil || !strings.Contains(err.Error(), "last_reward") {
		t.Errorf("state without last_reward: error %v", err)
	}
}

func TestFrameStack(t *testing.T) {
	v := env.NewFrameStack(newCounter(env.DefaultConfig(), 2), 3)
	if got := v.Spec().Obs[0]; len(got.Shape) != 2 || got.Shape[0] != 3 || got.Shape[1] != 1 || len(got.Low) != 3 {
		t.Errorf("Spec: %+v", got)
	}
	out := begin(t, v, 1, 10, 20)
	obs, final := out.Obs.Must("state"), out.FinalObs.Must("state")
	wantF32(t, "first", obs, 10, 10, 10, 20, 20, 20)
	step(t, v, out, actions(1, 1, 1), 30, 40)
	wantF32(t, "second", obs, 10, 10, 10.01, 20, 20, 20.01)
	step(t, v, out, actions(1, 1, 100), 30, 40)
	wantF32(t, "final", final.At(1), 20, 20.01, 20.02)
	wantF32(t, "after the end", obs, 10, 10.01, 10.02, 40, 40, 40)
	step(t, v, out, actions(1, 100, 1))
	step(t, v, out, actions(1, 1, 1))
	wantF32(t, "done and not done", obs, 10.01, 10.02, 10.03, 40, 40.01, 40.02)
	test.OK(t, v.Reset([]bool{true, false}, []uint64{50, 60}, out))
	wantF32(t, "reset of one", obs, 50, 50, 50, 40, 40.01, 40.02)
	step(t, v, out, actions(1, 1, 1))
	wantF32(t, "on it goes", obs, 50, 50, 50.01, 40.01, 40.02, 40.03)
}

// TestPartial: observations and final observations of CartPole are the chosen elements in the chosen order. All other
// results are the same as without the wrapper.
func TestPartial(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps = "CartPole-v1", 20
	whole := test.Must(all.Registry().New(cfg, 3))(t)
	cfg.StateElements = []int{2, 0}
	part := test.Must(all.Registry().New(cfg, 3))(t)
	if f, g := part.Spec().Obs[0], whole.Spec().Obs[0]; f.Dim() != 2 || f.High[0] != g.High[2] || f.Low[1] != g.Low[0] {
		t.Errorf("Spec: %+v", f)
	}
	seeds := []uint64{1, 2, 3}
	a, b := whole.Spec().NewStep(3, 1), part.Spec().NewStep(3, 1)
	same := func(what string, n int, got, want tensor.Dict) {
		t.Helper()
		g, w := got.Must("state").At(n).F32(), want.Must("state").At(n).F32()
		if g[0] != w[2] || g[1] != w[0] {
			t.Errorf("%s of %d: %v of %v", what, n, g, w)
		}
	}
	test.OK(t, errors.Join(whole.Reset(nil, seeds, a), part.Reset(nil, seeds, b)))
	var action tensor.Dict
	action.Set("action", tensor.FromI32([]int32{0, 1, 0}, 3, 1, 1))
	ends := 0
	for range 30 {
		test.OK(t, errors.Join(whole.Step(action, seeds, a), part.Step(action, seeds, b)))
		for n := range 3 {
			same("observation", n, b.Obs, a.Obs)
			if _, ended := a.Took(n); ended {
				same("final observation", n, b.FinalObs, a.FinalObs)
				ends++
			}
		}
	}
	if ends == 0 {
		t.Error("no episode ended: the test sees too little")
	}
	for want, elements := range map[string][]int{
		"CartPole-v1: state_elements [0 4]: element 4, expected some of 0 to 3": {0, 4},
		"state_elements [1 1]: element 1":                                       {1, 1},
	} {
		cfg.StateElements = elements
		if _, err := all.Registry().New(cfg, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want … %s …", err, want)
		}
	}
}

func TestDelay(t *testing.T) {
	const per = time.Millisecond
	v := env.NewDelay(newCounter(env.DefaultConfig(), 1), per, 0)
	out := begin(t, v, 2, 0)
	start := time.Now()
	step(t, v, out, actions(2, 1, 1))
	if took := time.Since(start); took < 2*per {
		t.Errorf("a chunk of 2 took %v, want at least %v", took, 2*per)
	}
}

// mute is a Vec that is no Saver, whatever the Vec inside is.
type mute struct{ env.Vec }

func TestSaveUnsupported(t *testing.T) {
	v := env.Wrap(mute{newCounter(env.DefaultConfig(), 1)},
		env.Config{ActionRepeat: 2, RewardCoef: 2, FrameStack: 2, StepDelay: 1})
	if _, err := env.Save(v); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Save: %v, want ErrUnsupported", err)
	}
}

func TestLoadErrors(t *testing.T) {
	v := env.NewFrameStack(newCounter(env.DefaultConfig(), 2), 2)
	begin(t, v, 1, 1, 2)
	good := test.Must(env.Save(v))(t)
	for _, without := range []string{"episode.elapsed", "episode.over", "episode.info", "frames.state", "frames_over"} {
		var d tensor.Dict
		for i := range good.Len() {
			if name, tt := good.Entry(i); name != without {
				d.Set(name, tt)
			}
		}
		if err := env.Load(v, d); err == nil || !strings.Contains(err.Error(), without) {
			t.Errorf("state without %s: error %v", without, err)
		}
	}
}
