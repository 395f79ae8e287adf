package language

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// runEncode writes the ids of the text on standard input.
func runEncode(c *cli.Context) error {
	k, err := loadTokenizer(c)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(c.App.Reader)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	ids := k.NewEncoder().EncodeSequence([]int32{}, string(text))
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(map[string][]int32{"ids": ids})
	}
	_, err = fmt.Fprintln(c.App.Writer, joined(ids))
	return err
}

// joined returns ids in the format of --ids.
func joined(ids []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}

// runDecode writes the text of ids.
func runDecode(c *cli.Context) error {
	k, err := loadTokenizer(c)
	if err != nil {
		return err
	}
	ids, err := parseIDs(c, k.Size())
	if err != nil {
		return err
	}
	text := k.Decode(ids)
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(map[string]string{"text": text})
	}
	_, err = fmt.Fprintln(args.Exact(c.App.Writer), text)
	return err
}

func trainFlags() []cli.Flag {
	return []cli.Flag{
		args.Force(),
		&cli.StringFlag{Name: "out", Usage: "`FOLDER` for tokenizer.json and tokenizer_config.json"},
		args.Int(cli.IntFlag{Name: "vocab-size", Value: 1024,
			Usage: "tokens, special ones and bytes among them"}, 257, 1<<20),
		&cli.StringFlag{Name: "pattern", Value: "qwen2",
			Usage: "how text is split before merging: gpt2, qwen2 or llama3"},
		&cli.StringSliceFlag{Name: "special", Value: cli.NewStringSlice("<|endoftext|>"),
			Usage: "a special `TOKEN`; the first one ends a text"},
	}
}

// checkOldTokenizer returns a usage error if the folder has a tokenizer of another program: see args.CheckOld.
func checkOldTokenizer(c *cli.Context, folder string) error {
	const settings = "tokenizer_config.json"
	made := args.Begins(`\{\n  "add_bos_token": \w+,\n  "added_tokens_decoder": \{\n` +
		`    "\d+": \{\n      "content": .*\n      "single_word"`)
	if err := args.CheckOld(c, "out", filepath.Join(folder, settings), made); err != nil {
		return err
	}
	return args.CheckOld(c, "out", filepath.Join(folder, "tokenizer.json"), func([]byte) bool {
		head, err := durable.Head(filepath.Join(folder, settings))
		return err == nil && made(head)
	})
}

// runTrain trains a new tokenizer on the lines of files.
func runTrain(c *cli.Context) error {
	out, files := c.String("out"), c.Args().Slice()
	switch {
	case out == "":
		return config.Usagef("tokenizer train: no folder: expected --out FOLDER")
	case len(files) == 0:
		return config.Usagef("tokenizer train: no files: expected texts to learn from")
	}
	if err := checkOldTokenizer(c, out); err != nil {
		return err
	}
	var texts []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return config.UsageError{Err: err}
		}
		texts = append(texts, string(text))
	}
	_, stop := args.Progress(c, "training the tokenizer")
	defer stop()
	special := c.StringSlice("special")
	k, err := tokenizer.Train(out, slices.Values(texts), tokenizer.Training{
		VocabSize: c.Int("vocab-size"), Pattern: c.String("pattern"), MinCount: 2, Special: special, EOS: special[0],
	})
	if err != nil {
		return config.UsageError{Err: err}
	}
	stop()
	_, err = fmt.Fprintf(c.App.Writer, "%s: %d tokens\n", out, k.Size())
	return err
}
