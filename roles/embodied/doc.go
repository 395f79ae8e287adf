// Package embodied answers: how are policies trained and evaluated in environments? It is a task. An
// EmbodiedRunner leads the training of a policy; every rank runs one. One iteration has four phases:
//
//	UpdateRolloutWeights          the actors' weights reach the workers that infer
//	GenerateRollouts              env workers simulate, rollout workers choose actions and record
//	ComputeAdvantagesAndReturns   each actor on its share of the environments
//	RunTraining                   gradients are summed over the actors
//
// In an asynchronous run rollouts go on by themselves, and an iteration takes the finished ones.
package embodied
