//go:build !race

package collectivestest

// race says that the race detector looks on.
const race = false
