// Package exam answers: how good are a language model's answers? An Exam asks questions, grades the answers and
// computes the metrics. Training and rlinf eval use it alike.
package exam
