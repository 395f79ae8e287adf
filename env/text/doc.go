// Package text provides training data for language models. It reads samples from JSON lines as
// token ids, and generates problems whose answers can be checked.
//
//	d, err := text.Read(paths, text.Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Length: 512})
//	for _, s := range d.Samples { … s.IDs, s.Learn … }
//
//	task, err := text.TaskNamed("addition")
//	train, test, err := task.Generate(seed, 10000, 500)
package text
