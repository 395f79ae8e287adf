package mujoco

// A Version says which of Gymnasium's versions of a task is meant.
type Version int

// The versions differ in rewards, observations and models; each task says how.
const (
	V4 Version = 4
	V5 Version = 5
)
