// Package language answers: which commands work with a language model outside of training? The commands generate, score
// and tokenizer read a folder in the format of Hugging Face. Export writes such a folder from a checkpoint. The
// command data writes texts for training.
package language

import (
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/urfave/cli/v2"
)

// Commands returns the commands generate, score, tokenizer and data.
func Commands() []*cli.Command {
	model := &cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "`FOLDER` of the model or tokenizer"}
	ids := &cli.StringFlag{Name: "ids", Usage: "token ids, as 5,17,3"}
	adapter := &cli.StringFlag{Name: "adapter", Usage: "`FOLDER` with PEFT adapters for the model"}
	parts := args.Int(cli.IntFlag{Name: partsFlag, Value: 1, Usage: "divide every layer of the model among this many " +
		"goroutines, each with cores of its own; the results do not depend on it"}, 1, config.MaxRanks)
	asJSON := &cli.BoolFlag{Name: "json", Usage: "write one line of JSON"}
	return []*cli.Command{
		{Name: "generate", Usage: "continue prompts with a language model", Description: generateUsage,
			Flags:  append([]cli.Flag{model, adapter, parts, ids, asJSON}, generateFlags()...),
			Action: args.Alone(withModel(generate))},
		{Name: "score", Usage: "print the log-probability of each token under a language model, given those before it",
			Flags:  []cli.Flag{model, adapter, parts, ids, asJSON},
			Action: args.Alone(withModel(scoreIDs))},
		{Name: "tokenizer", Usage: "convert text to token ids and back; train a tokenizer",
			Subcommands: []*cli.Command{
				{Name: "encode", Usage: "read a text on standard input and write its ids",
					Flags: []cli.Flag{model, asJSON}, Action: args.Alone(runEncode)},
				{Name: "decode", Usage: "write the text of ids",
					Flags: []cli.Flag{model, ids, asJSON}, Action: args.Alone(runDecode)},
				{Name: "train", Usage: "train a new tokenizer on texts", ArgsUsage: "FILE [FILE...]",
					Flags: trainFlags(), Action: args.Alone(runTrain)},
			}},
		{Name: "data", Usage: "generate the data of a task for language models", ArgsUsage: "NAME",
			Description: dataUsage(), Flags: dataFlags(), Action: args.Alone(runData)},
	}
}

// folder returns the folder named by -m.
func folder(c *cli.Context) (string, error) {
	if dir := c.String("model"); dir != "" {
		return dir, nil
	}
	return "", config.Usagef("%s: no folder: expected -m FOLDER", c.Command.Name)
}

// checkMemory returns an error if this machine has less than size bytes of free memory. The error begins with name, a
// text about the model or cache that needs the memory.
func checkMemory(name string, size int) error {
	if have := job.FindAvailable("/", 1); int64(size) > have.Free {
		return config.Usagef("%s needs %s, and %v", name, figures.MiB(int64(size)), have)
	}
	return nil
}

// parseIDs returns the ids of --ids. vocab is the size of the vocabulary.
func parseIDs(c *cli.Context, vocab int) ([]int32, error) {
	text := c.String("ids")
	wrong := func(format string, args ...any) error {
		return config.Usagef("--ids: "+format, args...)
	}
	if text == "" {
		return nil, wrong("not given: expected token ids, as 5,17,3")
	}
	var ids []int32
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 0 || n >= vocab {
			return nil, wrong("%q: expected numbers from 0 to %d, as 5,17,3", word, vocab-1)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// loadTokenizer loads the tokenizer in the folder of -m.
func loadTokenizer(c *cli.Context) (*tokenizer.Tokenizer, error) {
	dir, err := folder(c)
	if err != nil {
		return nil, err
	}
	k, err := tokenizer.Load(dir)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	return k, nil
}
