// Package language answers: how are language models trained and evaluated? It has two tasks, each with a runner. In
// FineTuning an SFTRunner trains a model on texts. In Reasoning a ReasoningRunner trains a model on its own
// answers, which rules grade. A job that only evaluates measures the loss on texts of validation (measure.go), or
// examines the model with questions (examine.go). Packages below: plan has the model, the texts and memory estimates,
// worker has one type for each component, deal moves answers between rollout workers, and exam grades answers.
package language
