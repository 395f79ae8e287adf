package classic

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A trajectory is one episode of a golden file. Element k of each list is the result of Actions[k].
type trajectory struct {
	Initial    []float64         `json:"initial_state"`
	InitialObs []float64         `json:"initial_obs"`
	Actions    []json.RawMessage `json:"actions"`
	Obs        [][]float64       `json:"obs"`
	State      [][]float64       `json:"state"`
	Reward     []float64         `json:"reward"`
	Terminated []bool            `json:"terminated"`
	Truncated  []bool            `json:"truncated"`
}

// TestGolden compares every task with Gymnasium's trajectories: single steps from the recorded states, and whole
// episodes through the Vec from the recorded starts.
func TestGolden(t *testing.T) {
	t.Run("CartPole-v1", func(t *testing.T) { testGolden(t, NewCartPole, stepCartPole) })
	t.Run("Pendulum-v1", func(t *testing.T) { testGolden(t, NewPendulum, stepPendulum) })
	t.Run("MountainCar-v0", func(t *testing.T) { testGolden(t, NewMountainCar, stepMountainCar) })
	t.Run("MountainCarContinuous-v0",
		func(t *testing.T) { testGolden(t, NewMountainCarContinuous, stepMountainCarContinuous) })
	t.Run("Acrobot-v1", func(t *testing.T) { testGolden(t, NewAcrobot, stepAcrobot) })
}

func testGolden[S state, A int32 | float32](t *testing.T, make env.Constructor, step func(*S, A) (float64, bool)) {
	for i, ep := range envtest.Golden[trajectory](t, specOf(t, make).Name) {
		testSteps(t, i, ep, step)
		testEpisode(t, i, ep, make)
	}
}

func specOf(t *testing.T, make env.Constructor) env.Spec {
	t.Helper()
	v := test.Must(make(env.DefaultConfig(), 1))(t)
	return v.Spec()
}

// testSteps starts each step from the recorded state before it.
func testSteps[S state, A int32 | float32](t *testing.T, i int, ep trajectory, step func(*S, A) (float64, bool)) {
	before, checked := ep.Initial, 0
	for k, want := range ep.State {
		var s S
		for j := range len(s) {
			s[j] = before[j]
		}
		reward, terminated := step(&s, A(action(t, ep.Actions[k])))
		for j := range len(s) {
			if d := math.Abs(s[j] - want[j]); d > 1e-14 {
				t.Errorf("episode %d step %d: state[%d] = %v, want %v (%g off)", i, k, j, s[j], want[j], d)
			}
			checked++
		}
		if math.Abs(reward-ep.Reward[k]) > 1e-14 || terminated != ep.Terminated[k] {
			t.Errorf("episode %d step %d: reward %v, terminated %v, want %v, %v", i, k, reward, terminated,
				ep.Reward[k], ep.Terminated[k])
		}
		before = want
	}
	if want := len(ep.Actions) * len(before); checked != want || checked == 0 {
		t.Errorf("episode %d: compared %d numbers, want %d", i, checked, want)
	}
}

// Of CartPole's episodes longer than stabilised, the first comparable steps are compared. Their recorded actions
// balance an unstable pole, so a difference in the last bit of sin grows by a factor of 1.1 per step.
const stabilised, comparable = 400, 150

// testEpisode replays the actions through the Vec: float32 observations are equal in every step.
func testEpisode(t *testing.T, i int, ep trajectory, make env.Constructor) {
	vec := test.Must(make(env.DefaultConfig(), 1))(t)
	spec := vec.Spec()
	out := spec.NewStep(1, 1)
	test.OK(t, vec.Reset(nil, []uint64{0}, out))
	state := test.Must(env.Save(vec))(t)
	copy(state.Must("state").F64(), ep.Initial)
	test.OK(t, env.Load(vec, state))
	steps := len(ep.Actions)
	if spec.Name == "CartPole-v1" && steps > stabilised {
		steps = comparable
	}
	var act tensor.Dict
	act.Set("action", tensor.New(spec.Action.DType, 1, 1, 1))
	for k := range steps {
		a := action(t, ep.Actions[k])
		if spec.Action.Kind == env.Discrete {
			act.Must("action").I32()[0] = int32(a)
		} else {
			act.Must("action").F32()[0] = float32(a)
		}
		test.OK(t, vec.Step(act, nil, out))
		for j, got := range out.Obs.Must("state").F32() {
			if want := float32(ep.Obs[k][j]); got != want {
				t.Fatalf("episode %d step %d: obs[%d] = %v, want %v", i, k, j, got, want)
			}
		}
		if got, want := out.Reward.F32()[0], float32(ep.Reward[k]); got != want {
			t.Errorf("episode %d step %d: reward %v, want %v", i, k, got, want)
		}
		terminated, truncated := out.Terminated.U8()[0] != 0, out.Truncated.U8()[0] != 0
		if terminated != ep.Terminated[k] || truncated != ep.Truncated[k] {
			t.Errorf("episode %d step %d: terminated %v, truncated %v, want %v, %v", i, k, terminated, truncated,
				ep.Terminated[k], ep.Truncated[k])
		}
		if column := spec.InfoIndex("success"); column >= 0 {
			success := terminated // the goal is reached
			if spec.Name == "CartPole-v1" {
				success = truncated && !terminated // the pole stands to the end
			}
			test.Equal(t, out.Info.F32()[column] != 0, success, "episode %d step %d: success", i, k)
		}
	}
}

// action reads a number, or a list of one number.
func action(t *testing.T, raw json.RawMessage) float64 {
	t.Helper()
	var x float64
	if err := json.Unmarshal(raw, &x); err == nil {
		return x
	}
	var list []float64
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		t.Fatalf("action %s", raw)
	}
	return list[0]
}
