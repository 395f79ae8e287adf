// Package play answers: what does a policy do in environments, step by step, and what is recorded?
// Everything happens in the caller's goroutine, without ranks or channels:
//
//	Stage            environments that step together, their seeds, episodes and films
//	RolloutBuilder   a policy that acts in some of them, and writes trajectories [T, n]
//	EvalPlayer       a policy that plays its most likely actions, and writes nothing
//
// PlayEpoch lets a builder play in a stage. A worker that reaches its environments through channels
// calls Act, Observe and Finish itself.
package play
