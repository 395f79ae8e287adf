package mujoco

const pickLift = 0.08 // m above the table

// pickDone: the fingers hold a cube high above the table. A thrown cube does not count.
func pickDone(t *suite, g goal) bool {
	return t.object(g.object)[2] > pickLift && t.between(g.object)
}

func suitePickReward(t *suite) float64 {
	cube := t.object(t.meant())
	lifted := clip((cube[2]-cubeHalf)/(pickLift-cubeHalf), 1)
	return (near(distance(t.hand(), cube)) + t.grip(t.meant()) + 2*t.held(t.meant())*lifted) / 4
}

func suitePickExpert(t *suite) ([3]float64, bool) { return pickExpert(t.scene) }
