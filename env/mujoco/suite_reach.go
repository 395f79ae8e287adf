package mujoco

// Reaching: the middle between the fingertips comes within 3.5 cm of what is meant.

func reachDone(t *suite, g goal) bool { return distance(t.hand(), t.object(g.object)) < 0.035 }

func reachZoneDone(t *suite, g goal) bool { return distance(t.hand(), t.zone(g.zone)) < 0.035 }

// stay is the aim of what moves nothing to another place.
func stay(t *suite) [3]float64 { return [3]float64(t.target()) }

// target returns where the hand is to go: to the object meant, or to the zone.
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
