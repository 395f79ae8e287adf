// Package play answers: what does a policy do in environments, step by step, and what is recorded? Everything
// happens in the caller's goroutine, without ranks or channels:
//
//	Stage            environments that step together, their seeds, episodes and films
//	RolloutBuilder   lets a policy act in some environments, and writes trajectories [T, n]
//	EvalPlayer       lets a policy play its most likely actions, and records nothing
//
// PlayEpoch plays with a builder in a stage. A worker whose environments are behind channels calls Act, Observe and
// Finish itself.
package play
