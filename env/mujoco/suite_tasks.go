package mujoco

// An object or zone is reached if the point between the fingertips is within 3.5 cm of it.

func reachDone(t *suite, g goal) bool { return distance(t.hand(), t.object(g.object)) < 0.035 }

func reachZoneDone(t *suite, g goal) bool { return distance(t.hand(), t.zone(g.zone)) < 0.035 }

// stay is the aim of instructions that move no object: the target's current position.
func stay(t *suite) [3]float64 { return [3]float64(t.target()) }

// target returns the position of the object or the zone that is the target.
func (t *suite) target() []float64 {
	if t.order().noun == aZone {
		return t.zone(t.meantZone())
	}
	return t.object(t.meant())
}

func reachReward(t *suite) float64 { return near(distance(t.hand(), t.target())) }

func reachExpert(t *suite) ([3]float64, bool) {
	at := t.target()
	return over(at, at[2]+0.02), false
}

const (
	pushFar    = 0.08 // m: minimum shift of a pushed cube to the side
	pushAcross = 0.04 // m: maximum shift of a pushed cube forwards or backwards
	pushAim    = 0.095
)

// Left and right are seen from the camera in front: left is +x.

func pushLeftDone(t *suite, g goal) bool  { return t.pushed(g.object, 1) }
func pushRightDone(t *suite, g goal) bool { return t.pushed(g.object, -1) }

// pushed reports whether an object was pushed to one side and rests there. The sign is 1 for the
// left side and -1 for the right side.
func (t *suite) pushed(object int, sign float64) bool {
	at, from := t.object(object), t.start(object)
	across := at[1] - from[1]
	return sign*(at[0]-from[0]) >= pushFar && across <= pushAcross && across >= -pushAcross && t.rests(object)
}

// pushZoneDone reports whether a cube rests within 4 cm of the centre of the zone.
func pushZoneDone(t *suite, g goal) bool {
	return apart(t.object(g.object), t.zone(g.zone)) < 0.04 && t.rests(g.object)
}

// rests reports whether an object lies flat on the table and hardly moves.
func (t *suite) rests(object int) bool {
	return t.object(object)[2] < cubeHalf+0.004 && t.still(object)
}

// still reports whether an object is slower than 0.1 m/s.
func (t *suite) still(object int) bool {
	v := t.velocity(object)
	return v[0]*v[0]+v[1]*v[1]+v[2]*v[2] < 0.1*0.1
}

func toZone(t *suite) [3]float64 { return over(t.zone(t.meantZone()), cubeHalf) }

func toLeft(t *suite) [3]float64  { return t.aside(1) }
func toRight(t *suite) [3]float64 { return t.aside(-1) }

func (t *suite) aside(sign float64) [3]float64 {
	from := t.start(t.meant())
	return [3]float64{from[0] + sign*pushAim, from[1], cubeHalf}
}

func pushReward(t *suite) float64 {
	aim := t.order().aim(t)
	return t.pushReward(aim[:])
}

// suitePushExpert pushes the cube to its aim.
func suitePushExpert(t *suite) ([3]float64, bool) {
	aim := t.order().aim(t)
	return t.pushTowards(aim[:])
}

// pickDone reports whether the fingers hold a cube high above the table. A thrown cube does not count.
func pickDone(t *suite, g goal) bool {
	return t.object(g.object)[2] > pickLift && t.between(g.object)
}

const (
	placeAway   = 0.05 // m: minimum height of the hand above the surface at the end
	besideLeast = 0.05 // m: minimum distance between the centres of neighbouring cubes
	besideMost  = 0.08
	besideAim   = 0.065
	besideMoved = 0.02  // m: maximum shift of the cube that must stay
	stackMost   = 0.015 // m: maximum horizontal distance between the centres of stacked cubes
	stackOff    = 0.005 // m: tolerance of the upper cube's height
	placeNear   = 0.012 // m: the expert lowers the object within this horizontal distance of the aim
)

// putZoneDone reports whether a cube lies on the zone, with the fingers open and the hand away.
func putZoneDone(t *suite, g goal) bool { return pushZoneDone(t, g) && t.handAway(0) }

// besideDone reports whether the cube was put beside the other cube, which has not moved.
func besideDone(t *suite, g goal) bool {
	d := apart(t.object(g.object), t.object(g.other))
	return d >= besideLeast && d <= besideMost && apart(t.object(g.other), t.start(g.other)) < besideMoved &&
		apart(t.object(g.object), t.start(g.object)) > besideMoved && t.rests(g.object) && t.handAway(0)
}

// stackDone reports whether the cube rests on the other cube, centred and released.
func stackDone(t *suite, g goal) bool {
	upper, lower := t.object(g.object), t.object(g.other)
	off := upper[2] - lower[2] - 2*cubeHalf
	return off < stackOff && off > -stackOff && apart(upper, lower) < stackMost && t.rests(g.other) &&
		t.still(g.object) && t.handAway(2*cubeHalf)
}

// handAway reports whether the fingers are open and the hand is more than placeAway above a surface of the given
// height.
func (t *suite) handAway(height float64) bool { return t.released() && t.hand()[2] > placeAway+height }

// toBeside returns a position beside the other cube, on the side of the object's initial position.
func toBeside(t *suite) [3]float64 {
	other := t.object(t.other())
	x, y := direction(other, t.start(t.meant()))
	return [3]float64{other[0] + besideAim*x, other[1] + besideAim*y, cubeHalf}
}

func ontoOther(t *suite) [3]float64 {
	other := t.object(t.other())
	return over(other, other[2]+2*cubeHalf)
}

// placeReward is the reward of TabletopPut, with the aim in place of the zone.
func placeReward(t *suite) float64 {
	cube, aim := t.object(t.meant()), t.order().aim(t)
	off := distance(cube, aim[:])
	if off < 0.025 {
		return (3 + count(t.released()) + min(t.hand()[2]/(placeAway+aim[2]-cubeHalf), 1)) / 6
	}
	return (near(distance(t.hand(), cube)) + t.grip(t.meant()) + t.held(t.meant())*near(off)) / 6
}

// placeExpert grasps the object, carries it above its aim, lowers and releases it, and moves up.
func placeExpert(t *suite) ([3]float64, bool) {
	hand, cube, aim := t.hand(), t.object(t.meant()), t.order().aim(t)
	left, above := apart(cube, aim[:]), cube[2]-aim[2]
	carry := cruiseHeight + aim[2] - cubeHalf
	switch {
	case left < 0.02 && above < 0.006:
		if t.opening() < fingerShut {
			return over(hand, hand[2]), false
		}
		return over(hand, carry), false
	case !t.grasped(t.meant()):
		return t.grasp()
	case left < placeNear || left < 0.02 && above < 0.06:
		return [3]float64{aim[0] + hand[0] - cube[0], aim[1] + hand[1] - cube[1], hand[2] - above + 0.002}, true
	case hand[2] < carry-0.015:
		return over(hand, carry), true
	}
	return [3]float64{aim[0] + hand[0] - cube[0], aim[1] + hand[1] - cube[1], carry}, true
}
