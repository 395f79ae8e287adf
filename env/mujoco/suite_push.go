package mujoco

const (
	pushFar    = 0.08 // m: least shift of a pushed cube to the side
	pushAcross = 0.04 // m: greatest shift forwards or backwards meanwhile
	pushAim    = 0.095
)

// Left and right are as the camera in front sees them: left is along +x.

func pushLeftDone(t *suite, g goal) bool  { return t.pushed(g.object, 1) }
func pushRightDone(t *suite, g goal) bool { return t.pushed(g.object, -1) }

// pushed reports whether an object was pushed to the side of sign, and rests there.
func (t *suite) pushed(object int, sign float64) bool {
	at, from := t.object(object), t.start(object)
	across := at[1] - from[1]
	return sign*(at[0]-from[0]) >= pushFar && across <= pushAcross && across >= -pushAcross && t.rests(object)
}

// pushZoneDone: a cube rests within 4 cm of the centre of the zone.
func pushZoneDone(t *suite, g goal) bool {
	return apart(t.object(g.object), t.zone(g.zone)) < 0.04 && t.rests(g.object)
}

// rests reports whether an object lies flat on the table and hardly moves. An object that was
// thrown, leans on another one, or is held above the table does not rest.
func (t *suite) rests(object int) bool {
	const slow = 0.1 // m/s
	at, v := t.object(object), t.velocity(object)
	return at[2] < cubeHalf+0.004 && v[0]*v[0]+v[1]*v[1]+v[2]*v[2] < slow*slow
}

func toZone(t *suite) [3]float64 {
	zone := t.zone(t.meantZone())
	return [3]float64{zone[0], zone[1], cubeHalf}
}

func toLeft(t *suite) [3]float64  { return t.aside(1) }
func toRight(t *suite) [3]float64 { return t.aside(-1) }

func (t *suite) aside(sign float64) [3]float64 {
	from := t.start(t.meant())
	return [3]float64{from[0] + sign*pushAim, from[1], cubeHalf}
}

func pushReward(t *suite) float64 {
	cube, aim := t.object(t.meant()), t.order().aim(t)
	return (near(distance(t.hand(), cube)) + t.grip(t.meant()) + 2*near(apart(cube, aim[:]))) / 4
}

// suitePushExpert moves down behind the cube and pushes it to its aim.
func suitePushExpert(t *suite) ([3]float64, bool) {
	aim := t.order().aim(t)
	return t.pushTowards(aim[:])
}
