//go:build mujoco

package mujoco

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestTabletopContract(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps, cfg.Observations = 13, []string{"instruction", "state", "image", "proprio"}
	envtest.Run(t, func(n int) (env.Vec, error) { return TabletopPut(cfg, n) }, envtest.Options{})
}

func TestTabletopGoalContract(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps = 13
	for _, make := range []env.Constructor{TabletopReachGoal, TabletopPushGoal} {
		envtest.Run(t, func(n int) (env.Vec, error) { return make(cfg, n) }, envtest.Options{})
	}
}

// A table is one environment on the tabletop, whose state a test reads and writes.
type table struct {
	*testing.T
	vec env.Vec
	out *env.Step
}

func newTable(t *testing.T, make env.Constructor, cfg env.Config, seed uint64) table {
	t.Helper()
	v := test.Must(make(cfg, 1))(t)
	t.Cleanup(func() { v.Close() })
	tb := table{t, v, v.Spec().NewStep(1, 1)}
	start(t, v, []uint64{seed}, tb.out)
	return tb
}

func (t table) read(name string) []float64 {
	t.Helper()
	state := test.Must(env.Save(t.vec))(t)
	return state.Must(name).F64()
}

// write changes a part of the state.
func (t table) write(name string, at int, values ...float64) {
	t.Helper()
	state := test.Must(env.Save(t.vec))(t)
	copy(state.Must(name).F64()[at:], values)
	test.OK(t, env.Load(t.vec, state))
}

func (t table) step(action ...float32) (reward, success, wrong float32, terminated bool) {
	t.Helper()
	var act tensor.Dict
	act.Set("action", tensor.FromF32(action, 1, 1, 4))
	test.OK(t, t.vec.Step(act, nil, t.out))
	return t.out.Reward.F32()[0], t.out.Info.F32()[0], t.out.Info.F32()[1], t.out.Terminated.U8()[0] != 0
}

// TestTabletopSuccess puts the object meant, or another object, where the task wants it. The second step there ends the
// episode, with success only for the object meant.
func TestTabletopSuccess(t *testing.T) {
	cube := func(tb table, i int) int { return robotJoints + 7*i } // in qpos
	lies := func(tb table, i int) {
		zone := int(tb.read("memo")[memoZone])
		tb.write("qpos", cube(tb, i), append(slices.Clone(tb.read("mocap_pos")[3*zone:3*zone+2]), cubeHalf)...)
	}
	for _, c := range []struct {
		make env.Constructor
		put  func(tb table, i int)
	}{
		{TabletopReach, func(tb table, i int) {
			q := tb.read("qpos")
			at := q[cube(tb, i) : cube(tb, i)+3]
			tb.write("qpos", 0, at[0], at[1], at[2]+0.03-0.15) // the joints' 0 is 0.15 m above the table
			tb.write("memo", memoTarget, tb.read("qpos")[:3]...)
		}},
		{TabletopPush, lies},
		// it falls 12 cm in the two steps
		{TabletopPick, func(tb table, i int) { tb.write("qpos", cube(tb, i)+2, 0.3) }},
		{TabletopPut, lies},
	} {
		for _, right := range []bool{true, false} {
			for _, ignore := range []bool{false, true} {
				cfg := env.DefaultConfig()
				cfg.IgnoreTerminations = ignore
				tb := newTable(t, c.make, cfg, 3)
				name, meant := tb.vec.Spec().Name, int(tb.read("memo")[memoObject])
				object := meant
				if !right {
					object = (meant + 1) % 2
				}
				c.put(tb, object)
				if reward, success, wrong, end := tb.step(0, 0, 0, -1); reward >= 1 || success != 0 || wrong != 0 ||
					end {
					t.Errorf("%s, object %d of %d: first step: reward %v, success %v, wrong %v, end %v", name, object,
						meant, reward, success, wrong, end)
				}
				reward, success, wrong, end := tb.step(0, 0, 0, -1)
				if (success == 1) != right || (wrong == 1) == right || end == ignore || (reward == 1) != right {
					t.Errorf("%s, object %d of %d: second step: reward %v, success %v, wrong %v, end %v", name, object,
						meant, reward, success, wrong, end)
				}
			}
		}
	}
}

