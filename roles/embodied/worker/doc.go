// Package worker answers: what does one worker of each component do in a job with environments? A runner calls
// these methods on all workers of a group:
//
//	EnvWorker         steps environments, and sends observations (Interact, Evaluate)
//	RolloutWorker     chooses actions, and sends trajectories (Generate, Evaluate)
//	RewardWorker      computes rewards of steps (Score)
//	InferenceWorker   adds log-probabilities to trajectories (Infer)
//	ActorWorker       trains (RecvRolloutBatch, ComputeAdvantagesAndReturns, RunTraining)
//
// In an asynchronous run env and rollout workers continue while actors train (Simulate, Produce, RecvRollouts). Shared
// has the policies of a rank's workers, and the weights that travel between ranks. Each worker saves and loads its part
// of a checkpoint (Save, Load).
package worker
