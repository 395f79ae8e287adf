// Package worker answers: what does one worker of each component do in a job that trains a language model? Fine-tuning
// has only actors, and these are SFTWorkers. In the reasoning task, groups of answers pass through these workers, in
// this order:
//
//	RolloutWorker     generates answers to prompts; also examines the model (Generate, Evaluate)
//	RewardWorker      grades answers (Score)
//	InferenceWorker   adds log-probabilities (Infer)
//	CriticWorker      adds values, and trains the critic (Value, RunTraining)
//	ReasoningWorker   the actor: trains the model (Receive, ComputeAdvantages, RunTraining)
//
// The actors also do the work of reward, inference or critic workers that are not placed.
package worker
