//go:build mujoco

package mujoco

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// own makes n environments of a model with a task in YAML.
func own(t testing.TB, model, task string, n int) (env.Vec, error) {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.ModelPath, cfg.Task, cfg.TotalNumEnvs, cfg.MaxStepsPerRolloutEpoch = "mujoco", model, &env.Task{},
		n, 1
	test.OK(t, yaml.Unmarshal([]byte(task), cfg.Task))
	cfg.Check(func(ok bool, key string, value any, want string) {
		if !ok {
			t.Errorf("%s: %v, want %s", key, value, want)
		}
	})
	return NewModel(cfg, n)
}

// Gymnasium's tasks in YAML.
const (
	invertedPendulumYAML = `
frame_skip: 2
max_steps: 1000
observations: [{joint: "*"}, {velocity: "*"}]
rewards: [{constant: 1, when: alive}]
terminations: [{joint: hinge, low: -0.2, high: 0.2}]
reset_noise: [{joint: "*", low: -0.01, high: 0.01}, {velocity: "*", low: -0.01, high: 0.01}]`
	halfCheetahYAML = `
frame_skip: 5
max_steps: 1000
observations: [{joint: "*", elements: [1, 2, 3, 4, 5, 6, 7, 8]}, {velocity: "*"}]
rewards: [{joint: x, rate: true, weight: 1}, {actuator: "*", apply: [square], weight: -0.1}]
reset_noise: [{joint: "*", low: -0.1, high: 0.1}, {velocity: "*", std: 0.1}]`
	hopperYAML = `
frame_skip: 4
max_steps: 1000
observations: [{joint: "*", elements: [1, 2, 3, 4, 5]}, {velocity: "*", clip: 10}]
rewards: [{joint: x, rate: true, weight: 1}, {constant: 1, when: alive}, {actuator: "*", apply: [square], weight: -0.001}]
terminations: [{joint: z, low: 0.7}, {joint: pitch, low: -0.2, high: 0.2}]
reset_noise: [{joint: "*", low: -0.005, high: 0.005}, {velocity: "*", low: -0.005, high: 0.005}]`
)

// TestOwnEqual: a task in YAML gives the same numbers as the same task in Go, to the bit.
func TestOwnEqual(t *testing.T) {
	for _, c := range []struct {
		d    definition
		yaml string
		seed uint64
	}{{invertedPendulum(V5), invertedPendulumYAML, 1}, {halfCheetah(V5), halfCheetahYAML, 1},
		{hopper(V5), hopperYAML, 1}} {
		t.Run(c.d.source().name, func(t *testing.T) {
			written := test.Must(own(t, "models/"+c.d.file, c.yaml, 3))(t)
			compiled := test.Must(c.d.constructor()(env.DefaultConfig(), 3))(t)
			defer written.Close()
			defer compiled.Close()
			if a, b := written.Spec(), compiled.Spec(); a.MaxSteps != b.MaxSteps || a.Action.Dim() != b.Action.Dim() ||
				a.Action.High[0] != b.Action.High[0] {
				t.Errorf("%+v, want %+v", a, b)
			}
			a, b, seeds := written.Spec().NewStep(3, 1), compiled.Spec().NewStep(3, 1), []uint64{1, 2, 3}
			start(t, compiled, seeds, b)
			start(t, written, seeds, a)
			copyState(t, written, compiled) // normal numbers are drawn in pairs in Go, singly in YAML
			ends := 0
			for k := range 300 {
				act := wave(3, compiled.Spec().Action.Dim(), k)
				for _, v := range []struct {
					vec env.Vec
					out *env.Step
				}{{written, a}, {compiled, b}} {
					test.OK(t, v.vec.Step(act, nil, v.out))
				}
				for n := range 3 {
					if a.Reward.F32()[n] != b.Reward.F32()[n] || a.Terminated.U8()[n] != b.Terminated.U8()[n] {
						t.Fatalf("step %d: reward %v, terminated %v, want %v, %v", k, a.Reward.F32(), a.Terminated.U8(),
							b.Reward.F32(), b.Terminated.U8())
					}
					ends += int(b.Terminated.U8()[n])
				}
				for i, x := range a.Obs.Must("state").F32() {
					if want := b.Obs.Must("state").F32()[i]; x != want {
						t.Fatalf("step %d: obs %d is %v, want %v", k, i, x, want)
					}
				}
			}
			if (ends > 0) != (c.d.name != "HalfCheetah") {
				t.Errorf("%d ends", ends)
			}
		})
	}
}

