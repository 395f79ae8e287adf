package mujoco

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// sketch returns a model with these bodies, and physics of its size in which all numbers are 0.
func sketch(nq, nv, nu int, bodies ...string) (*model, *physics) {
	m := &model{timestep: 0.01, nq: nq, nv: nv, parts: map[string][]part{}, control: make([][2]float64, nu)}
	for i, name := range bodies {
		m.parts["body"] = append(m.parts["body"], part{name, 3 * i, 3})
	}
	return m, &physics{
		qpos: make([]float64, nq), qvel: make([]float64, nv), xpos: make([]float64, 3*len(bodies)),
		cfrcExt: make([]float64, 6*len(bodies)),
		cos:     []float64{1, 1}, sin: []float64{0, 0},
	}
}

// TestPendulumReward: every step has reward 1. In V5, the step in which the pole falls has reward 0.
func TestPendulumReward(t *testing.T) {
	pendulum := func(d definition, angle, want float64, end bool) {
		t.Helper()
		m, p := sketch(2, 2, 1)
		p.qpos[1] = angle
		wantStep(t, d, m, p, []float32{2}, []float64{}, want, end)
	}
	for _, v := range []Version{V4, V5} {
		pendulum(invertedPendulum(v), 0.2, 1, false)
		pendulum(invertedPendulum(v), -0.2, 1, false)
	}
	pendulum(invertedPendulum(V4), 0.201, 1, true)
	pendulum(invertedPendulum(V5), -0.201, 0, true)
}

// TestCheetahReward: with dt = 5·0.01, the reward is (3.5 - 3)/0.05 - 0.1·(0.25 + 1) = 9.875.
func TestCheetahReward(t *testing.T) {
	m, p := sketch(9, 9, 6)
	p.qpos[0] = 3.5
	for _, v := range []Version{V4, V5} {
		wantStep(t, halfCheetah(v), m, p, []float32{0.5, 0, 0, -1, 0, 0}, []float64{3}, 9.875, false)
	}
}

// TestWalkRewards compares Hopper and Walker2d with values computed by hand, on both sides of every bound.
func TestWalkRewards(t *testing.T) {
	walk := func(make func(Version) definition, v Version, z, angle, other, want float64, end bool) {
		t.Helper()
		m, p := sketch(6, 6, 3)
		p.qpos[0], p.qpos[1], p.qpos[2], p.qvel[5] = 1.04, z, angle, other
		// dt = 4·0.01; 0.04/0.04 - 0.001·2 = 0.998
		wantStep(t, make(v), m, p, []float32{1, 1, 0}, []float64{1}, want, end)
	}
	for _, v := range []Version{V4, V5} {
		walk(hopper, v, 0.701, 0.199, 99, 1.998, false)
		walk(hopper, v, 5, -0.199, -99, 1.998, false)
		walk(walker2d, v, 0.801, 0.999, 500, 1.998, false)
		walk(walker2d, v, 1.999, -0.999, 0, 1.998, false)
	}
	for _, c := range []struct{ z, angle, other float64 }{
		{0.7, 0, 0}, {1, 0.2, 0}, {1, -0.2, 0}, {1, 0, 100}, {1, 0, -100},
	} {
		walk(hopper, V4, c.z, c.angle, c.other, 1.998, true)
		walk(hopper, V5, c.z, c.angle, c.other, 0.998, true)
	}
	for _, c := range []struct{ z, angle float64 }{{0.8, 0}, {2, 0}, {1, 1}, {1, -1}} {
		walk(walker2d, V4, c.z, c.angle, 0, 1.998, true)
		walk(walker2d, V5, c.z, c.angle, 0, 0.998, true)
	}
}

// TestAntReward compares the reward of an ant with values computed by hand, on both sides of every bound. In V5,
// contacts reduce the reward.
func TestAntReward(t *testing.T) {
	crawl := func(v Version, z, want float64, end bool) {
		t.Helper()
		m, p := sketch(15, 14, 8, "world", "torso", "leg")
		p.qpos[2] = z
		p.xpos[3] = 2.5               // the torso's x, which was 2; dt = 5·0.01, so the speed is 10
		p.cfrcExt[0] = 0.5            // 0.25
		p.cfrcExt[7] = -3             // 1
		p.cfrcExt[17] = 0.25          // 0.0625
		action := make([]float32, 8)  // 0.5·(1 + 0.25)
		action[0], action[7] = 1, 0.5 // = 0.625
		wantStep(t, ant(v), m, p, action, []float64{2}, want, end)
	}
	const contact = 5e-4 * 1.3125
	crawl(V4, 0.2, 10+1-0.625, false)
	crawl(V4, 1, 10+1-0.625, false)
	crawl(V4, 1.001, 10+1-0.625, true)
	crawl(V5, 0.2, 10+1-0.625-contact, false)
	crawl(V5, 0.199, 10-0.625-contact, true)
}

