// Package costs answers: what do the operations of a language model's job cost? It calls them as workers do: answers to
// this job's prompts, log-probs, and updates of one actor. Each operation is measured at sizes that plans would use,
// alone and on all cores at once.
package costs