func start(t *testing.T, v env.Vec, seeds []uint64, out *env.Step) {
	t.Helper()
	test.OK(t, v.Reset(nil, seeds, out))
}

// copyState puts dst into the state of src.
func copyState(t *testing.T, dst, src env.Vec) {
	t.Helper()
	state, err := env.Save(src)
	if err == nil {
		err = env.Load(dst, state)
	}
	test.OK(t, err)
}

// wave returns actions [n,1,width] within ±1 that depend on the environment and on the time k.
func wave(n, width, k int) (d tensor.Dict) {
	a := tensor.New(tensor.F32, n, 1, width)
	for i := range a.F32() {
		a.F32()[i] = float32(math.Sin(float64(k) + 3*float64(i)))
	}
	d.Set("action", a)
	return d
}

// configured makes n environments of a model and a task in configs.
func configured(t *testing.T, config, model string, n int) env.Vec {
	t.Helper()
	text := test.Must(os.ReadFile("../../configs/" + config))(t)
	var file struct {
		Env struct {
			Train struct{ Task yaml.Node }
		}
	}
	test.OK(t, yaml.Unmarshal(text, &file))
	task := test.Must(yaml.Marshal(&file.Env.Train.Task))(t)
	v := test.Must(own(t, "../../configs/models/"+model, string(task), n))(t)
	return v
}

// TestReachOwn: the task of configs/tabletop_reach_own.yaml is TabletopReach-v1 in episodes that mean the first cube.
// From the same states, the same actions give the same observations, rewards and ends. The actions of the expert
// succeed.
func TestReachOwn(t *testing.T) {
	written := configured(t, "tabletop_reach_own.yaml", "tabletop.xml", 1)
	defer written.Close()
	out := written.Spec().NewStep(1, 1)
	for _, expert := range []bool{true, false} {
		t.Run(fmt.Sprint("expert ", expert), func(t *testing.T) {
			episodes := 0
			for seed := uint64(0); episodes < 5; seed++ {
				tb := newTable(t, TabletopReach, env.DefaultConfig(), seed)
				if tb.read("memo")[memoObject] != 0 {
					continue
				}
				episodes++
				start(t, written, []uint64{seed}, out)
				takeState(t, written, tb)
				steps, solved := compareReach(t, written, out, tb, expert)
				test.Equal(t, solved, expert, "seed %d: ended after %d steps by success", seed, steps)
			}
		})
	}
}

// takeState copies the state of the table into the written reach, which has begun an episode.
func takeState(t *testing.T, written env.Vec, tb table) {
	t.Helper()
	mine := test.Must(env.Save(written))(t)
	q := mine.Must("qpos").F64()
	if math.Abs(q[5]) > 0.17 || math.Abs(q[6]) > 0.15 || q[7] != 0.0201 || q[8] != 1 ||
		math.Abs(q[0]) > 0.05 || q[2] != 0.05 {
		t.Errorf("begins at %v", q)
	}
	for _, name := range []string{"qpos", "qvel", "xpos", "site_xpos", "qacc_warmstart"} {
		copy(mine.Must(name).F64(), tb.read(name))
	}
	copy(mine.Must("memo").F64()[1:], tb.read("memo")[memoTarget:memoTarget+3])
	test.OK(t, env.Load(written, mine))
}

// compareReach plays an episode in both environments and compares every step. It returns the number of steps, and
// whether the last step was a success.
func compareReach(t *testing.T, written env.Vec, out *env.Step, tb table, expert bool) (steps int, solved bool) {
	t.Helper()
	for k := 0; ; k++ {
		act := wave(1, 4, k).Must("action")
		if expert {
			test.OK(t, env.Act(tb.vec, act))
		}
		var three tensor.Dict
		three.Set("action", tensor.FromF32(act.F32()[:3], 1, 1, 3))
		test.OK(t, written.Step(three, nil, out))
		reward, success, _, end := tb.step(act.F32()[0], act.F32()[1], act.F32()[2], -1)
		truncated := tb.out.Truncated.U8()[0]
		got := out.Reward.F32()[0]
		if math.Abs(float64(got-reward)) > 1e-5 || out.Info.F32()[0] != success ||
			out.Terminated.U8()[0] != byte(success) || out.Truncated.U8()[0] != truncated {
			t.Fatalf("step %d: reward %v, success %v, want %v, %v", k, got, out.Info.F32()[0], reward, success)
		}
		x, state := out.Obs.Must("state").F32(), tb.out.Obs.Must("state").F32()
		// the tip, the velocity of the hand, and the vector to the object meant
		want := slices.Concat(state[0:3], state[8:11], state[35:38])
		for i := range want {
			if math.Abs(float64(x[i]-want[i])) > 1e-3 {
				t.Fatalf("step %d: obs %d is %v, want %v", k, i, x[i], want[i])
			}
		}
		if end || truncated != 0 {
			return k + 1, end
		}
	}
}

