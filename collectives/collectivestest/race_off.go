//go:build !race

package collectivestest

// race is true if the race detector is on.
const race = false
