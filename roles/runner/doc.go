// Package runner answers: in what order do the groups work? An EmbodiedRunner leads the training of
// a policy; every rank runs one. One iteration has four phases:
//
//	updateRolloutWeights   the actors' weights reach the workers that infer
//	generateRollouts       env workers simulate, rollout workers choose actions and record
//	computeAdvantages      each actor on its share of the environments
//	train                  gradients are summed over the actors
//
// In an asynchronous run rollouts go on by themselves, and an iteration takes the finished ones.
// Between iterations the runner agrees with all ranks on the next step. It writes metrics (Logbook)
// and checkpoints (Saver), and stops on request (Requests).
package runner