// takeAngles copies the angles and velocities of the compiled pendulums into the written ones.
func takeAngles(t *testing.T, written, compiled env.Vec) {
	t.Helper()
	state := test.Must(env.Save(compiled))(t)
	mine := test.Must(env.Save(written))(t)
	q, v := mine.Must("qpos").F64(), mine.Must("qvel").F64()
	for i := range q {
		q[i], v[i] = state.Must("state").F64()[2*i], state.Must("state").F64()[2*i+1]
	}
	test.OK(t, env.Load(written, mine))
}

// TestPendulumOwn: the pendulum of configs/pendulum_own.yaml equals Pendulum-v1 while it is slower than the greatest
// velocity of Pendulum-v1.
func TestPendulumOwn(t *testing.T) {
	const n = 8
	written := configured(t, "pendulum_own.yaml", "pendulum.xml", n)
	defer written.Close()
	compiled := test.Must(classic.NewPendulum(env.DefaultConfig(), n))(t)
	a, b, seeds := written.Spec().NewStep(n, 1), compiled.Spec().NewStep(n, 1), []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	start(t, written, seeds, a)
	start(t, compiled, seeds, b)
	takeAngles(t, written, compiled)
	a.Obs.CopyFrom(b.Obs)
	fast := make([]bool, n)
	ret, want := make([]float64, n), make([]float64, n)
	for k := range 200 {
		for _, v := range []struct {
			vec env.Vec
			out *env.Step
		}{{written, a}, {compiled, b}} {
			torque := tensor.New(tensor.F32, n, 1, 1)
			for i := range n {
				torque.F32()[i] = swingUp(v.out.Obs.Must("state").F32()[3*i : 3*i+3])
			}
			var act tensor.Dict
			act.Set("action", torque)
			test.OK(t, v.vec.Step(act, nil, v.out))
		}
		for i := range n {
			w := b.Obs.Must("state").F32()[3*i : 3*i+3]
			fast[i] = fast[i] || math.Abs(float64(w[2])) >= 8
			if fast[i] {
				continue
			}
			ret[i], want[i] = ret[i]+float64(a.Reward.F32()[i]), want[i]+float64(b.Reward.F32()[i])
			for j, x := range a.Obs.Must("state").F32()[3*i : 3*i+3] {
				if math.Abs(float64(x-w[j])) > 0.01 {
					t.Fatalf("environment %d step %d: obs %d is %v, want %v", i, k, j, x, w[j])
				}
			}
		}
	}
	slow := 0
	for i := range n {
		if math.Abs(ret[i]-want[i]) > 0.01 {
			t.Errorf("environment %d: return %v, want %v", i, ret[i], want[i])
		}
		if !fast[i] {
			slow++
		}
	}
	if slow < n/2 {
		t.Errorf("%d of %d stayed slow", slow, n)
	}
}

// swingUp returns a torque that swings the rod faster until it has the energy to stand upright, and holds it there.
func swingUp(obs []float32) float32 {
	cos, sin, speed := obs[0], obs[1], obs[2]
	if cos > 0.9 {
		return min(max(-15*sin-3*speed, -2), 2)
	}
	if tooLittle := speed*speed/6+5*(cos-1) < 0; tooLittle == (speed >= 0) {
		return 2
	}
	return -2
}

// TestOwnContract runs the conformance suite over a task that uses sensors, sites, bodies and success.
func TestOwnContract(t *testing.T) {
	envtest.Run(t, func(n int) (env.Vec, error) { return own(t, write(t, arm), armYAML, n) }, envtest.Options{})
}

