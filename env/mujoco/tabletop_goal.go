package mujoco

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
)

// Tasks of the tabletop with goals have the observations observation, achieved_goal and desired_goal, with lengths in
// dm and velocities in dm/s. Their reward is 0 where the achieved goal is within the threshold of the desired goal,
// and -1 elsewhere (env.SparseGoal). An episode has 50 steps, and goes on after the goal is reached. The figure of a
// step is success: the goal is reached. Actions are those of the other tasks. The first zone lies at the desired goal.

// A goalTask defines one task with goals.
type goalTask struct {
	name      string
	threshold float32 // dm
	width     int     // length of observation

	draw     func(s *scene, r *philox.Stream) (goal [3]float64) // writes an initial state; goal is in m
	observe  func(s *scene, obs []float64)
	achieved func(s *scene) []float64                                  // m
	expert   func(s *scene, goal []float64) (to [3]float64, shut bool) // as in tabletopTask
}

// TabletopReachGoal makes TabletopReachGoal-v1: the hand must come within 3.5 cm of a point in space. observation has
// 11 numbers: those of proprio (8) and the velocity of the hand (3).
func TabletopReachGoal(cfg env.Config, n int) (env.Vec, error) {
	return goalTask{
		name: "TabletopReachGoal-v1", threshold: 0.35, width: 11,
		draw: func(s *scene, r *philox.Stream) [3]float64 {
			s.arrange(corners([2]float64{0, 0.22}))
			return [3]float64{r.Uniform(-0.2, 0.2), r.Uniform(-0.2, 0.15), r.Uniform(0.05, 0.25)}
		},
		observe:  func(s *scene, obs []float64) { s.appendHand(obs) },
		achieved: (*scene).hand,
		expert:   func(_ *scene, goal []float64) ([3]float64, bool) { return [3]float64(goal), false },
	}.environments(cfg, n)
}

// TabletopPushGoal makes TabletopPushGoal-v1: the hand must push the red cube to within 4 cm of a point on the table.
// observation has 22 numbers: those of proprio (8), velocity of the hand (3), position of the cube (3), cosine and
// sine of its rotation about z, the vector from the hand to the cube (3), velocity of the cube (3). At first the goal
// is at least 8 cm away from the cube.
func TabletopPushGoal(cfg env.Config, n int) (env.Vec, error) {
	return goalTask{
		name: "TabletopPushGoal-v1", threshold: 0.4, width: 22,
		draw: func(s *scene, r *philox.Stream) (goal [3]float64) {
			cube := [2]float64{r.Uniform(-0.1, 0.1), r.Uniform(-0.1, 0.1)}
			s.arrange(corners(cube))
			for near := true; near; near = apart(goal[:], cube[:]) < 0.08 {
				goal = [3]float64{r.Uniform(-0.15, 0.15), r.Uniform(-0.15, 0.15), cubeHalf}
			}
			return goal
		},
		observe:  (*scene).pushObservation,
		achieved: func(s *scene) []float64 { return s.object(0) },
		expert:   func(s *scene, goal []float64) ([3]float64, bool) { return s.pushTowards(goal) },
	}.environments(cfg, n)
}

// corners returns positions for all things. The first object is at the given place, and the other things are out of the
// way.
func corners(first [2]float64) [tableThings][2]float64 {
	return [tableThings][2]float64{first, {-0.23, -0.23}, {0.23, -0.23}, {}, {0.23, 0.23}}
}

// environments makes n environments of t.
func (t goalTask) environments(cfg env.Config, n int) (env.Vec, error) {
	if err := cfg.Plain(); err != nil {
		return nil, err
	}
	s := &scene{}
	return newVec(embedded(t.name, "tabletop.xml"), func(m *model) (task, error) {
		s.find(m)
		return t.on(s), nil
	}, cfg, n)
}

const (
	goalLimit = 50 // steps of an episode
	memoGoal  = memoLen
)

// on returns t as a task on the scene s, with the observations of a goal.
func (t goalTask) on(s *scene) task {
	goal := &env.Goal{Threshold: t.threshold, Reward: env.SparseGoal}
	desired := func(p *physics) []float64 { return p.memo[memoGoal:][:3] }
	var achievedDM, desiredDM [3]float32 // scratch
	return task{
		skip: 10, limit: goalLimit, actuator: s.model.all(), renew: positions,
		info: []string{env.Success}, memo: memoLen + 3, goal: goal,
		views: []view{
			numbersView(env.Observation, t.width, func(p *physics, obs []float64) { t.observe(s.at(p), obs[:0]) }),
			numbersView(env.AchievedGoal, 3, func(p *physics, obs []float64) {
				decimetres(obs[:0], t.achieved(s.at(p))...)
			}),
			numbersView(env.DesiredGoal, 3, func(p *physics, obs []float64) { decimetres(obs[:0], desired(p)...) }),
		},
		reset: func(r *philox.Stream, p *physics) {
			at := t.draw(s.at(p), r)
			copy(desired(p), at[:])
			copy(s.zone(0), at[:])
		},
		step: func(p *physics, _ []float32, _ []float64, info []float32) (float64, bool) {
			inDecimetres(&achievedDM, t.achieved(s.at(p)))
			inDecimetres(&desiredDM, desired(p))
			reward, reached := goal.Sparse(achievedDM[:], desiredDM[:])
			info[0] = float32(count(reached))
			return float64(reward), false
		},
		commands: handJoints + 1,
		control:  func(p *physics, action, ctrl []float32) { s.at(p).command(action, ctrl) },
		paint:    func(p *physics, colour []float32) { s.at(p).paint(colour) },
		expert: func(p *physics, action []float32) {
			to, shut := t.expert(s.at(p), desired(p))
			s.steer(action, to, shut)
		},
	}
}

// inDecimetres converts a position in m to the numbers that the views have.
func inDecimetres(dm *[3]float32, m []float64) {
	for i, x := range m[:3] {
		dm[i] = float32(10 * x)
	}
}

// appendHand appends the robot's own numbers and the velocity of the hand.
func (s *scene) appendHand(obs []float64) []float64 {
	return decimetres(s.appendProprio(obs), s.qvel[:handJoints]...)
}

// pushObservation writes the observation of TabletopPushGoal.
func (s *scene) pushObservation(obs []float64) {
	hand, cube := s.hand(), s.object(0)
	cos, sin := s.turn(0)
	obs = append(decimetres(s.appendHand(obs), cube...), cos, sin)
	obs = decimetres(obs, cube[0]-hand[0], cube[1]-hand[1], cube[2]-hand[2])
	decimetres(obs, s.velocity(0)...)
}