// TestTabletopReward compares rewards with the formulas in the docs of the constructors, for positions from MuJoCo.
func TestTabletopReward(t *testing.T) {
	falls := func(d float64) float64 { return 1 - math.Tanh(5*d) }
	norm := func(v ...float64) float64 {
		s := 0.0
		for _, x := range v {
			s += x * x
		}
		return math.Sqrt(s)
	}
	type place struct {
		hand, object, zone []float64
		open               float64 // opening of the fingers as a share of the widest; no object is between them
	}
	reach := func(p place) float64 {
		return falls(norm(p.hand[0]-p.object[0], p.hand[1]-p.object[1], p.hand[2]-p.object[2]))
	}
	grip := func(p place) float64 {
		return 0.5 * falls(4*norm(p.hand[0]-p.object[0], p.hand[1]-p.object[1])) * p.open
	}
	for _, c := range []struct {
		make env.Constructor
		want func(p place) float64
	}{
		{TabletopReach, reach},
		{TabletopPush, func(p place) float64 {
			return (reach(p) + grip(p) + 2*falls(norm(p.zone[0]-p.object[0], p.zone[1]-p.object[1]))) / 4
		}},
		{TabletopPick, func(p place) float64 { return (reach(p) + grip(p)) / 4 }},
		{TabletopPut, func(p place) float64 { return (reach(p) + grip(p)) / 6 }},
	} {
		for seed := range uint64(4) {
			tb := newTable(t, c.make, env.DefaultConfig(), seed)
			for k := range 5 {
				reward, _, _, _ := tb.step(0.5, -0.3, -1, -1)
				object, zone := int(tb.read("memo")[memoObject]), int(tb.read("memo")[memoZone])
				bodies := tb.read("xpos")
				q := tb.read("qpos")
				p := place{tb.read("site_xpos"), bodies[3*(4+object):], tb.read("mocap_pos")[3*zone:],
					1 - (q[3]+q[4]+0.01)/0.07}
				if want := c.want(p); math.Abs(float64(reward)-want) > 1e-6 {
					t.Errorf("%s, seed %d, step %d: reward %v, want %v", tb.vec.Spec().Name, seed, k, reward, want)
				}
			}
		}
	}
}

// TestTabletopGrasp: a cube between shut fingers raises the reward, and so does its height. On its zone, opening the
// hand and leaving do.
func TestTabletopGrasp(t *testing.T) {
	act := tensor.New(tensor.F32, 1, 1, 4)
	play := func(tb table) (rewards []float64) {
		for range 100 {
			test.OK(t, env.Act(tb.vec, act))
			reward, success, _, end := tb.step(act.F32()...)
			rewards = append(rewards, float64(reward))
			if end {
				if success != 1 || reward != 1 {
					t.Errorf("%s: end with reward %v, success %v", tb.vec.Spec().Name, reward, success)
				}
				return rewards
			}
		}
		t.Fatal("no end")
		return nil
	}
	pick := play(newTable(t, TabletopPick, env.DefaultConfig(), 1))
	if n := len(pick); pick[n-2] < 0.7 || pick[n-2] >= 1 || pick[n-5] < 0.5 || pick[n-5] >= pick[n-2] {
		t.Errorf("pick: rewards %.3f", pick[n-8:])
	}
	put := play(newTable(t, TabletopPut, env.DefaultConfig(), 1))
	if n := len(put); math.Abs(put[n-2]-5.0/6) > 1e-6 || slices.Max(put[:n-6]) >= 0.6 || !slices.IsSorted(put[n-7:]) {
		t.Errorf("put: rewards %.3f", put[n-12:])
	}
}

