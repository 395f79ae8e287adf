//go:build mujoco

package mujoco

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// wantFault checks that err is a fault of environment 1 at a time from 0.05 s to 0.09 s.
func wantFault(t *testing.T, err error, want string) {
	t.Helper()
	var f *SimulationError
	if !errors.As(err, &f) || f.Env != 1 || !strings.Contains(err.Error(), "environment 1") ||
		!strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want a fault of environment 1 with %q", err, want)
	}
	if f.Time < 0.05-1e-9 || f.Time > 0.09+1e-9 || strings.Contains(err.Error(), "Time") {
		t.Errorf("%v at %v: want one time from 0.05 s to 0.09 s", err, f.Time)
	}
}

// TestFault spoils one environment of three. The error of the step names this environment, the others take the step,
// and after a reset the spoilt environment works again.
func TestFault(t *testing.T) {
	live := []env.Turn{env.Live, env.Live, env.Live}
	for _, c := range []struct {
		name  string
		spoil func(p *physics)
		want  string
	}{
		{"NaN position", func(p *physics) { p.qpos[3] = math.NaN() }, "QPOS at DOF 3"},
		{"infinite velocity", func(p *physics) { p.qvel[2] = math.Inf(1) }, "QVEL at DOF 2"},
		{"explosion", func(p *physics) { p.qvel[4] = 9e9 }, "unstable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, fine := open(t, halfCheetah(V5), 3), open(t, halfCheetah(V5), 3)
			for n := range 3 {
				test.OK(t, errors.Join(s.Reset(n, uint64(n)), fine.Reset(n, uint64(n))))
			}
			a := tensor.New(tensor.F32, 3, 6)
			reward, terminated := make([]float32, 3), make([]byte, 3)
			test.OK(t, errors.Join(s.Step(a, live, reward, terminated, nil),
				fine.Step(a, live, reward, terminated, nil)))
			c.spoil(&s.batch.physics[1])
			wantFault(t, s.Step(a, live, reward, terminated, nil), c.want)
			want := make([]float32, 3)
			test.OK(t, fine.Step(a, live, want, terminated, nil))
			if reward[0] != want[0] || reward[2] != want[2] || want[0] == 0 {
				t.Errorf("rewards %v, want those of environments 0 and 2 from %v", reward, want)
			}
			if err := s.Step(a, live, reward, terminated, nil); err == nil ||
				!strings.Contains(err.Error(), "environment 1") {
				t.Errorf("a step of the lost environment: %v", err)
			}
			idle := []env.Turn{env.Live, env.Idle, env.Live}
			test.OK(t, errors.Join(s.Step(a, idle, reward, terminated, nil),
				fine.Step(a, idle, want, terminated, nil)))
			test.OK(t, errors.Join(s.Reset(1, 9), fine.Reset(1, 9)))
			test.OK(t, errors.Join(s.Step(a, live, reward, terminated, nil),
				fine.Step(a, live, want, terminated, nil)))
			test.EqualSlices(t, reward, want, "after a reset: rewards")
		})
	}
}

// TestFaultSaved: a step from an invalid loaded state is a fault. A lost environment is also lost where its saved state
// is loaded.
func TestFaultSaved(t *testing.T) {
	s := open(t, hopper(V4), 2)
	for n := range 2 {
		test.OK(t, s.Reset(n, 1))
	}
	state, err := s.Save()
	test.OK(t, err)
	state.Must("qvel").F64()[0] = math.NaN()
	test.OK(t, s.Load(state))
	a, turn := tensor.New(tensor.F32, 2, 3), []env.Turn{env.Live, env.Live}
	var f *SimulationError
	if err := s.Step(a, turn, make([]float32, 2), make([]byte, 2), nil); !errors.As(err, &f) || f.Env != 0 {
		t.Fatalf("%v, want a fault of environment 0", err)
	}
	if state, err = s.Save(); err != nil {
		t.Fatal(err)
	}
	again := open(t, hopper(V4), 2)
	test.OK(t, again.Load(state))
	if err := again.Step(a, turn, make([]float32, 2), make([]byte, 2), nil); err == nil ||
		!strings.Contains(err.Error(), "lost") {
		t.Errorf("a step of a lost environment that was loaded: %v", err)
	}
}

// box4 is a box above the ground. The contacts of a box on the ground do not fit into the sizes of the test: MuJoCo
// warns of one size, and stops at the other.
const box4 = `<mujoco>
  <size njmax="400" %s/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 3"><joint name="lift" type="slide" axis="0 0 1"/><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
  <actuator><motor joint="lift"/></actuator>
</mujoco>`

// TestFaultWords: a SimulationError has the text of MuJoCo's warning or error.
func TestFaultWords(t *testing.T) {
	for name, c := range map[string]struct{ size, want string }{
		"warning": {`nconmax="2"`, "contact buffer is full"},
		"error":   {`nstack="100"`, "tack overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			still := func(m *model) (task, error) {
				return task{
					skip: 1, limit: 1, actuator: m.all(),
					step:  func(*physics, []float32, []float64, []float32) (float64, bool) { return 0, false },
					views: stateView(m.nq, func(p *physics, obs []float64) { copy(obs, p.qpos) }),
				}, nil
			}
			s, err := newSimulator(source{name: "Still", file: "still.xml", text: fmt.Appendf(nil, box4, c.size)},
				still, 2)
			test.OK(t, err)
			defer s.Close()
			a, turn := tensor.New(tensor.F32, 2, 1), []env.Turn{env.Live, env.Live}
			for range 2 { // the second time, the environments have new data
				s.batch.physics[0].qpos[0], s.batch.physics[1].qpos[0] = -2.91, -2.91
				err = s.Step(a, turn, make([]float32, 2), make([]byte, 2), nil)
				var f *SimulationError
				if !errors.As(err, &f) || f.Env != 0 || strings.Count(err.Error(), c.want) != 1 ||
					!strings.HasSuffix(err.Error(), ", and 1 more") || !s.lost[1] {
					t.Fatalf("%v, want a fault of both environments with %q, of environment 0 in words", err, c.want)
				}
				clear(s.lost)
			}
		})
	}
}