// TestReacherReward: the distance |(3,4,0)| is 5 after the step and was 7 before. V4 uses the distance before.
func TestReacherReward(t *testing.T) {
	m, p := sketch(4, 4, 2, "world", "fingertip", "target")
	copy(p.body(1), []float64{4, 6, 1})
	copy(p.body(2), []float64{1, 2, 1})
	wantStep(t, reacher(V4), m, p, []float32{0.5, -1}, []float64{7}, -7-1.25, false)
	wantStep(t, reacher(V5), m, p, []float32{0.5, -1}, []float64{7}, -5-1.25, false)
}

// TestPusherReward: after the step, the distance from the object to the goal, |(0,3,4)|, is 5, and its distance to the
// tips, |(2,0,0)|, is 2. Before the step, the distances were 7 and 9, which V4 uses.
func TestPusherReward(t *testing.T) {
	m, p := sketch(11, 11, 7, "world", "tips_arm", "object", "goal")
	copy(p.body(1), []float64{2, 0, 0})
	copy(p.body(3), []float64{0, 3, 4})
	action := []float32{1, 1, 0, 0, 0, 0, 0.5}
	wantStep(t, pusher(V4), m, p, action, []float64{7, 9}, -7-0.225-4.5, false)
	wantStep(t, pusher(V5), m, p, action, []float64{7, 9}, -5-0.225-1, false)
	got, want := make([]float64, 2), []float64{5, 2}
	if pusher(V4).task(m, 0.05).prepare(p, got); !slices.Equal(got, want) {
		t.Errorf("Pusher before a step: %v, want %v", got, want)
	}
}

func wantStep(t *testing.T, d definition, m *model, p *physics, action []float32, note []float64, want float64,
	end bool) {
	t.Helper()
	plan := test.Must(d.plan(m))(t)
	got, ended := plan.step(p, action, slices.Clone(note), nil)
	if math.Abs(got-want) > 1e-12 || ended != end {
		t.Errorf("%s: reward %v, terminated %v, want %v, %v", d.source().name, got, ended, want, end)
	}
}

// TestObservations compares observations with lists written by hand.
func TestObservations(t *testing.T) {
	for _, c := range []struct {
		d          definition
		nq, nv, nu int
		bodies     []string
		want       []float64 // qpos are 0.1, 0.2, …; qvel -11, -12, …; xpos 1, 2, …; cfrc_ext 0, 0.25, …; cos 1, sin 0
	}{
		{invertedPendulum(V5), 2, 2, 1, nil, []float64{0.1, 0.2, -11, -12}},
		{halfCheetah(V5), 3, 3, 1, nil, []float64{0.2, 0.3, -11, -12, -13}},
		{hopper(V5), 3, 3, 1, nil, []float64{0.2, 0.3, -10, -10, -10}},
		{walker2d(V5), 3, 3, 1, nil, []float64{0.2, 0.3, -10, -10, -10}},
		{ant(V4), 4, 3, 1, []string{"world", "torso"}, []float64{0.3, 0.4, -11, -12, -13}},
		{ant(V5), 4, 3, 1, []string{"world", "torso"}, []float64{0.3, 0.4, -11, -12, -13, 1, 1, 1, 1, 1, 1}},
		{reacher(V4), 4, 4, 2, []string{"fingertip", "world", "target"},
			[]float64{1, 1, 0, 0, 0.3, 0.4, -11, -12, -6, -6, -6}},
		{reacher(V5), 4, 4, 2, []string{"fingertip", "world", "target"},
			[]float64{1, 1, 0, 0, 0.3, 0.4, -11, -12, -6, -6}},
		{pusher(V5), 11, 11, 7, []string{"goal", "tips_arm", "object"}, []float64{
			0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, -11, -12, -13, -14, -15, -16, -17, 4, 5, 6, 7, 8, 9, 1, 2, 3,
		}},
	} {
		m, p := sketch(c.nq, c.nv, c.nu, c.bodies...)
		for i := range p.qpos {
			p.qpos[i] = float64(i+1) / 10
		}
		for i := range p.qvel {
			p.qvel[i] = -11 - float64(i)
		}
		for i := range p.xpos {
			p.xpos[i] = float64(i + 1)
		}
		for i := range p.cfrcExt {
			p.cfrcExt[i] = float64(i) / 4
		}
		plan := test.Must(c.d.plan(m))(t)
		got := make([]float64, plan.views[0].width)
		plan.views[0].observe(p, got)
		test.EqualSlices(t, got, c.want, "%s", c.d.source().name)
	}
}
