//go:build race

package collectivestest

// race reports whether the race detector is on. The element type changes arithmetic, but not
// synchronization, so with the race detector one type is enough.
const race = true
