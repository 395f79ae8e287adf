package mujoco

// steer writes the action that brings the fingertips to a place, and opens or shuts them.
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
	approach = 0.8 // of the way that is left is gone in a step, as far as that is possible

	// Heights of the fingertips above the table, m.
	cruiseHeight = 0.10 // over all that lies there
	pushHeight   = 0.012
	graspHeight  = 0.018
)

// over returns the place at height z over p.
func over(p []float64, z float64) [3]float64 { return [3]float64{p[0], p[1], z} }

// pushExpert pushes the cube to the zone.
func pushExpert(s *scene) ([3]float64, bool) { return s.pushTowards(s.zone(s.meantZone())) }

// pushTowards goes behind the cube, down, and pushes towards a place, correcting to the side; where
// it has lost the cube it goes up and begins again.
func (s *scene) pushTowards(zone []float64) ([3]float64, bool) {
	hand, cube := s.hand(), s.object(s.meant())
	x, y := direction(cube, zone)
	dx, dy := hand[0]-cube[0], hand[1]-cube[1]
	along, aside := dx*x+dy*y, dy*x-dx*y // of the hand, seen from the cube
	behind := []float64{cube[0] - 0.055*x, cube[1] - 0.055*y}
	off := apart(hand, behind)
	left := apart(cube, zone)
	switch {
	case hand[2] < 0.03 && along < 0 && along > -0.09 && aside < 0.03 && aside > -0.03:
		speed := 0.9
		if left < 0.06 {
			speed = 0.5
		}
		if left < 0.02 {
			speed = 0
		}
		forward := speed * commandStep / approach
		return [3]float64{hand[0] + forward*x + aside*y, hand[1] + forward*y - aside*x, pushHeight}, true
	case off < 0.012 || off < 0.025 && hand[2] < 0.08:
		return over(behind, pushHeight), true
	case hand[2] < 0.08:
		return over(hand, cruiseHeight), true
	}
	return over(behind, cruiseHeight), true
}

// pickExpert grasps the cube and lifts it.
func pickExpert(s *scene) ([3]float64, bool) {
	if s.grasped(s.meant()) {
		return over(s.hand(), 0.13), true
	}
	return grasp(s)
}

// grasp goes over the cube, down, and shuts the fingers.
func grasp(s *scene) ([3]float64, bool) {
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

// putExpert grasps the cube, carries it over the zone, lets it down, opens the fingers and goes up.
func putExpert(s *scene) ([3]float64, bool) {
	hand, cube, zone := s.hand(), s.object(s.meant()), s.zone(s.meantZone())
	left := apart(cube, zone)
	switch {
	case left < 0.03 && cube[2] < 0.026:
		if s.opening() < fingerShut {
			return over(hand, hand[2]), false
		}
		return over(hand, cruiseHeight), false
	case !s.grasped(s.meant()):
		return grasp(s)
	case left < 0.012 || left < 0.025 && hand[2] < 0.08:
		return over(hand, 0.022), true
	case hand[2] < 0.085:
		return over(hand, cruiseHeight), true
	}
	return [3]float64{zone[0] + hand[0] - cube[0], zone[1] + hand[1] - cube[1], cruiseHeight}, true
}
