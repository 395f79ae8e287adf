//go:build mujoco

package mujoco

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
)

// definitions lists every named environment.
func definitions() (list []definition) {
	for _, v := range []Version{V4, V5} {
		list = append(list, invertedPendulum(v), reacher(v), halfCheetah(v), hopper(v), walker2d(v), ant(v), pusher(v))
	}
	return list
}

func TestContract(t *testing.T) {
	for _, d := range definitions() {
		t.Run(d.source().name, func(t *testing.T) {
			cfg := env.DefaultConfig()
			cfg.MaxEpisodeSteps = 23
			envtest.Run(t, func(n int) (env.Vec, error) { return d.constructor()(cfg, n) }, envtest.Options{})
		})
	}
}

// TestSpec: sizes and limits are those of Gymnasium.
func TestSpec(t *testing.T) {
	want := map[string]struct {
		obs, action, steps int
		bound              float32
	}{
		"InvertedPendulum": {4, 1, 1000, 3}, "Reacher": {11, 2, 50, 1}, "HalfCheetah": {17, 6, 1000, 1},
		"Hopper":   {11, 3, 1000, 1},
		"Walker2d": {17, 6, 1000, 1}, "Ant": {27, 8, 1000, 1}, "Pusher": {23, 7, 100, 2},
	}
	for _, d := range definitions() {
		w, spec := want[d.name], open(t, d, 1).spec
		switch spec.Name {
		case "Reacher-v5":
			w.obs = 10
		case "Ant-v5":
			w.obs = 105
		}
		if spec.Obs[0].Dim() != w.obs || spec.Action.Dim() != w.action || spec.MaxSteps != w.steps {
			t.Errorf("%s: observes %d, takes %d, %d steps, want %+v", spec.Name, spec.Obs[0].Dim(), spec.Action.Dim(),
				spec.MaxSteps, w)
		}
		if spec.Action.Low[0] != -w.bound || slices.Max(spec.Action.High) != w.bound {
			t.Errorf("%s: actions in %v, %v, want ±%v", spec.Name, spec.Action.Low, spec.Action.High, w.bound)
		}
	}
}

// TestSaveExactly: an environment with a loaded state has the same observations as the saved one, at once and after
// steps, to the last bit of float64. That includes the end of an episode.
func TestSaveExactly(t *testing.T) {
	for _, d := range definitions() {
		t.Run(d.source().name, func(t *testing.T) {
			s, again := open(t, d, 1), open(t, d, 1)
			test.OK(t, errors.Join(s.Reset(0, 3), again.Reset(0, 4)))
			action := make([]float64, len(s.task.actuator))
			for k := range 40 {
				for i := range action {
					action[i] = 0.3 * math.Sin(float64(k+3*i))
				}
				if k%8 == 7 {
					state := test.Must(s.Save())(t)
					test.OK(t, again.Load(state))
					s.task.views[0].observe(&s.batch.physics[0], s.obs)
					again.compare(t, 0, k, s.obs)
				}
				want, _ := s.act(t, action)
				if k < 7 {
					continue
				}
				if got, _ := again.act(t, action); got != want {
					t.Fatalf("step %d: reward %v, want %v", k, got, want)
				}
				s.task.views[0].observe(&s.batch.physics[0], s.obs)
				again.compare(t, 0, k, s.obs)
			}
		})
	}
}

// TestInitialStates: initial states have the bounds and the spread that the tasks define.
func TestInitialStates(t *testing.T) {
	for _, c := range []struct {
		d               definition
		at              int // index of an element of qpos followed by qvel
		low, high, mean float64
	}{
		{invertedPendulum(V4), 0, -0.01, 0.01, 0}, {invertedPendulum(V4), 3, -0.01, 0.01, 0},
		{halfCheetah(V4), 8, -0.1, 0.1, 0}, {halfCheetah(V4), 9, -0.4, 0.4, 0},
		{hopper(V4), 1, 1.245, 1.255, 1.25}, {walker2d(V5), 17, -0.005, 0.005, 0},
		{ant(V4), 2, 0.65, 0.85, 0.75}, {ant(V5), 28, -0.4, 0.4, 0},
		{reacher(V4), 1, -0.1, 0.1, 0}, {reacher(V4), 2, -0.2, 0.2, 0}, {reacher(V5), 6, 0, 0, 0},
		{reacher(V5), 4, -0.005, 0.005, 0},
		{pusher(V4), 7, -0.3, 0, -0.18}, {pusher(V4), 8, -0.2, 0.2, 0}, {pusher(V5), 0, 0, 0, 0},
		{pusher(V5), 17, -0.005, 0.005, 0},
	} {
		s := open(t, c.d, 1)
		p := &s.batch.physics[0]
		low, high, sum, far, near := math.Inf(1), math.Inf(-1), 0.0, 0.0, math.Inf(1)
		const draws = 400
		for seed := range draws {
			test.OK(t, s.Reset(0, uint64(seed)))
			x := append(slices.Clone(p.qpos), p.qvel...)
			low, high, sum = min(low, x[c.at]), max(high, x[c.at]), sum+x[c.at]
			if c.d.name == "Reacher" {
				far = max(far, math.Hypot(x[2], x[3]))
			}
			if c.d.name == "Pusher" {
				near = min(near, math.Hypot(x[7], x[8]))
			}
		}
		wide := c.high - c.low
		if low < c.low || high > c.high || high-low < 0.6*wide || math.Abs(sum/draws-c.mean) > 0.08*wide {
			t.Errorf("%s: element %d in [%v, %v], mean %v, want [%v, %v] and %v", s.spec.Name, c.at, low, high,
				sum/draws, c.low, c.high, c.mean)
		}
		if far >= 0.2 || near <= 0.17 {
			t.Errorf("%s: a target at %v, an object at %v from the origin", s.spec.Name, far, near)
		}
	}
}

// TestContactForces: the contact forces of an ant at rest add up to its weight.
func TestContactForces(t *testing.T) {
	s := open(t, ant(V5), 1)
	test.OK(t, s.Reset(0, 1))
	for range 400 {
		s.act(t, make([]float64, 8))
	}
	sum, observed := 0.0, 0.0
	for b := 1; b < 14; b++ {
		sum += s.batch.physics[0].cfrcExt[6*b+5]
	}
	s.task.views[0].observe(&s.batch.physics[0], s.obs)
	for _, f := range s.obs[27:] {
		observed += math.Abs(f)
	}
	// A sphere of radius 0.25, 8 capsules of length 0.2828 and 4 of 0.5657, of radius 0.08, of density 5: 0.911 kg.
	if math.Abs(sum-0.911*9.81) > 0.1 || observed < 1 {
		t.Errorf("the ground carries %v N, want %v; %v observed", sum, 0.911*9.81, observed)
	}
}
