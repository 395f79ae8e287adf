package mujoco

const (
	pushFar    = 0.08 // m that a cube is to be pushed to a side
	pushAcross = 0.04 // m that it may go forwards or backwards meanwhile
	pushAim    = 0.095
)

// Left and right are those of the picture of the camera in front: left is along +x.

func pushLeftDone(t *suite, g goal) bool  { return t.pushed(g.object, 1) }
func pushRightDone(t *suite, g goal) bool { return t.pushed(g.object, -1) }

// pushed reports whether an object has been pushed to the side that sign says, and rests there.
func (t *suite) pushed(object int, sign float64) bool {
	at, from := t.object(object), t.start(object)
	across := at[1] - from[1]
	return sign*(at[0]-from[0]) >= pushFar && across <= pushAcross && across >= -pushAcross && t.rests(object)
}

// pushZoneDone: a cube lies within 4 cm of the middle of the zone, and rests there.
func pushZoneDone(t *suite, g goal) bool {
	return apart(t.object(g.object), t.zone(g.zone)) < 0.04 && t.rests(g.object)
}

// rests reports whether an object lies flat on the table and hardly moves: one that was thrown, that
// leans on something or is held above the table does not.
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

// suitePushExpert goes behind the cube, down, and pushes it to where it is to go.
func suitePushExpert(t *suite) ([3]float64, bool) {
	aim := t.order().aim(t)
	return t.pushTowards(aim[:])
}
