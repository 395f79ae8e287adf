package mujoco

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// TabletopSuite makes TabletopSuite-v1: twelve instructions on the tabletop
// (suite_instructions.go). An episode has one instruction and 100 steps. Config.Instructions
// selects and weighs instructions, Config.Split selects the scenes, and Config.Perturb changes
// observations (suite_splits.go).
//
// The seed, the split and the weights of the instructions determine the scene of an episode.
// Perturb changes only observations, except that other_cube also excludes instructions that are not
// about a cube. With InstructionMix, the instruction also depends on the environment's earlier
// episodes. Actions are those of the other tabletop tasks. Config.Observations selects
// observations:
//
//	state        the default, 58 numbers: the 43 numbers of the other tasks, with the object's
//	             destination in place of the target zone; one-hot codes of the instruction (12) and
//	             of its second object (3). For reach_zone, the vector from the hand to the target
//	             object is replaced by the vector from the hand to the target zone
//	proprio      8 numbers, as in the other tasks
//	image        U8 [64, 64, 3], from the camera in front
//	wrist_image  U8 [64, 64, 3], from a camera on the hand
//	text         U8 [128]: the sentence in UTF-8, padded with 0
//
// An episode ends with success if the instruction is done in two consecutive steps. It ends as a
// failure if the instruction is done with the wrong object or zone in two consecutive steps. The
// figures of a step are success, wrong_object and task_number, and also told_object if Perturb is
// other_cube. Rewards are like those of the other tasks.
func TabletopSuite(cfg env.Config, n int) (env.Vec, error) {
	const name = "TabletopSuite-v1"
	asked := cfg
	draws := &suite{scene: new(scene), perturb: cfg.Perturb, mixes: cfg.InstructionMix == env.MixBySuccess}
	cfg.Observations, cfg.Instructions, cfg.InstructionMix, cfg.Split, cfg.Perturb = nil, nil, "", "", ""
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	if err := draws.choose(asked); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	views, err := chooseViews(asked.ID(), asked.Observations, draws.views())
	if err != nil {
		return nil, err
	}
	return newVec(embedded(name, "tabletop_suite.xml"), func(m *model) (task, error) {
		draws.find(m)
		draws.zones = eye + 1
		draws.bodies = append(draws.bodies, m.body("o3"))
		draws.geoms = append(draws.geoms, m.parts["geom"][m.number("geom", "o3")].at)
		draws.table = m.parts["geom"][m.number("geom", "table")].at
		return draws.on(views), nil
	}, cfg, n)
}

// A suite is the tabletop with many instructions. Its methods work on the environment that at(p) selected.
type suite struct {
	*scene
	orders  []instruction
	weights []float64 // of each instruction
	split   split
	perturb string
	mixes   bool // if true, weights depend on success (suite_mix.go)
	mixed   [orderCount]float64
	table   int // index of the table's colour
}

// Indices into physics.memo for the suite, after those of the other tabletop tasks.
const (
	suiteOrder    = memoLen + iota // index of the instruction
	suiteOther                     // the second object of the instruction
	suiteToldDone                  // consecutive steps in which the task is done as the sentence says
	suiteClock                     // steps so far
	suiteKey                       // 32-bit key of the picture noise
	suiteMoveAt                    // number of the step that begins with the disturbance; 0 for none
	suiteMoveTo                    // direction of the disturbance, in radians
	suiteBright                    // factor for pictures
	suiteWhite                     // addend for pictures, after the factor
	suiteNoise                     // amplitude of the noise in pictures, in levels of 255
	suiteTable                     // the table's colour: an index into tableColors
	suiteThird                     // the third cube's colour; -1 if there is no third cube
	suiteStart                     // [suiteObjects,2]: initial positions of the objects
	suiteSaid     = suiteStart + 2*suiteObjects
	suiteStandIn  = suiteSaid + saidLen
	suiteLen      = suiteStandIn + standInLen // without the tallyLen numbers of suite_mix.go
	suiteObjects  = tableObjects + 1
	thirdCube     = tableObjects
	suiteLimit    = 100
	suiteStateLen = 43 + 12 + tableObjects
)

// order returns the instruction of the episode.
func (t *suite) order() *instruction { return &t.orders[int(t.memo[suiteOrder])] }

// other returns the second object that the instruction names.
func (t *suite) other() int { return int(t.memo[suiteOther]) }

// start returns the initial position of an object, x and y.
func (t *suite) start(object int) []float64 { return t.memo[suiteStart+2*object:][:2] }

// goal returns the objects and the zone that the instruction is about.
func (t *suite) goal() goal { return goal{t.meant(), t.other(), t.meantZone()} }

// at selects the environment p for the methods of t, and returns t.
func (t *suite) at(p *physics) *suite {
	t.physics = p
	return t
}

// on returns the suite as a task with the given observations.
func (t *suite) on(views []view) task {
	out := task{
		skip: 10, limit: suiteLimit, actuator: t.model.all(), renew: positions, memo: suiteLen,
		info: []string{env.Success, env.WrongObject, env.TaskNumber}, names: t.orderNames(),
		weights: t.weights, views: views,
		reset: func(r *philox.Stream, p *physics) { t.at(p).begin(r) },
		step: func(p *physics, _ []float32, _ []float64, info []float32) (float64, bool) {
			success, wrong, told := t.at(p).judge()
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
		control:  func(p *physics, action, ctrl []float32) { t.at(p).act(action, ctrl) },
		paint:    func(p *physics, colour []float32) { t.at(p).paint(colour) },
		expert: func(p *physics, action []float32) {
			to, shut := t.at(p).order().expert(t)
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
		out.stage = func(p *physics) { t.at(p).swapStandIn() }
	}
	if t.develops() {
		out.develop = func(p *physics, view int, rgb []byte) { t.at(p).develop(view, rgb) }
	}
	return out
}

// act counts the step, disturbs the scene if this step has the disturbance, and writes the actuators' inputs for an
// action.
func (t *suite) act(action, ctrl []float32) {
	t.memo[suiteClock]++
	if t.memo[suiteClock] == t.memo[suiteMoveAt] {
		t.disturb()
	}
	t.command(action, ctrl)
}

// judge evaluates the last step. It reports whether the instruction was done in two consecutive
// steps: with the right object (success), with another object (wrong), or with the object that a
// perturbed sentence names (told).
func (t *suite) judge() (success, wrong, told bool) {
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
	success = inTwoSteps(&t.memo[memoDone], o.done(t, g))
	wrong = inTwoSteps(&t.memo[memoWrong], other)
	told = inTwoSteps(&t.memo[suiteToldDone], told)
	return success, wrong && !success, told && !success
}

// rivals reports whether object or zone i of the scene can be mistaken for the target of o.
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