// TestTabletopState compares the observation "state" with the simulation's state.
func TestTabletopState(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.Observations = []string{"proprio", "state"}
	for seed := range uint64(6) {
		tb := newTable(t, TabletopPush, cfg, seed)
		for range 4 {
			tb.step(1, 0.5, -1, 1)
		}
		q, v, memo, zones := tb.read("qpos"), tb.read("qvel"), tb.read("memo"), tb.read("mocap_pos")
		hand := []float64{q[0], q[1], q[2] + 0.15}
		want := append(slices.Clone(hand), 0.03-(q[3]+q[4])/2, 1, memo[0]-q[0], memo[1]-q[1], memo[2]-q[2])
		want = append(want, v[:3]...)
		for i := range 3 {
			o := q[5+7*i:]
			yaw := 2 * math.Atan2(o[6], o[3]) // objects stand upright
			want = append(want, o[0], o[1], o[2], math.Cos(yaw), math.Sin(yaw))
		}
		want = append(want, zones[0], zones[1], zones[3], zones[4])
		object, zone := int(memo[memoObject]), int(memo[memoZone])
		meant := make([]float64, 5)
		meant[object], meant[3+zone] = 1, 1
		o := q[5+7*object:]
		want = append(want, meant...)
		want = append(want, o[0]-hand[0], o[1]-hand[1], o[2]-hand[2], zones[3*zone]-o[0], zones[3*zone+1]-o[1])
		want = append(want, v[5+6*object:5+6*object+3]...)
		// the gripper's command, cosines and sines
		turned := map[int]bool{4: true, 14: true, 15: true, 19: true, 20: true, 24: true, 25: true}
		for i := range want {
			if !turned[i] && (i < 30 || i >= 35) { // 30 to 34 are the one-hot codes
				want[i] *= 10
			}
		}
		proprio := want[:8]
		for name, want := range map[string][]float64{"proprio": proprio, "state": want} {
			got := tb.out.Obs.Must(name).F32()
			if len(got) != len(want) {
				t.Fatalf("%s: %d numbers, want %d", name, len(got), len(want))
			}
			for i, x := range got {
				if math.Abs(float64(x)-want[i]) > 1e-4 {
					t.Errorf("seed %d: %s[%d] is %v, want %v", seed, name, i, x, want[i])
				}
			}
		}
	}
}

