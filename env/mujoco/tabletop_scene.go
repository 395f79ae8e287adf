package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

const (
	tableObjects = 3 // two cubes and a ball
	tableZones   = 2
	tableThings  = tableObjects + tableZones
	cubeHalf     = 0.02 // m

	commandStep = 0.02 // m that an action of 1 moves the commanded position of the hand
	commandLead = 0.04 // m that this may be ahead of the hand, along each axis
	fingerOpen  = -0.005
	fingerShut  = 0.03  // with nothing between the fingers
	cubeOpening = 0.021 // of each finger with a cube between them
)

// What physics.memo keeps of an episode.
const (
	memoTarget = 0              // [3]: commanded position of the hand, in the coordinates of its joints
	memoGrip   = memoTarget + 3 // last command to the fingers: 1 shut, -1 open
	memoObject = memoGrip + 1   // the object meant
	memoZone   = memoObject + 1 // the zone meant
	memoDone   = memoZone + 1   // steps in a row in which the task is done
	memoWrong  = memoDone + 1   // steps in a row in which it is done with another object
	memoColor  = memoWrong + 1  // [tableThings]: numbers of the objects' and the zones' colours
	memoLen    = memoColor + tableThings
)

// The joints of the model: three of the hand, two of the fingers, then a free one for each object.
const (
	handJoints   = 3
	fingerJoints = 2
	robotJoints  = handJoints + fingerJoints
)

// A scene is the table of one environment, and what is to be done there.
type scene struct {
	*physics
	task   tabletopTask
	model  *model
	words  map[string]float64 // their tokens
	tip    int                // the site between the fingertips
	bodies [tableObjects]int  // of the objects
}

func newScene(m *model, t tabletopTask) *scene {
	return &scene{task: t, model: m, words: tokens(), tip: m.number("site", "tcp"), bodies: [tableObjects]int{m.body("o0"), m.body("o1"), m.body("o2")}}
}

// hand returns the position between the fingertips.
func (s *scene) hand() []float64 { return s.siteXpos[3*s.tip : 3*s.tip+3] }

// object returns the position of an object.
func (s *scene) object(i int) []float64 { return s.body(s.bodies[i]) }

// velocity returns the linear velocity of an object.
func (s *scene) velocity(i int) []float64 { return s.qvel[robotJoints+6*i:][:3] }

// turn returns cosine and sine of an object's turn about z, from its quaternion.
func (s *scene) turn(i int) (cos, sin float64) {
	q := s.qpos[robotJoints+7*i+3:][:4]
	return 1 - 2*(q[2]*q[2]+q[3]*q[3]), 2 * (q[0]*q[3] + q[1]*q[2])
}

// zone returns the position of a zone.
func (s *scene) zone(i int) []float64 { return s.mocapPos[3*i : 3*i+3] }

// meant and meantZone are the numbers of what is meant.
func (s *scene) meant() int     { return int(s.memo[memoObject]) }
func (s *scene) meantZone() int { return int(s.memo[memoZone]) }

// opening returns how far each finger is from shut, on average.
func (s *scene) opening() float64 { return fingerShut - (s.qpos[handJoints]+s.qpos[handJoints+1])/2 }

// held is 1 where the fingers hold a cube, less where they are wider, and 0 where they are wide open or the cube is not between them.
func (s *scene) held(object int) float64 {
	wide := (s.opening() - cubeOpening) / (fingerShut - fingerOpen - cubeOpening)
	if distance(s.hand(), s.object(object)) >= cubeHalf || s.opening() < cubeOpening-0.004 {
		return 0
	}
	return 1 - min(max(wide, 0), 1)
}

// grasped reports whether the fingers are being shut and hold a cube.
func (s *scene) grasped(object int) bool { return s.memo[memoGrip] > 0 && s.held(object) > 0.7 }

// apart returns the distance of two points in the plane.
func apart(a, b []float64) float64 { return math.Hypot(a[0]-b[0], a[1]-b[1]) }

// near is 1 at a distance of 0 and falls to 0: ManiSkill's measure (https://github.com/haosulab/ManiSkill, mani_skill/envs/tasks/tabletop).
func near(distance float64) float64 { return 1 - math.Tanh(5*distance) }

// draw writes the initial state: all that is drawn is drawn again until nothing is too near to something else.
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
		half := r.Uniform(-0.15, 0.15)
		copy(s.qpos[robotJoints+7*i:], []float64{at[i][0], at[i][1], cubeHalf + 1e-4, math.Cos(half), 0, 0, math.Sin(half)})
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

// command turns an action into what the actuators are set to.
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

// judge counts the step just taken, and tells whether the task is done, and whether it is with another object than the one meant.
func (s *scene) judge() (success, wrong bool) {
	const steps = 2 // in a row
	tally := func(n *float64, done bool) bool {
		*n = (*n + 1) * count(done)
		return *n >= steps
	}
	other := false
	for i := range s.task.objects {
		other = other || i != s.meant() && s.task.done(s, i)
	}
	success = tally(&s.memo[memoDone], s.task.done(s, s.meant()))
	wrong = tally(&s.memo[memoWrong], other)
	return success, wrong && !success
}

// A tableView is an observation of a scene.
type tableView struct {
	name  string
	dtype tensor.DType
	width int
	bound float32
	write func(s *scene, obs []float64)
}

func tableViews() []tableView {
	inf := float32(math.Inf(1))
	return []tableView{
		{"state", tensor.F32, 43, inf, (*scene).state},
		{"proprio", tensor.F32, 8, inf, (*scene).proprio},
		{"instruction", tensor.I32, InstructionLen, float32(len(vocabulary()) - 1), (*scene).instruction},
	}
}

func (s *scene) proprio(obs []float64) {
	copy(obs, s.hand())
	obs[3], obs[4] = s.opening(), s.memo[memoGrip]
	for i := range handJoints {
		obs[5+i] = s.memo[memoTarget+i] - s.qpos[i]
	}
}

func (s *scene) state(obs []float64) {
	clear(obs)
	s.proprio(obs)
	obs = obs[8+copy(obs[8:], s.qvel[:handJoints]):]
	for i := range tableObjects {
		copy(obs, s.object(i))
		obs[3], obs[4] = s.turn(i)
		obs = obs[5:]
	}
	for i := range tableZones {
		obs = obs[copy(obs, s.zone(i)[:2]):]
	}
	object := s.object(s.meant())
	obs[s.meant()] = 1
	sub(obs[5:8], object, s.hand())
	if s.task.zone {
		obs[3+s.meantZone()] = 1
		sub(obs[8:10], s.zone(s.meantZone()), object)
	}
	copy(obs[10:], s.velocity(s.meant()))
}

// sub sets dst to a - b.
func sub(dst, a, b []float64) {
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}
