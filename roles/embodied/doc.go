// Package embodied answers: how are policies trained and evaluated in environments? It is a task. Every rank runs an
// EmbodiedRunner, which calls the workers of all components. An iteration has four phases:
//
//	UpdateRolloutWeights          the actors' weights reach the rollout and inference workers
//	GenerateRollouts              env workers simulate, rollout workers choose actions and record
//	ComputeAdvantagesAndReturns   each actor prepares its share of the environments
//	RunTraining                   actors train, and sum their gradients
//
// In an asynchronous run env and rollout workers never wait for actors, and an iteration trains on the finished
// rollouts. A job that only evaluates runs Task.Evaluate. Package plan has layouts, routes and memory estimates.
// Package worker has one type for each component. Package play lets a policy act in environments.
package embodied
