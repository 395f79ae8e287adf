//go:build race

package collectivestest

// race says that the race detector looks on. The types of elements choose arithmetic, not how
// goroutines meet, so one type is enough for it.
const race = true
