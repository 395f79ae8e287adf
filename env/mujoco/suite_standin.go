package mujoco

// Indices into physics.memo, relative to suiteStandIn. They describe the scene that pictures show
// with the perturbation shuffled.
const (
	standInObjects = 0                               // [tableObjects,7], as in qpos
	standInZones   = standInObjects + 7*tableObjects // [tableZones,3]
	standInColors  = standInZones + 3*tableZones     // [tableThings]
	standInLen     = standInColors + tableThings
)

// keepStandIn stores l as the scene that pictures show.
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

// swapStandIn exchanges the scene with the scene that keepStandIn stored. A second call exchanges them back. Only
// numbers that pictures depend on are exchanged.
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
