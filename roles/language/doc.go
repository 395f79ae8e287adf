// Package language answers: how are language models trained and evaluated? It has two tasks. FineTuning learns from
// texts, led by an SFTRunner; Reasoning learns from the model's own answers, led by a ReasoningRunner. rlinf eval
// measures texts of validation, or asks questions in an examination.
package language
