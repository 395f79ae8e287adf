// Package language answers: which commands work with a language model outside of training? generate, score and
// tokenizer read a folder in the format of Hugging Face. export writes such a folder from a checkpoint, and data writes
// texts to train on.
package language
