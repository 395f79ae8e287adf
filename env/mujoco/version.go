package mujoco

// A Version is Gymnasium's version number of a task.
type Version int

// The versions differ in rewards, observations and models; each constructor says how.
const (
	V4 Version = 4
	V5 Version = 5
)
