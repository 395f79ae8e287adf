package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

const (
	tableObjects = 3 // two cubes and a ball
	tableZones   = 2
	tableThings  = tableObjects + tableZones
	cubeHalf     = 0.02 // m

	commandStep = 0.02 // m: move of the commanded position of the hand for an action of 1
	commandLead = 0.04 // m: maximum distance of the commanded position from the hand, along each axis
	fingerOpen  = -0.005
	fingerShut  = 0.03 // m, with nothing between the fingers
	wideOpening = fingerShut - fingerOpen
	cubeOpening = 0.021 // m: mean distance of the fingers from fingerShut with a cube between them
)

// Indices into physics.memo for an episode.
const (
	memoTarget = 0              // [3]: commanded position of the hand, in joint coordinates
	memoGrip   = memoTarget + 3 // last command to the fingers: 1 shut, -1 open
	memoObject = memoGrip + 1   // index of the target object
	memoZone   = memoObject + 1 // index of the target zone
	memoDone   = memoZone + 1   // consecutive steps in which the task is done
	memoWrong  = memoDone + 1   // consecutive steps in which the task is done with another object
	memoColor  = memoWrong + 1  // [tableThings]: colours of objects and zones, as indices into colors
	memoLen    = memoColor + tableThings
)

// Numbers of joints of the robot. In the model, the free joints of the objects follow the robot's joints.
const (
	handJoints   = 3
	fingerJoints = 2
	robotJoints  = handJoints + fingerJoints
)

// A scene is the table with its task. Its methods work on the environment that at(p) selected.
type scene struct {
	*physics
	task   tabletopTask
	model  *model
	words  map[string]float64 // word → token
	tip    int                // index of the site between the fingertips
	bodies []int              // indices of the objects' bodies
	zones  int                // index of the first zone among the mocap bodies
	geoms  []int              // indices of the colours of objects and zones
}

// find looks up the parts of the scene in m, and sets their indices.
func (s *scene) find(m *model) {
	s.model, s.words, s.tip = m, tokens(), m.number("site", "tcp")
	for i, name := range [tableThings]string{"o0", "o1", "o2", "z0", "z1"} {
		s.geoms = append(s.geoms, m.parts["geom"][m.number("geom", name)].at)
		if i < tableObjects {
			s.bodies = append(s.bodies, m.body(name))
		}
	}
}

// at selects the environment p for the methods of s, and returns s.
func (s *scene) at(p *physics) *scene {
	s.physics = p
	return s
}

// hand returns the position of the point between the fingertips.
func (s *scene) hand() []float64 { return s.siteXpos[3*s.tip : 3*s.tip+3] }

// object returns the position of an object.
func (s *scene) object(i int) []float64 { return s.body(s.bodies[i]) }

// velocity returns the linear velocity of an object.
func (s *scene) velocity(i int) []float64 { return s.qvel[robotJoints+6*i:][:3] }

// turn returns the cosine and sine of an object's rotation about z.
func (s *scene) turn(i int) (cos, sin float64) {
	q := s.qpos[robotJoints+7*i+3:][:4]
	return 1 - 2*(q[2]*q[2]+q[3]*q[3]), 2 * (q[0]*q[3] + q[1]*q[2])
}

// zone returns the position of a zone.
func (s *scene) zone(i int) []float64 { return s.mocapPos[3*(s.zones+i):][:3] }

// meant and meantZone return the indices of the target object and the target zone.
func (s *scene) meant() int     { return int(s.memo[memoObject]) }
func (s *scene) meantZone() int { return int(s.memo[memoZone]) }

// opening returns the mean distance of the fingers from their shut position.
func (s *scene) opening() float64 { return fingerShut - (s.qpos[handJoints]+s.qpos[handJoints+1])/2 }

// between reports whether a cube is between the fingers.
func (s *scene) between(object int) bool {
	return distance(s.hand(), s.object(object)) < cubeHalf && s.opening() > cubeOpening-0.004
}

// held returns 0 if the cube is not between the fingers. Otherwise the result grows from 0 with
// wide open fingers to 1 with fingers that hold the cube tightly.
func (s *scene) held(object int) float64 {
	if !s.between(object) {
		return 0
	}
	return 1 - min(max((s.opening()-cubeOpening)/(wideOpening-cubeOpening), 0), 1)
}

// grip is a reward for closing the fingers around a cube: up to ½ for approaching with open
// fingers, and from ½ to 1 for shutting the fingers around the cube. Horizontal distances count
// fourfold, so that the fingers do not come down on top of the cube.
func (s *scene) grip(object int) float64 {
	if s.between(object) {
		return 0.5 + 0.5*s.held(object)
	}
	return 0.5 * near(4*apart(s.hand(), s.object(object))) * s.opening() / wideOpening
}

// grasped reports whether the fingers hold a cube and the last command to them was to shut.
func (s *scene) grasped(object int) bool { return s.memo[memoGrip] > 0 && s.held(object) > 0.7 }

// apart returns the horizontal distance between two points.
func apart(a, b []float64) float64 { return math.Hypot(a[0]-b[0], a[1]-b[1]) }

// near returns 1 - tanh(5 distance): 1 at distance 0, and less for larger distances. ManiSkill has
// the same formula (https://github.com/haosulab/ManiSkill, mani_skill/envs/tasks/tabletop).
func near(distance float64) float64 { return 1 - math.Tanh(5*distance) }

