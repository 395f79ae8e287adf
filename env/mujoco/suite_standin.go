package mujoco

import "math"

// What physics.memo keeps of the scene that stands in for an episode's own in pictures, from
// suiteStandIn on: where its things are and their colours.
const (
	standInObjects = 0                               // [tableObjects,7], as in qpos
	standInZones   = standInObjects + 7*tableObjects // [tableZones,3]
	standInColors  = standInZones + 3*tableZones     // [tableThings]
	standInLen     = standInColors + tableThings
)

// keepStandIn notes l as the scene of the pictures.
func (t *suite) keepStandIn(l *layout) {
	memo := t.memo[suiteStandIn:][:standInLen]
	for i := range tableObjects {
		copy(memo[standInObjects+7*i:], []float64{l.at[i][0], l.at[i][1], cubeHalf, math.Cos(l.half[i]), 0, 0,
			math.Sin(l.half[i])})
	}
	for i := range tableZones {
		copy(memo[standInZones+3*i:], t.zone(i))
		copy(memo[standInZones+3*i:], l.at[tableObjects+i][:])
	}
	for i := range tableThings {
		memo[standInColors+i] = float64(l.colors[i])
	}
}

// swapStandIn exchanges the things of the scene and those noted; a second call puts them back. What
// is drawn follows from these numbers alone.
func (t *suite) swapStandIn() {
	memo := t.memo[suiteStandIn:][:standInLen]
	swap(t.qpos[robotJoints:][:7*tableObjects], memo[standInObjects:])
	swap(t.mocapPos[3*t.zones:][:3*tableZones], memo[standInZones:])
	swap(t.memo[memoColor:][:tableThings], memo[standInColors:])
}

// swap exchanges the numbers of a with as many of b.
func swap(a, b []float64) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
