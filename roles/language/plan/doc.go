// Package plan answers: what follows from the configuration of a job that trains a language model? A Plan has the
// model, the texts and their order, the workers that each answer passes through (Pipeline), and the memory that
// each rank needs (MemoryOf). Fine-tuning and reasoning use the same Plan.
//
// Draft finds mistakes without reading files. Complete reads the tokenizer, the model's configuration and all texts,
// and finds the remaining mistakes. Both return all their mistakes as one error.
package plan