const arm = `<mujoco model="arm">
  <option timestep="0.02"/>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" type="hinge" axis="0 0 1" damping="1"/>
      <geom name="upper" type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>
      <body name="fore" pos=".1 0 0">
        <joint name="elbow" type="hinge" axis="0 0 1" damping="1" limited="true" range="-2 2"/>
        <geom name="fore" type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>
        <site name="tip" pos=".1 0 0"/>
      </body>
    </body>
    <site name="goal" pos=".0948 .1477 0"/>
  </worldbody>
  <actuator>
    <position name="turn" joint="shoulder" kp="5" ctrllimited="true" ctrlrange="-2 2"/>
    <position name="bend" joint="elbow" kp="5" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
  <sensor>
    <jointpos name="angle" joint="shoulder"/>
    <framepos name="place" objtype="site" objname="tip"/>
  </sensor>
</mujoco>`

const armYAML = `
frame_skip: 2
max_steps: 20
observations: [{sensor: angle}, {joint: elbow}, {velocity: "*"}, {site: tip, relative_to: goal, elements: [0, 1]}, {body: fore}, {sensor: place}]
actuators: [bend, turn]
rewards:
  - {site: tip, relative_to: goal, apply: [norm], weight: -1}
  - {actuator: bend, apply: [abs], weight: -0.5}
  - {constant: 10, when: success}
success: [{site: tip, relative_to: goal, apply: [norm], high: 0.02}]
reset_noise: [{joint: shoulder, low: 0.3, high: 1.2}, {joint: elbow, std: 0.1}]`

// TestOwnFresh: observations belong to the state after the step, not to the last state that the simulation evaluated.
func TestOwnFresh(t *testing.T) {
	v := test.Must(own(t, write(t, arm), armYAML, 1))(t)
	defer v.Close()
	if spec := v.Spec(); spec.Info[0] != "success" || spec.Action.High[0] != 1 || spec.Action.High[1] != 2 ||
		spec.Obs[0].Dim() != 12 {
		t.Errorf("%+v", spec)
	}
	out := v.Spec().NewStep(1, 1)
	start(t, v, []uint64{1}, out)
	arrived := false
	for k := range 20 {
		var act tensor.Dict
		act.Set("action", tensor.FromF32([]float32{0.5, float32(k%3 - 1)}, 1, 1, 2))
		if k >= 5 { // the tip is at the goal
			act.Set("action", tensor.FromF32([]float32{1, 0.5}, 1, 1, 2))
		}
		test.OK(t, v.Step(act, nil, out))
		state := test.Must(env.Save(v))(t)
		q, o := state.Must("qpos").F64(), out.Obs.Must("state").F32()
		x, y := 0.1*math.Cos(q[0])+0.1*math.Cos(q[0]+q[1]), 0.1*math.Sin(q[0])+0.1*math.Sin(q[0]+q[1])
		for i, want := range []float64{q[0], q[1], 0, 0, x - 0.0948, y - 0.1477, 0.1 * math.Cos(q[0]),
			0.1 * math.Sin(q[0]), 0, x, y, 0} {
			if i != 2 && i != 3 && math.Abs(float64(o[i])-want) > 1e-6 {
				t.Errorf("step %d: obs %d is %v, want %v", k, i, o[i], want)
			}
		}
		d := math.Hypot(x-0.0948, y-0.1477)
		a := act.Must("action").F32()
		want := -d - 0.5*math.Abs(float64(a[0]))
		if d <= 0.02 {
			want, arrived = want+10, true
		}
		if math.Abs(float64(out.Reward.F32()[0])-want) > 1e-6 || (out.Info.F32()[0] == 1) != arrived ||
			(out.Terminated.U8()[0] == 1) != arrived {
			t.Errorf("step %d: reward %v, success %v, terminated %v, want %v, %v", k, out.Reward.F32(), out.Info.F32(),
				out.Terminated.U8(), want, arrived)
		}
		if arrived {
			return
		}
	}
	t.Error("the tip did not come to the goal")
}

func write(t testing.TB, model string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.xml")
	test.OK(t, os.WriteFile(path, []byte(model), 0o644))
	return path
}

