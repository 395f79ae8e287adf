package mujoco

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// TabletopSuite makes TabletopSuite-v1: twelve instructions on the tabletop (suite_instructions.go),
// of which each episode draws one, in 100 steps. Config.Instructions selects and weighs them,
// Config.Split says which scenes are drawn and Config.Perturb what is shown wrong (suite_splits.go).
//
// A seed and a split determine the scene of an episode, whatever Perturb is. With InstructionMix the
// instruction depends on the environment's earlier episodes, too. Actions are those of
// the other tabletop tasks. The observations, in the order of Config.Observations:
//
//	state        the default, 58 numbers: the 43 of the other tasks, where "the way to the zone" is
//	             the way to where the object is to go; which of the twelve instructions it is (12);
//	             which object is the second one that the sentence names (3). For a zone that is to be
//	             reached, the way from the hand to the object is that to the zone
//	proprio      8 numbers, as in the other tasks
//	image        U8 [64, 64, 3], from the camera in front
//	wrist_image  U8 [64, 64, 3], from a camera on the hand
//	text         U8 [128]: the sentence in UTF-8, 0 behind its end
//
// An episode ends with success, where the instruction is done for the second step in a row, or as a
// failure where it is done so with another thing. The figures of a step are success, wrong_object,
// task_number, and with Perturb other_cube told_object. Rewards are as in the other tasks.
func TabletopSuite(cfg env.Config, n int) (env.Vec, error) {
	const name = "TabletopSuite-v1"
	shown, draws := cfg.Observations, suite{perturb: cfg.Perturb, mixes: cfg.InstructionMix == env.MixBySuccess}
	asked := cfg
	cfg.Observations, cfg.Instructions, cfg.InstructionMix, cfg.Split, cfg.Perturb = nil, nil, "", "", ""
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	if err := draws.choose(asked); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(shown) == 0 {
		shown = []string{"state"}
	}
	var views []suiteView
	for i, name := range shown {
		at := slices.IndexFunc(suiteViews(), func(v suiteView) bool { return v.name == name })
		if at < 0 || slices.Contains(shown[:i], name) {
			return nil, fmt.Errorf("%s: observations.%d: %q, expected state, proprio, image, wrist_image or text, "+
				"each once", asked.ID(), i, name)
		}
		views = append(views, suiteViews()[at])
	}
	return newVec(embedded(name, "tabletop_suite.xml"), func(m *model) (task, error) {
		draws.scene = newScene(m, tabletopTask{})
		draws.zones = eye + 1
		draws.bodies = append(draws.bodies, m.body("o3"))
		draws.geoms = append(draws.geoms, m.parts["geom"][m.number("geom", "o3")].at)
		draws.table = m.parts["geom"][m.number("geom", "table")].at
		return draws.on(views), nil
	}, cfg, n)
}

// A suite is the tabletop with many instructions. Its scene is that of one environment at a time.
type suite struct {
	*scene
	orders  []instruction
	weights []float64 // of each
	split   split
	perturb string
	mixes   bool // instructions by their success (suite_mix.go)
	mixed   [orderCount]float64
	table   int // where its colour is
}

// What physics.memo keeps of an episode besides what the other tasks keep there.
const (
	suiteOrder    = memoLen + iota // which instruction
	suiteOther                     // the second object that it names
	suiteToldDone                  // steps in a row in which it is done with the object told
	suiteClock                     // steps so far
	suiteKey                       // 32 bits that name the noise of pictures
	suiteMoveAt                    // the step before which something is moved; 0: none
	suiteMoveTo                    // the direction of that, in radians
	suiteBright                    // what pictures are multiplied by
	suiteWhite                     // what is added to them then
	suiteNoise                     // levels of noise in pictures
	suiteTable                     // the table's colour: a number of tableColors
	suiteThird                     // the third cube's colour, -1: it is not there
	suiteStart                     // [suiteObjects,2]: where objects were
	suiteSaid     = suiteStart + 2*suiteObjects
	suiteStandIn  = suiteSaid + saidLen
	suiteLen      = suiteStandIn + standInLen // where instructions are mixed by success, tallyLen more
	suiteObjects  = tableObjects + 1
	thirdCube     = tableObjects
	suiteLimit    = 100
	suiteStateLen = 43 + 12 + tableObjects
)

// order returns the instruction.
func (t *suite) order() *instruction { return &t.orders[int(t.memo[suiteOrder])] }

