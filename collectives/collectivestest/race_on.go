//go:build race

package collectivestest

// race is true if the race detector is on. The suite then tests one element type only, because the type
// does not affect synchronization.
const race = true
