package mujoco

import "math"

// steer writes the action that moves the fingertips towards a position, and shuts or opens them.
func (s *scene) steer(action []float32, to [3]float64, shut bool) {
	for i, x := range s.hand() {
		action[i] = float32(clip(approach*(to[i]-x)/commandStep, 1))
	}
	action[handJoints] = -1
	if shut {
		action[handJoints] = 1
	}
}

const (
	approach = 0.8 // fraction of the remaining distance that the hand moves in a step, up to its top speed

	// Heights of the fingertips above the table, m.
	cruiseHeight = 0.10 // above all objects
	pushHeight   = 0.012
	graspHeight  = 0.018
)

// over returns the point above p at height z.
func over(p []float64, z float64) [3]float64 { return [3]float64{p[0], p[1], z} }

// pushExpert pushes the cube to the zone.
func (s *scene) pushExpert() ([3]float64, bool) { return s.pushTowards(s.zone(s.meantZone())) }

// pushTowards lowers the hand behind the cube and pushes the cube to the given place, correcting
// sideways. If the hand loses the cube, it moves up and starts again. If the hand cannot come down
// behind the cube, it pushes in the nearest possible direction.
func (s *scene) pushTowards(place []float64) ([3]float64, bool) {
	hand, cube := s.hand(), s.object(s.meant())
	x, y := direction(cube, place)
	behind := []float64{cube[0] - pushBehind*x, cube[1] - pushBehind*y}
	for _, turn := range pushTurns {
		dx, dy := x*turn.cos-y*turn.sin, y*turn.cos+x*turn.sin
		toX, toY := hand[0]-cube[0], hand[1]-cube[1]
		along, aside := toX*dx+toY*dy, toY*dx-toX*dy // coordinates of the hand, seen from the cube
		if hand[2] < 0.03 && along < 0 && along > -0.09 && aside < pushLane && aside > -pushLane {
			forward := pushSpeed(apart(cube, place)) * commandStep / approach
			return [3]float64{hand[0] + forward*dx + aside*dy, hand[1] + forward*dy - aside*dx, pushHeight}, true
		}
		if at := []float64{cube[0] - pushBehind*dx, cube[1] - pushBehind*dy}; s.handFits(at) {
			behind = at
			break
		}
	}
	off := apart(hand, behind)
	switch {
	case off < 0.012 || off < 0.025 && hand[2] < 0.08:
		return over(behind, pushHeight), true
	case hand[2] < 0.08:
		return over(hand, cruiseHeight), true
	}
	return over(behind, cruiseHeight), true
}

const (
	pushBehind = 0.055 // m: the hand comes down at this distance behind the cube's centre
	pushLane   = 0.02  // m: maximum sideways distance of a pushing hand from the line of the push
)

// pushTurns are the possible directions of a push, relative to the direction to the aim. The best
// comes first.
var pushTurns = func() (turns []struct{ cos, sin float64 }) {
	for _, degrees := range []float64{0, 40, -40, 80, -80, 120, -120, 180} {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		turns = append(turns, struct{ cos, sin float64 }{cos, sin})
	}
	return turns
}()

// pushSpeed returns the hand's speed for a remaining distance, as a fraction of its top speed.
func pushSpeed(left float64) float64 {
	switch {
	case left < 0.02:
		return 0
	case left < 0.06:
		return 0.5
	}
	return 0.9
}

// handFits reports whether the hand can come down at the given position without touching an object
// other than the target.
func (s *scene) handFits(position []float64) bool {
	const room, reach = 0.045, 0.245
	for i := range s.bodies {
		if i != s.meant() && apart(position, s.object(i)) < room {
			return false
		}
	}
	return math.Abs(position[0]) < reach && math.Abs(position[1]) < reach
}

// pickExpert grasps the cube and lifts it.
func (s *scene) pickExpert() ([3]float64, bool) {
	if s.grasped(s.meant()) {
		return over(s.hand(), 0.13), true
	}
	return s.grasp()
}

// grasp moves the hand above the cube and down, and then shuts the fingers.
func (s *scene) grasp() ([3]float64, bool) {
	hand, cube := s.hand(), s.object(s.meant())
	off := apart(hand, cube)
	switch {
	case off > 0.015 || off > 0.006 && hand[2] > 0.07:
		return over(cube, 0.08), false
	case hand[2] > 0.026:
		return over(cube, graspHeight), false
	}
	return over(hand, hand[2]), true
}

// putExpert grasps the cube, carries it above the zone, lowers and releases it, and moves up.
func (s *scene) putExpert() ([3]float64, bool) {
	hand, cube, zone := s.hand(), s.object(s.meant()), s.zone(s.meantZone())
	left := apart(cube, zone)
	switch {
	case left < 0.03 && cube[2] < 0.026:
		if s.opening() < fingerShut {
			return over(hand, hand[2]), false
		}
		return over(hand, cruiseHeight), false
	case !s.grasped(s.meant()):
		return s.grasp()
	case left < 0.012 || left < 0.025 && hand[2] < 0.08:
		return over(hand, 0.022), true
	case hand[2] < 0.085:
		return over(hand, cruiseHeight), true
	}
	return [3]float64{zone[0] + hand[0] - cube[0], zone[1] + hand[1] - cube[1], cruiseHeight}, true
}
