package mujoco

import (
	"math"
	"strings"

	"github.com/rlinf/rlinf/env"
)

// TabletopReach makes TabletopReach-v1: the hand must come within 3.5 cm of the target object, a
// cube or the ball, in 40 steps.
//
//	reward = 1 - tanh 5|hand - object|
func TabletopReach(cfg env.Config, n int) (env.Vec, error) {
	return tabletopTask{
		name: "TabletopReach-v1", limit: 40, objects: tableObjects, sentence: strings.Fields("reach the OBJECT"),
		draw:   (*scene).draw,
		done:   func(s *scene, object int) bool { return distance(s.hand(), s.object(object)) < 0.035 },
		reward: func(s *scene) float64 { return near(distance(s.hand(), s.object(s.meant()))) },
		expert: func(s *scene) ([3]float64, bool) {
			o := s.object(s.meant())
			return over(o, o[2]+0.02), false
		},
	}.environments(cfg, n)
}

// TabletopPush makes TabletopPush-v1: the hand must push the target cube to within 4 cm of the
// centre of the target zone, in 100 steps.
//
//	reward = (1 - tanh 5|hand - cube| + grip + 2 (1 - tanh 5|cube - zone|)) / 4
//
// See TabletopPick for grip. The reward favours a hand that closes its fingers around the cube and drags the cube over
// the table, as in Meta-World's push (Yu et al. 2019, arXiv:1910.10897). Pushing from behind with shut fingers
// succeeds, too.
func TabletopPush(cfg env.Config, n int) (env.Vec, error) {
	return tabletopTask{
		name: "TabletopPush-v1", limit: 100, objects: tableCubes, zone: true,
		sentence: strings.Fields("push the OBJECT to the ZONE"), draw: (*scene).draw,
		done:   func(s *scene, object int) bool { return s.onZone(object) },
		reward: func(s *scene) float64 { return s.pushReward(s.zone(s.meantZone())) },
		expert: (*scene).pushExpert,
	}.environments(cfg, n)
}

// pushReward is the reward of TabletopPush, with aim in place of the zone.
func (s *scene) pushReward(aim []float64) float64 {
	cube := s.object(s.meant())
	return (near(distance(s.hand(), cube)) + s.grip(s.meant()) + 2*near(apart(cube, aim))) / 4
}

// TabletopPick makes TabletopPick-v1: the hand must lift the centre of the target cube more than 8
// cm above the table, in 60 steps.
//
//	reward = (1 - tanh 5|hand - cube| + grip + 2 held min(lifted / 6 cm, 1)) / 4
//	held   = 0 to 1 as the fingers shut on a cube between them; 0 without a cube between them
//	grip   = ½ + ½ held                                                if the cube is between the fingers
//	grip   = ½ (1 - tanh 20|hand - cube|) opening / widest opening,    otherwise, with the distance in the plane
func TabletopPick(cfg env.Config, n int) (env.Vec, error) {
	return tabletopTask{
		name: "TabletopPick-v1", limit: 60, objects: tableCubes, sentence: strings.Fields("pick up the OBJECT"),
		draw:   (*scene).draw,
		done:   func(s *scene, object int) bool { return s.object(object)[2] > pickLift },
		reward: (*scene).pickReward, expert: (*scene).pickExpert,
	}.environments(cfg, n)
}

const pickLift = 0.08 // m: a cube whose centre is higher than this is picked up

// pickReward is the reward of TabletopPick.
func (s *scene) pickReward() float64 {
	cube := s.object(s.meant())
	lifted := clip((cube[2]-cubeHalf)/(pickLift-cubeHalf), 1)
	return (near(distance(s.hand(), cube)) + s.grip(s.meant()) + 2*s.held(s.meant())*lifted) / 4
}

// TabletopPut makes TabletopPut-v1: the hand must put the target cube within 4 cm of the centre of
// the target zone, then open its fingers and rise more than 5 cm above the table. An episode has
// 100 steps.
//
//	reward = (1 - tanh 5|hand - cube| + grip + held (1 - tanh 5|cube - zone|)) / 6, while the cube is off the zone
//	reward = (3 + open + min(hand's height / 5 cm, 1)) / 6,                         while the cube is on it
//
// See TabletopPick for held and grip.
func TabletopPut(cfg env.Config, n int) (env.Vec, error) {
	const away = 0.05
	return tabletopTask{
		name: "TabletopPut-v1", limit: 100, objects: tableCubes, zone: true,
		sentence: strings.Fields("put the OBJECT on the ZONE"), draw: (*scene).draw,
		done: func(s *scene, object int) bool { return s.onZone(object) && s.released() && s.hand()[2] > away },
		reward: func(s *scene) float64 {
			cube, zone := s.object(s.meant()), s.zone(s.meantZone())
			if s.onZone(s.meant()) {
				return (3 + count(s.released()) + min(s.hand()[2]/away, 1)) / 6
			}
			target := []float64{zone[0], zone[1], cubeHalf}
			return (near(distance(s.hand(), cube)) + s.grip(s.meant()) +
				s.held(s.meant())*near(distance(cube, target))) / 6
		},
		expert: (*scene).putExpert,
	}.environments(cfg, n)
}

// tableCubes is the number of cubes. The cubes come before the ball in the list of objects.
const tableCubes = 2

// onZone reports whether an object lies on the target zone.
func (s *scene) onZone(object int) bool {
	p := s.object(object)
	return apart(p, s.zone(s.meantZone())) < 0.04 && p[2] < 0.03
}

// released reports whether the fingers are open wider than a cube and the last command to them was to open.
func (s *scene) released() bool { return s.qpos[handJoints] < 0.01 && s.memo[memoGrip] < 0 }

// direction returns the unit vector from a to b in the plane.
func direction(a, b []float64) (x, y float64) {
	d := math.Max(apart(a, b), 1e-9)
	return (b[0] - a[0]) / d, (b[1] - a[1]) / d
}
