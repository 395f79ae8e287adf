// Package worker answers: what does one worker of each component do in a job that trains a language model?
// Fine-tuning has SFTWorkers alone, which are its actors. In the reasoning task, groups of answers pass through
// these workers, in this order:
//
//	RolloutWorker     generates answers to prompts; also examines the model (Generate, Evaluate)
//	RewardWorker      grades answers (Score)
//	InferenceWorker   adds log-probabilities (Infer)
//	CriticWorker      adds values, and trains the critic (Value, RunTraining)
//	ReasoningWorker   the actor: trains the model (Receive, ComputeAdvantages, RunTraining)
//
// If reward, inference or critic workers are not placed, the actors do their work.
package worker