// other returns the second object that the instruction names.
func (t *suite) other() int { return int(t.memo[suiteOther]) }

// start returns where an object was when the episode began.
func (t *suite) start(object int) []float64 { return t.memo[suiteStart+2*object:][:2] }

// goal returns what the instruction is about.
func (t *suite) goal() goal { return goal{t.meant(), t.other(), t.meantZone()} }

// on returns t as a task that shows views.
func (t *suite) on(views []suiteView) task {
	at := func(p *physics) *suite {
		t.physics = p
		return t
	}
	out := task{
		skip: 10, limit: suiteLimit, actuator: t.model.all(), renew: positions, memo: suiteLen,
		info: []string{env.Success, env.WrongObject, env.TaskNumber}, names: orderNames(t.orders),
		weights: t.weights,
		reset:   func(r *philox.Stream, p *physics) { at(p).begin(r) },
		step: func(p *physics, _ []float32, _ []float64, info []float32) (float64, bool) {
			success, wrong, told := at(p).judge()
			info[0], info[1], info[2] = float32(count(success)), float32(count(wrong)), float32(t.memo[suiteOrder])
			if len(info) > 3 {
				info[3] = float32(count(told))
			}
			if success {
				t.solved()
				return 1, true
			}
			return t.order().reward(t), wrong || told
		},
		commands: handJoints + 1,
		control:  func(p *physics, action, ctrl []float32) { at(p).act(action, ctrl) },
		paint:    func(p *physics, colour []float32) { at(p).paint(colour) },
		expert: func(p *physics, action []float32) {
			at(p)
			to, shut := t.order().expert(t)
			t.steer(action, to, shut)
		},
	}
	if t.mixes {
		out.memo += tallyLen
	}
	if t.perturb == perturbOtherCube {
		out.info = append(out.info, env.ToldObject)
	}
	if t.perturb == perturbShuffled {
		out.stage = func(p *physics) { at(p).swapStandIn() }
	}
	for _, v := range views {
		if v.camera != "" {
			out.views = append(out.views,
				view{name: v.name, picture: &env.View{Width: 64, Height: 64, Camera: v.camera, Shadows: true}})
			continue
		}
		out.views = append(out.views, view{
			name: v.name, dtype: v.dtype, text: v.name == textView, width: v.width, bound: v.bound,
			observe: func(p *physics, obs []float64) { v.write(at(p), obs) },
		})
	}
	if t.develops() {
		out.develop = func(p *physics, view int, rgb []byte) { at(p).develop(view, rgb) }
	}
	return out
}

// act counts a step, moves what is to be moved then, and turns the action into what the actuators
// are set to.
func (t *suite) act(action, ctrl []float32) {
	t.memo[suiteClock]++
	if t.memo[suiteClock] == t.memo[suiteMoveAt] {
		t.disturb()
	}
	t.command(action, ctrl)
}

// judge counts the step just taken. It tells whether the instruction is done, whether it is done
// with another thing than the one meant, and whether with the one told.
func (t *suite) judge() (success, wrong, told bool) {
	const steps = 2 // in a row
	tally := func(n *float64, done bool) bool {
		*n = (*n + 1) * count(done)
		return *n >= steps
	}
	o, g := t.order(), t.goal()
	other := false
	for i := range suiteObjects {
		if i == o.named(g) || !t.rivals(o, i) {
			continue
		}
		done := o.done(t, o.instead(g, i))
		other = other || done
		told = told || done && t.perturb == perturbOtherCube && i == t.other()
	}
	success = tally(&t.memo[memoDone], o.done(t, g))
	wrong = tally(&t.memo[memoWrong], other)
	told = tally(&t.memo[suiteToldDone], told)
	return success, wrong && !success, told && !success
}

// rivals reports whether the instruction o might be about thing i of this scene, a zone or an object.
func (t *suite) rivals(o *instruction, i int) bool {
	switch {
	case o.noun == aZone:
		return i < tableZones
	case i == thirdCube:
		return t.memo[suiteThird] >= 0
	case i == tableObjects-1: // the ball
		return o.anyShape
	}
	return true
}

// A suiteView is an observation of a suite: numbers, or what a camera sees.
type suiteView struct {
	name   string
	camera string
	dtype  tensor.DType
	width  int
	bound  float32
	write  func(t *suite, obs []float64)
}
