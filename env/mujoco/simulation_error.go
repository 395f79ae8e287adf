package mujoco

import "fmt"

// A SimulationError is the error of an environment that MuJoCo could not continue. The cause is a state that
// is infinite, NaN or huge, or an error or a warning of MuJoCo, such as a full contact buffer. The
// environment has new data and needs a Reset.
type SimulationError struct {
	Env  int     // its index in the Vec
	Time float64 // simulation time in s, before the substep that failed
	Said string  // MuJoCo's message
}

// Error returns the environment, the time and the message.
func (f *SimulationError) Error() string {
	return fmt.Sprintf("environment %d at %.7g s: MuJoCo: %s", f.Env, f.Time, f.Said)
}
