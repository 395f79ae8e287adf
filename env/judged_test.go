package env_test

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// patient is a judge that sees success from the second step of an episode on.
func patient(hold int, terminal bool) env.Judge {
	return env.Judge{Camera: "state", Threshold: 0.5, Hold: hold, Terminal: terminal, Weight: 10, EnvWeight: 1,
		Score: func(score []float32, images tensor.Tensor) {
			for n, x := range images.F32() {
				if score[n] = 0.2; x-float32(int(x)) > 0.015 {
					score[n] = 0.9
				}
			}
		}}
}

// The judge's successes end an episode in the step that completes them, and the next episode begins in the same step.
// The simulator's own end counts, too, and both begin the successes anew.
func TestJudged(t *testing.T) {
	v := env.NewJudged(newCounter(env.DefaultConfig(), 2), patient(2, false))
	out := begin(t, v, 1, 1, 2)
	step(t, v, out, actions(1, 3, 4), 10, 20)
	wantF32(t, "first step", out.Reward, 2+3, 2+4)
	step(t, v, out, actions(1, 3, 100), 10, 20) // the simulator ends the second one
	wantF32(t, "second step", out.Reward, 9+3, 9+100)
	wantU8(t, "second step", out.Terminated, 0, 1)
	step(t, v, out, actions(1, 3, 4), 11, 21)
	wantF32(t, "third step", out.Reward, 9+3, 2+4)
	wantU8(t, "third step", out.Terminated, 1, 0)
	wantF32(t, "observations", out.Obs.Must("state"), 11, 20.01)
	wantF32(t, "last observation", out.FinalObs.Must("state").Slice(0, 1), 1.03)
	step(t, v, out, actions(1, 3, 4), 12, 22)
	step(t, v, out, actions(1, 3, 4), 13, 23)
	wantU8(t, "fifth step", out.Terminated, 0, 1)
	state := test.Must(v.Save())(t)
	test.Equal(t, state.Must("judge.held").I32()[0], 1)
	action, seeds := actions(1, 3, 4), []uint64{13, 23}
	test.NoAllocs(t, 20, func() { test.OK(t, v.Step(action, seeds, out)) })
}

// Without a number of successes, no episode ends by them. In the mode terminal only last steps have a score.
func TestJudgedEnds(t *testing.T) {
	t.Parallel()
	v := env.NewJudged(newCounter(env.DefaultConfig(), 1), patient(0, true))
	out := begin(t, v, 1, 1)
	for i := range 5 {
		step(t, v, out, actions(1, 3), 10)
		want, truncated := float32(3), byte(0)
		if i == 4 {
			want, truncated = 9+3, 1
		}
		wantF32(t, "reward", out.Reward, want)
		wantU8(t, "truncated", out.Truncated, truncated)
		wantU8(t, "terminated", out.Terminated, 0)
	}
	v = env.NewJudged(newCounter(env.DefaultConfig(), 1), patient(1, true))
	out = begin(t, v, 1, 1)
	step(t, v, out, actions(1, 3), 10)
	wantF32(t, "first reward", out.Reward, 3)
	step(t, v, out, actions(1, 3), 10)
	wantF32(t, "last reward", out.Reward, 9+3)
}

// Successes do not count beyond the end of their episode.
func TestJudgedSuccessesOfAnEpisode(t *testing.T) {
	t.Parallel()
	j := patient(3, false)
	j.Score = func(score []float32, _ tensor.Tensor) { score[0] = 0.9 }
	v := env.NewJudged(newCounter(env.DefaultConfig(), 1), j)
	out := begin(t, v, 1, 1)
	step(t, v, out, actions(1, 3), 10)
	step(t, v, out, actions(1, 100), 10) // the simulator ends the episode
	wantU8(t, "second step", out.Terminated, 1)
	for i, want := range []byte{0, 0, 1} {
		step(t, v, out, actions(1, 3), 20)
		wantU8(t, "step of the next episode", out.Terminated, want)
		if i == 0 {
			wantF32(t, "observation", out.Obs.Must("state"), 10.01)
		}
	}
	wantF32(t, "third episode", out.Obs.Must("state"), 20)
}
