// Package worker answers: what does one member of each component do that trains a language model? An SFTWorker
// learns from texts. In the task reasoning answers go from RolloutWorkers to RewardWorkers, InferenceWorkers,
// CriticWorkers and ReasoningWorkers, which are the actors; a component without a place is left out.
package worker
