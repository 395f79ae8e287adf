//go:build !race

package collectivestest

// race reports whether the race detector is on.
const race = false
