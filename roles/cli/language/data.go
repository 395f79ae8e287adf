package language

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// maxProblems is the maximum number of problems. No task has more.
const maxProblems = 1 << 24

func dataFlags() []cli.Flag {
	return []cli.Flag{
		args.Force(),
		&cli.StringFlag{Name: "out", Usage: "`FOLDER` for train.jsonl, test.jsonl and tokenizer/; default: data/NAME"},
		args.Int(cli.IntFlag{Name: "train", Value: 20000, Usage: "number of problems for training"}, 0, maxProblems),
		args.Int(cli.IntFlag{Name: "test", Value: 500,
			Usage: "problems for testing; they share no numbers with those for training"}, 0, maxProblems),
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the problems"},
		&cli.StringFlag{Name: "steps", Usage: "steps of a word problem, as 1-3"},
		args.Float(cli.Float64Flag{Name: "slips",
			Usage: "share of wrong sums in worked answers for training, as 0.2"}, 0, 0.99),
	}
}

// dataUsage lists the tasks for the help.
func dataUsage() string {
	var b strings.Builder
	for _, t := range text.Tasks() {
		fmt.Fprintf(&b, "%-10s %s\n", t.Name, t.Doc)
	}
	return b.String()
}

// runData writes the problems of a task, and a tokenizer for them.
func runData(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return config.Usagef("data: %d arguments: expected the name of a task:\n%s", c.Args().Len(), dataUsage())
	}
	t, err := text.TaskNamed(c.Args().First())
	if err == nil {
		err = readSteps(&t, c.String("steps"))
	}
	if t.Slips = c.Float64("slips"); err == nil && c.IsSet("slips") && t.MaxSteps == 0 {
		err = fmt.Errorf("--slips %g: %s has no sums to get wrong", t.Slips, t.Name)
	}
	if err != nil {
		return config.Usagef("data: %w", err)
	}
	dir := cmp.Or(c.String("out"), filepath.Join("data", t.Name))
	made := args.Begins(`\{"prompt":".*,"task":"[a-z]+","query_id":0\}\n`)
	for _, name := range []string{"train.jsonl", "test.jsonl"} {
		if err := args.CheckOld(c, "out", filepath.Join(dir, name), made); err != nil {
			return err
		}
	}
	if err := checkOldTokenizer(c, filepath.Join(dir, "tokenizer")); err != nil {
		return err
	}
	progress, stop := args.Progress(c, "making problems")
	defer stop()
	train, test, err := t.Generate(c.Uint64("seed"), c.Int("train"), c.Int("test"))
	if err != nil {
		return config.Usagef("data: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, problems := range map[string][]text.Problem{"train.jsonl": train, "test.jsonl": test} {
		if err := writeProblems(&t, filepath.Join(dir, name), problems); err != nil {
			return err
		}
	}
	progress.Phase("training the tokenizer")
	k, err := trainTokenizer(&t, filepath.Join(dir, "tokenizer"), train)
	if err != nil {
		return err
	}
	stop()
	_, err = fmt.Fprintf(c.App.Writer, "%s: %d problems for training, %d for tests, a tokenizer of %d tokens\n", dir,
		len(train), len(test), k.Size())
	return err
}

// readSteps parses the value of --steps into t.
func readSteps(t *text.Task, steps string) error {
	if steps == "" {
		return nil
	}
	if t.MaxSteps == 0 {
		return fmt.Errorf("--steps %s: %s has none", steps, t.Name)
	}
	first, last, isRange := strings.Cut(steps, "-")
	if !isRange {
		last = first
	}
	lo, err := strconv.Atoi(first)
	hi, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || lo < 1 || hi < lo || hi > 5 {
		return fmt.Errorf("--steps %s: expected numbers from 1 to 5, as 1-3", steps)
	}
	t.MinSteps, t.MaxSteps = lo, hi
	return nil
}

func writeProblems(t *text.Task, path string, problems []text.Problem) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := t.Write(file, problems); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Close()
}

// chatML is the built-in format chatml as a template.
const chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// trainTokenizer makes a tokenizer for a task. A vocabulary of 257 tokens has all bytes and the end of text, and no
// merges.
func trainTokenizer(t *text.Task, dir string, problems []text.Problem) (*tokenizer.Tokenizer, error) {
	o := tokenizer.Training{VocabSize: t.Vocab, Pattern: "qwen2", MinCount: 2, EOS: "<|endoftext|>",
		Special: []string{"<|endoftext|>"}}
	if t.Chat {
		o.EOS, o.Special = "<|im_end|>", append(o.Special, "<|im_start|>", "<|im_end|>")
		o.ChatTemplate = chatML
	}
	return tokenizer.Train(dir, func(yield func(string) bool) {
		for _, p := range problems {
			if !yield(p.Prompt) || !yield(p.Answer) {
				return
			}
		}
	}, o)
}
