// Package plan answers: what follows from the configuration of a job that trains a language model? A Plan has
// the model, the texts and their order, the way of answers from worker to worker (Pipeline), and the memory that
// all of it takes. It serves fine-tuning and reasoning.
//
// Draft finds what is wrong without reading files; Complete reads the tokenizer, the model's configuration and
// all texts, and finds the rest. Each reports everything as one error.
package plan
