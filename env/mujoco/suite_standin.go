package mujoco

// Indices into physics.memo, relative to suiteStandIn. With the perturbation shuffled, pictures do not show the
// simulated scene but another one, the stand-in. These numbers describe the stand-in.
const (
	standInObjects = 0                               // [tableObjects,7], as in qpos
	standInZones   = standInObjects + 7*tableObjects // [tableZones,3]
	standInColors  = standInZones + 3*tableZones     // [tableThings]
	standInLen     = standInColors + tableThings
)

// keepStandIn makes l the stand-in.
func (t *suite) keepStandIn(l *layout) {
	memo := t.memo[suiteStandIn:][:standInLen]
	for i := range tableObjects {
		lay(memo[standInObjects+7*i:], l.at[i], cubeHalf, l.half[i])
	}
	for i := range tableZones {
		copy(memo[standInZones+3*i:], t.zone(i))
		copy(memo[standInZones+3*i:], l.at[tableObjects+i][:])
	}
	for i := range tableThings {
		memo[standInColors+i] = float64(l.colors[i])
	}
}

// swapStandIn exchanges the simulated scene and the stand-in. A second call exchanges them back. Only the numbers on
// which pictures depend are exchanged.
func (t *suite) swapStandIn() {
	memo := t.memo[suiteStandIn:][:standInLen]
	swap(t.qpos[robotJoints:][:7*tableObjects], memo[standInObjects:])
	swap(t.mocapPos[3*t.zones:][:3*tableZones], memo[standInZones:])
	swap(t.memo[memoColor:][:tableThings], memo[standInColors:])
}

// swap exchanges the elements of a with the first len(a) elements of b.
func swap(a, b []float64) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