// draw writes a random initial state. It draws the positions again until all objects and zones are
// far enough apart.
func (s *scene) draw(r *philox.Stream) {
	var at [tableThings][2]float64
	for free := false; !free; {
		free = true
		for i := range at {
			at[i] = [2]float64{r.Uniform(-0.17, 0.17), r.Uniform(-0.15, 0.15)}
			least := 0.09
			if i >= tableObjects {
				least = 0.12
			}
			for _, other := range at[:i] {
				free = free && apart(at[i][:], other[:]) >= least
			}
		}
	}
	for i := range tableObjects {
		lay(s.qpos[robotJoints+7*i:], at[i], cubeHalf+1e-4, r.Uniform(-0.15, 0.15))
	}
	for i := range tableZones {
		copy(s.zone(i), at[tableObjects+i][:])
	}
	s.qpos[0], s.qpos[1], s.qpos[2] = r.Uniform(-0.05, 0.05), r.Uniform(-0.05, 0.05), 0.05

	clear(s.memo)
	copy(s.memo[memoTarget:], s.qpos[:handJoints])
	s.memo[memoGrip] = -1
	s.memo[memoObject], s.memo[memoZone] = float64(r.IntN(s.task.objects)), float64(r.IntN(tableZones))
	var order [len(colors)]float64
	for i := range order {
		j := r.IntN(i + 1)
		order[i], order[j] = order[j], float64(i)
	}
	copy(s.memo[memoColor:], order[:tableThings])
}

// lay writes the position and orientation of a free joint. halfAngle is half of the rotation angle about z, in radians.
func lay(qpos []float64, xy [2]float64, height, halfAngle float64) {
	copy(qpos, []float64{xy[0], xy[1], height, math.Cos(halfAngle), 0, 0, math.Sin(halfAngle)})
}

// command writes the actuators' inputs for an action.
func (s *scene) command(action, ctrl []float32) {
	for i := range handJoints {
		target := &s.memo[memoTarget+i]
		*target = ahead(*target+commandStep*clip(float64(action[i]), 1), s.qpos[i], commandLead, s.model.control[i])
		ctrl[i] = float32(*target)
	}
	finger := fingerOpen
	s.memo[memoGrip] = -1
	if action[handJoints] > 0 {
		finger, s.memo[memoGrip] = fingerShut, 1
	}
	ctrl[handJoints], ctrl[handJoints+1] = float32(finger), float32(finger)
}

// judge evaluates the last step. It reports whether the task was done in two consecutive steps, with the target
// (success) or with another object (wrong).
func (s *scene) judge() (success, wrong bool) {
	other := false
	for i := range s.task.objects {
		other = other || i != s.meant() && s.task.done(s, i)
	}
	success = inTwoSteps(&s.memo[memoDone], s.task.done(s, s.meant()))
	wrong = inTwoSteps(&s.memo[memoWrong], other)
	return success, wrong && !success
}

// inTwoSteps keeps in n the number of consecutive calls with done = true, and reports whether there
// were two or more.
func inTwoSteps(n *float64, done bool) bool {
	*n = (*n + 1) * count(done)
	return *n >= 2
}

// paint writes the colours of objects and zones.
func (s *scene) paint(colour []float32) {
	for i, at := range s.geoms[:tableThings] {
		copy(colour[at:], colors[int(s.memo[memoColor+i])].rgb[:])
	}
}

// views returns all observations of the tabletop tasks.
func (s *scene) views() []view {
	return []view{
		numbersView("state", 43, func(p *physics, obs []float64) { s.at(p).state(obs) }),
		s.proprioView(),
		cameraView("image", "front"),
		{name: textView, dtype: tensor.U8, text: true, width: TextLen, bound: 255,
			observe: func(p *physics, obs []float64) { s.at(p).text(obs) }},
		{name: instructionView, dtype: tensor.I32, width: InstructionLen, bound: float32(len(vocabulary()) - 1),
			observe: func(p *physics, obs []float64) { s.at(p).instruction(obs) }},
	}
}

func (s *scene) proprioView() view {
	return numbersView("proprio", 8, func(p *physics, obs []float64) { s.at(p).appendProprio(obs[:0]) })
}

// cameraView returns an observation called name, with the pictures of a camera.
func cameraView(name, camera string) view {
	return view{name: name, picture: &env.View{Width: 64, Height: 64, Camera: camera, Shadows: true}}
}

func (s *scene) appendProprio(obs []float64) []float64 {
	obs = decimetres(obs, s.hand()...)
	obs = append(decimetres(obs, s.opening()), s.memo[memoGrip])
	for i := range handJoints {
		obs = decimetres(obs, s.memo[memoTarget+i]-s.qpos[i])
	}
	return obs
}

// appendThings appends the robot's numbers, the poses of the objects and the positions of the zones.
func (s *scene) appendThings(obs []float64) []float64 {
	obs = s.appendHand(obs)
	for i := range tableObjects {
		cos, sin := s.turn(i)
		obs = append(decimetres(obs, s.object(i)...), cos, sin)
	}
	for i := range tableZones {
		obs = decimetres(obs, s.zone(i)[:2]...)
	}
	return obs
}

func (s *scene) state(obs []float64) {
	obs = s.appendThings(obs[:0])
	for i := range tableObjects {
		obs = append(obs, count(i == s.meant()))
	}
	// without a target zone, the goal is the object's own position
	hand, object, goal := s.hand(), s.object(s.meant()), s.object(s.meant())
	if s.task.zone {
		goal = s.zone(s.meantZone())
	}
	for i := range tableZones {
		obs = append(obs, count(s.task.zone && i == s.meantZone()))
	}
	obs = decimetres(obs, object[0]-hand[0], object[1]-hand[1], object[2]-hand[2], goal[0]-object[0], goal[1]-object[1])
	decimetres(obs, s.velocity(s.meant())...)
}

// decimetres appends lengths in metres as decimetres, or velocities in m/s as dm/s. Numbers near 1 are easier to learn
// from.
func decimetres(obs []float64, metres ...float64) []float64 {
	for _, m := range metres {
		obs = append(obs, 10*m)
	}
	return obs
}