// TestOwnErrors: the error names the wrong part, and the parts of the model.
func TestOwnErrors(t *testing.T) {
	for _, c := range []struct{ model, task, want string }{
		{strings.Replace(arm, `type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>`, `type="capsul"/>`, 1), armYAML,
			"Element 'geom', line 6"},
		{strings.Replace(arm, "</body>", "", 1), armYAML, "model.xml"},
		{strings.Replace(arm, `timestep="0.02"`, `timestep="0"`, 1), armYAML,
			"option timestep 0: expected a number > 0, in seconds"},
		{strings.Replace(arm, `timestep="0.02"`, `timestep="-0.02"`, 1), armYAML,
			"option timestep -0.02: expected a number > 0, in seconds"},
		{arm, strings.Replace(armYAML, "sensor: angle", "sensor: touch", 1),
			`task.observations.0: no sensor "touch", it has angle, place`},
		{arm, strings.Replace(armYAML, "joint: elbow", "joint: knee", 1),
			`task.observations.1: no joint "knee", it has shoulder, elbow`},
		{arm, strings.Replace(armYAML, "relative_to: goal", "relative_to: gaol", 1),
			`task.observations.3.relative_to: no site "gaol", it has goal, tip`},
		{arm, strings.Replace(armYAML, "elements: [0, 1]", "elements: [0, 3]", 1),
			`task.observations.3.elements: 3, expected 0..2`},
		{arm, strings.Replace(armYAML, "[bend, turn]", "[bend, twist]", 1),
			`task.actuators.1: no actuator "twist", it has turn, bend`},
		{arm, strings.Replace(armYAML, "[bend, turn]", "[turn]", 1),
			`task.rewards.1: actuator "bend" is not among task.actuators`},
		{arm, strings.Replace(armYAML, "joint: shoulder, low", "velocity: hip, low", 1),
			`task.reset_noise.0: no velocity "hip"`},
		{strings.Replace(arm, `<position name="bend" joint="elbow" kp="5"`, `<motor name="bend" site="tip"`, 1),
			armYAML + "\ndelta: 0.1",
			`task.delta: actuator "bend" moves no joint of one number`},
		{strings.Replace(arm, `<position name="bend" joint="elbow" kp="5"`, `<motor name="bend" joint="elbow"`, 1),
			armYAML + "\ndelta: 0.1",
			`task.delta: actuator "bend" does not hold a position: expected a position actuator`},
		{strings.Replace(arm, `<position name="bend" joint="elbow" kp="5"`, `<velocity name="bend" joint="elbow"`, 1),
			armYAML + "\ndelta: 0.1",
			`task.delta: actuator "bend" does not hold a position: expected a position actuator`},
		{arm, strings.TrimSuffix(armYAML, "]") + `, {joint: elbow, elements: [1], std: 1}]`,
			`task.reset_noise.2.elements: 1, expected 0..0`},
		{strings.Replace(strings.Replace(arm, "<position", "<!--", 1), "</actuator>", "--></actuator>", 1),
			strings.Replace(armYAML, "actuators: [bend, turn]", "", 1),
			`task.actuators: the model has no actuators; task.rewards.1: no actuator "bend", it has none with a name`},
	} {
		v, err := own(t, write(t, c.model), c.task, 1)
		if err == nil {
			v.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "model.xml") {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
}

// TestOwnModelErrors: a missing model, a path that is no file, and observations of other environments are errors.
func TestOwnModelErrors(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType = "mujoco"
	test.Fails(t, test.Err(NewModel(cfg, 1)), "model_path", "without a model")
	cfg.ModelPath, cfg.Task, cfg.Observations = "arm.xml", &env.Task{}, []string{"image"}
	test.Fails(t, test.Err(NewModel(cfg, 1)), "task.observations", "with observations of others")
	test.Fails(t, test.Err(own(t, "nowhere.xml", armYAML, 1)), "nowhere.xml", "without a file")
	pipe := filepath.Join(t.TempDir(), "pipe.xml")
	test.OK(t, syscall.Mkfifo(pipe, 0o600))
	for path, what := range map[string]string{pipe: "not a regular file", filepath.Dir(pipe): "a folder",
		os.DevNull: "not a regular file"} {
		want := fmt.Sprintf("mujoco: model_path: %s is %s: expected an MJCF file", path, what)
		if _, err := own(t, path, armYAML, 1); err == nil || err.Error() != want {
			t.Errorf("error %v\nwant %s", err, want)
		}
	}
}
