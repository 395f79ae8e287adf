package mujoco

// Reaching: the point between the fingertips comes within 3.5 cm of the thing meant.

func reachDone(t *suite, g goal) bool { return distance(t.hand(), t.object(g.object)) < 0.035 }

func reachZoneDone(t *suite, g goal) bool { return distance(t.hand(), t.zone(g.zone)) < 0.035 }

// stay is the aim of instructions that move no object: the present place.
func stay(t *suite) [3]float64 { return [3]float64(t.target()) }

// target returns the position of the object or the zone that is meant.
func (t *suite) target() []float64 {
	if t.order().noun == aZone {
		return t.zone(t.meantZone())
	}
	return t.object(t.meant())
}

func reachReward(t *suite) float64 { return near(distance(t.hand(), t.target())) }

func reachExpert(t *suite) ([3]float64, bool) {
	at := t.target()
	return [3]float64{at[0], at[1], at[2] + 0.02}, false
}
