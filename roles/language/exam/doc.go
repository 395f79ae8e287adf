// Package exam answers: how good are a language model's answers? An Exam asks the model questions, grades its
// answers and computes metrics such as eval/accuracy and eval/pass@k. Training and rlinf eval use the same Exam.
package exam
