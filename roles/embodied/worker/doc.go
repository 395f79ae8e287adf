// Package worker answers: what does one member of each group do? Each method is a group call of
// a runner.
//
//	EnvWorker         steps environments, and sends what they show (Interact, Evaluate)
//	RolloutWorker     chooses actions, and sends trajectories (Generate, Evaluate)
//	RewardWorker      says what steps are worth (Score)
//	InferenceWorker   adds log-probabilities to trajectories (Infer)
//	ActorWorker       trains (RecvRolloutBatch, ComputeAdvantagesAndReturns, RunTraining)
//
// Weights bring the actors' parameters to the others. A worker gets everything at its construction;
// LaunchActor and the other functions launch whole groups. In an asynchronous run env and rollout
// workers go on while actors train (Simulate, Produce, RecvRollouts).
package worker