// TestTabletopDraw: the things meant and their colours differ between seeds, no two things overlap, and the instruction
// names the things meant.
func TestTabletopDraw(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.Observations = []string{"instruction"}
	objects, zones, colored, said := map[int]int{}, map[int]int{}, map[int]int{}, map[string]bool{}
	const seeds = 300
	for seed := range uint64(seeds) {
		tb := newTable(t, TabletopReach, cfg, seed)
		memo := tb.read("memo")
		objects[int(memo[memoObject])]++
		zones[int(memo[memoZone])]++
		if err := tb.apart(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		used := map[int]bool{}
		for _, c := range memo[memoColor:] {
			colored[int(c)]++
			used[int(c)] = true
		}
		if len(used) != tableThings {
			t.Errorf("seed %d: colours %v", seed, memo[memoColor:])
		}
		shape := "cube"
		if memo[memoObject] == 2 {
			shape = "ball"
		}
		want := "reach the " + colors[int(memo[memoColor+int(memo[memoObject])])].name + " " + shape
		test.Equal(t, Sentence(tb.out.Obs.Must("instruction").I32()), want, "seed %d", seed)
		said[want] = true
	}
	for name, counts := range map[string]map[int]int{"objects": objects, "zones": zones} {
		for i, n := range counts {
			if math.Abs(float64(n)-seeds/float64(len(counts))) > 4*math.Sqrt(seeds) {
				t.Errorf("%s: %d was meant %d times of %d", name, i, n, seeds)
			}
		}
	}
	if len(objects) != tableObjects || len(zones) != tableZones || len(colored) != len(colors) ||
		len(said) != 2*len(colors) {
		t.Errorf("meant: objects %v, zones %v; colours %v; said %v", objects, zones, colored, said)
	}
}

// apart returns an error for things that are outside the area or too near to each other. Objects must be 0.09 m apart,
// and zones 0.12 m from any other thing.
func (tb table) apart() (found error) {
	q, mocap := tb.read("qpos"), tb.read("mocap_pos")
	var at [][]float64
	for i := range tableObjects {
		at = append(at, q[robotJoints+7*i:][:2])
	}
	at = append(at, mocap[:2], mocap[3:5])
	for i, p := range at {
		if math.Abs(p[0]) > 0.17 || math.Abs(p[1]) > 0.15 {
			found = errors.Join(found, fmt.Errorf("thing %d at %v", i, p))
		}
		least := 0.09
		if i >= tableObjects {
			least = 0.12
		}
		for j := range i {
			if d := apart(p, at[j]); d < least {
				found = errors.Join(found, fmt.Errorf("things %d and %d are %v apart", j, i, d))
			}
		}
	}
	return found
}

// TestTabletopLift: only the red cube's position depends on the seed, and only a success is rewarded.
func TestTabletopLift(t *testing.T) {
	const cube = robotJoints
	var first []float64
	least, most := [2]float64{1, 1}, [2]float64{-1, -1}
	for seed := range uint64(100) {
		tb := newTable(t, TabletopLift, env.DefaultConfig(), seed)
		q, memo := tb.read("qpos"), tb.read("memo")
		for i, x := range q[cube : cube+2] {
			least[i], most[i] = min(least[i], x), max(most[i], x)
		}
		rest := slices.Concat(q[:cube], q[cube+2:], memo, tb.read("mocap_pos"))
		if seed == 0 {
			first = rest
		}
		test.EqualSlices(t, rest, first, "seed %d: the state without the cube's position", seed)
		test.Equal(t, colors[int(memo[memoColor])].name, "red")
	}
	for i := range 2 {
		if least[i] < -0.06 || least[i] > -0.05 || most[i] > 0.06 || most[i] < 0.05 {
			t.Errorf("axis %d: the cube lies from %v to %v, want about ±0.06", i, least[i], most[i])
		}
	}
	tb := newTable(t, TabletopLift, env.DefaultConfig(), 1)
	names := []string{}
	for _, f := range tb.vec.Spec().Obs {
		names = append(names, f.Name)
	}
	test.EqualSlices(t, names, []string{"image", "proprio"})
	act := tensor.New(tensor.F32, 1, 1, 4)
	for end := false; !end; {
		test.OK(t, env.Act(tb.vec, act))
		var reward, success float32
		reward, success, _, end = tb.step(act.F32()...)
		if want := float32(count(end)); reward != want || success != want {
			t.Errorf("reward %v, success %v, end %v", reward, success, end)
		}
	}
}

// TestTabletopPutSentence: the instruction of TabletopPut names an object and a zone.
func TestTabletopPutSentence(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.Observations = []string{"instruction"}
	tb := newTable(t, TabletopPut, cfg, 0)
	got := Sentence(tb.out.Obs.Must("instruction").I32())
	if !strings.HasPrefix(got, "put the ") || !strings.Contains(got, " cube on the ") ||
		!strings.HasSuffix(got, " zone") {
		t.Errorf("put: %q", got)
	}
}

// TestTabletopImage: the picture shows things in their drawn colours, and is the same after the state is restored.
func TestTabletopImage(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.Observations = []string{"image"}
	tb := newTable(t, TabletopPush, cfg, 2)
	look := func() []byte {
		tb.step(0, 0, 0, -1)
		return slices.Clone(tb.out.Obs.Must("image").U8())
	}
	before := test.Must(env.Save(tb.vec))(t)
	first := look()
	for thing := range tableThings {
		memo := before.Must("memo").F64()
		was := memo[memoColor+thing]
		memo[memoColor+thing] = 1 // green, the colour of no other thing here
		test.OK(t, env.Load(tb.vec, before))
		memo[memoColor+thing] = was
		changed, green := 0, 0
		for i, x := range slices.Collect(slices.Chunk(look(), 3)) {
			if !slices.Equal(x, first[3*i:3*i+3]) {
				changed++
				if x[1] > x[0] && x[1] > x[2] {
					green++
				}
			}
		}
		if changed < 8 || changed > 300 || green < changed*9/10 {
			t.Errorf("thing %d in another colour: %d pixels differ, %d of them green", thing, changed, green)
		}
	}
	test.OK(t, env.Load(tb.vec, before))
	if !slices.Equal(look(), first) {
		t.Error("the restored state looks different")
	}
}

// TestTabletopCommand: the commanded position follows the action, within bounds around the hand and of the table.
func TestTabletopCommand(t *testing.T) {
	tb := newTable(t, TabletopReach, env.DefaultConfig(), 1)
	q := tb.read("qpos")
	tb.step(0.5, -7, 0, 0.1)
	target := tb.read("memo")
	if math.Abs(target[0]-q[0]-0.01) > 1e-12 || math.Abs(target[1]-q[1]+0.02) > 1e-12 || target[2] != q[2] ||
		target[memoGrip] != 1 {
		t.Errorf("from %v to %v", q[:3], target[:4])
	}
	for range 30 {
		before := tb.read("qpos")[0]
		if tb.step(1, 0, 0, -1); tb.read("memo")[0] > before+0.04+1e-12 {
			t.Errorf("commanded %v from %v", tb.read("memo")[0], before)
		}
	}
	if m := tb.read("memo"); m[0] != 0.25 || m[memoGrip] != -1 || math.Abs(tb.read("qpos")[0]-0.25) > 0.01 {
		t.Errorf("commanded %v, hand at %v, want them at the end of their room, 0.25", m[0], tb.read("qpos")[0])
	}
}

// TestTabletopExperts: the experts always succeed, and that of push in 97 % of episodes.
func TestTabletopExperts(t *testing.T) {
	for _, c := range []struct {
		make  env.Constructor
		least float64
	}{
		{TabletopReach, 1}, {TabletopPush, 0.97}, {TabletopPick, 1}, {TabletopPut, 1}, {TabletopLift, 1},
		{TabletopReachGoal, 1}, {TabletopPushGoal, 0.97},
	} {
		const n, episodes = 20, 40
		v := test.Must(c.make(env.DefaultConfig(), n))(t)
		defer v.Close()
		out, seeds, e := v.Spec().NewStep(n, 1), env.NewSeeder(env.DefaultConfig(), env.Train, 0, n),
			env.NewEpisodes(v.Spec(), 0, n, true)
		start(t, v, seeds.Next(), out)
		seeds.Started(nil)
		var act tensor.Dict
		act.Set("action", tensor.New(tensor.F32, n, 1, 4))
		var list []env.Episode
		for len(list) < episodes {
			test.OK(t, env.Act(v, act.Must("action")))
			test.OK(t, v.Step(act, seeds.Next(), out))
			seeds.Observe(out)
			e.Observe(out)
			list = append(list, e.Take()...)
		}
		if sum := env.Summarize(list); sum.SuccessOnce < c.least {
			t.Errorf("%s: %+v, want success in %v", v.Spec().Name, sum, c.least)
		}
	}
}

func TestTabletopErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  env.Config
		want string
	}{
		{env.Config{Observations: []string{"state", "depth"}}, `TabletopReach-v1: observations.1: "depth", expected`},
		{env.Config{Observations: []string{"state", "state"}}, `observations.1: "state"`},
		{env.Config{ModelPath: "robot.xml"}, "robot.xml"},
	} {
		if _, err := TabletopReach(c.cfg, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
