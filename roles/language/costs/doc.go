// Package costs answers: what do the operations of a language model's job cost? The operations are answers to this
// job's prompts, log-probs, and updates of one actor. Each is called as workers call it, with sizes that plans would
// use. Each is measured alone, and on all cores at once.
package costs
