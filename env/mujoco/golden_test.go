//go:build mujoco

package mujoco

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A trajectory is one episode of a golden file. Element k of each list is the result of Actions[k].
type trajectory struct {
	QPos       []float64   `json:"initial_qpos"`
	QVel       []float64   `json:"initial_qvel"`
	InitialObs []float64   `json:"initial_obs"`
	Actions    [][]float64 `json:"actions"`
	Obs        [][]float64 `json:"obs"`
	Reward     []float64   `json:"reward"`
	Terminated []bool      `json:"terminated"`
}

// TestGolden replays Gymnasium's trajectories. Observations and rewards are equal to the last bit of float64, and
// episodes end in the same steps.
func TestGolden(t *testing.T) {
	if library() != "2.2.2" {
		t.Skipf("the trajectories are of MuJoCo 2.2.2, this is %s", library())
	}
	for _, d := range []definition{halfCheetah(V4), halfCheetah(V5), invertedPendulum(V5), reacher(V4), walker2d(V5)} {
		name := d.source().name
		t.Run(name, func(t *testing.T) {
			s := open(t, d, 1)
			compared := 0
			for i, ep := range envtest.Golden[trajectory](t, name) {
				s.place(t, 0, ep.QPos, ep.QVel)
				compared += s.compare(t, i, -1, ep.InitialObs)
				for k := range ep.Actions {
					reward, terminated := s.act(t, ep.Actions[k])
					compared += s.compare(t, i, k, ep.Obs[k])
					if reward != ep.Reward[k] || terminated != ep.Terminated[k] {
						t.Fatalf("episode %d step %d: reward %v, terminated %v, want %v, %v", i, k, reward, terminated,
							ep.Reward[k], ep.Terminated[k])
					}
				}
			}
			if compared < 1000 {
				t.Errorf("compared %d numbers", compared)
			}
		})
	}
}

// open makes n environments of d, which the test closes.
func open(t testing.TB, d definition, n int) *simulator {
	t.Helper()
	s := test.Must(newSimulator(d.source(), d.plan, n))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// place puts environment n into a state.
func (s *simulator) place(t testing.TB, n int, qpos, qvel []float64) {
	t.Helper()
	s.batch.clear(n)
	copy(s.batch.physics[n].qpos, qpos)
	copy(s.batch.physics[n].qvel, qvel)
	test.OK(t, s.batch.begin(n))
}

// act takes one step of the only environment. The returned reward is not rounded to float32.
func (s *simulator) act(t *testing.T, action []float64) (float64, bool) {
	t.Helper()
	var reward float64
	inner := s.task.step
	s.task.step = func(p *physics, a []float32, note []float64, info []float32) (r float64, end bool) {
		r, end = inner(p, a, note, info)
		reward = r
		return r, end
	}
	defer func() { s.task.step = inner }()
	a := tensor.New(tensor.F32, 1, len(action))
	for i := range action {
		a.F32()[i] = float32(action[i])
	}
	terminated := make([]byte, 1)
	test.OK(t, s.Step(a, []env.Turn{env.Live}, make([]float32, 1), terminated,
		make([]float32, len(s.task.info))))
	return reward, terminated[0] != 0
}

// compare compares the observation of environment 0 with want, and returns the number of compared numbers.
func (s *simulator) compare(t *testing.T, episode, k int, want []float64) int {
	t.Helper()
	s.task.views[0].observe(&s.batch.physics[0], s.obs)
	if len(want) != len(s.obs) {
		t.Fatalf("%d numbers observed, want %d", len(s.obs), len(want))
	}
	for i, x := range s.obs {
		if x != want[i] {
			t.Fatalf("episode %d step %d: obs[%d] = %v, want %v (%g off)", episode, k, i, x, want[i], x-want[i])
		}
	}
	return len(want)
}
