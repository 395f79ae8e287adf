// Package text has the data that language models learn from. It reads samples from JSON lines as
// token ids, and generates the data of small tasks with answers that can be checked.
//
//	d, err := text.Read(paths, text.Format{Tokenizer: k, Prompt: "prompt", Answer: "answer", Length: 512})
//	for _, s := range d.Samples { … s.IDs, s.Learn … }
//
//	task, err := text.TaskNamed("addition")
//	train, test, err := task.Generate(seed, 10000, 500)
package text
