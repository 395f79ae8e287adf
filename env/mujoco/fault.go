package mujoco

import "fmt"

// A Fault says that MuJoCo could not go on with one environment: an error, a warning (a buffer of
// contacts that is full, an acceleration that is not finite), or a state beyond measure. The
// environment was made anew and wants a Reset.
type Fault struct {
	Env  int     // its place in the Vec
	Time float64 // of the simulation, s, before the step of it that went wrong
	Said string  // MuJoCo's words
}

// Error says which environment, when, and what.
func (f *Fault) Error() string {
	return fmt.Sprintf("environment %d at %.7g s: MuJoCo: %s", f.Env, f.Time, f.Said)
}
