// Package language answers: what does a language model say? It has the commands generate, score and
// tokenizer, which read a folder of Hugging Face.
package language
