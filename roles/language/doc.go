// Package language answers: how are language models trained and evaluated? It has two tasks, each with a runner. In
// FineTuning an SFTRunner trains a model on texts. In Reasoning a ReasoningRunner trains a model on its own
// answers, which rules grade. A job that only evaluates measures the loss on validation texts (measure.go), or asks the
// model validation questions (examine.go). Package plan has the model, the texts and memory estimates. Package worker
// has one type for each component. Package deal distributes prompts among rollout workers, and package exam grades
// answers.
package language
