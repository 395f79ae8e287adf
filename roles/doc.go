// Package roles brings the parts together: the workers of each component, the runners that lead
// them, and the command line.
//
// One iteration of training, as the EmbodiedRunner leads it on every rank (embodied_runner.go):
//
//	updateRolloutWeights   the actors' weights reach the processes that infer
//	generateRollouts       env workers simulate, rollout workers choose actions and record, actors receive trajectories
//	computeAdvantages      each actor on its share of the environments
//	train                  gradients are summed over the actors
//
// With runner.async the second goes on by itself (async.go), and an iteration takes what has been
// made.
//
// A plan (plan.go) says who simulates, infers and trains on which environments. A recorder
// (recorder.go) is the policy's side of a lane of environments. The Trainer (trainer.go) runs the
// same policies, algorithms and environments in one process, without ranks.
package roles
