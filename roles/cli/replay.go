package cli

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/ask"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/watch"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

const replayUsage = "rlinf replay RUN --step N            # the episodes that ended in step N, the worst first\n" +
	"rlinf replay RUN --step N --env K    # what environment K did\n" +
	"rlinf replay RUN --step N --prompt K # the answers to prompt K"

const replayDescription = "The run is repeated in a folder of its own, from the nearest checkpoint before the step,\n" +
	"so nothing need have been recorded. The run is only read. --out keeps what was seen: a table, tensors,\n" +
	"and of an evaluation the film and the episodes. If the repeated metrics are not those of the run, the\n" +
	"exit code is 3."

func replayFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "step", Usage: "repeat the run as far as step `N`"}, 1, args.MaxCount),
		args.Int(cli.IntFlag{Name: "env", Usage: "show environment `K`", DefaultText: "that of the worst episode"}, 0,
			env.MaxEnvs),
		args.Int(cli.IntFlag{Name: "prompt", Usage: "show the answers to prompt `K`",
			DefaultText: "the one with the lowest reward"}, 0, args.MaxCount),
		&cli.BoolFlag{Name: "evaluation", Usage: "show the evaluation after the step instead"},
		&cli.StringFlag{Name: "out", Usage: "keep what was seen in the new folder `DIR`"},
	}
}

// runReplay repeats a step of a run, and shows what happened in it. It returns the exit code.
func runReplay(c *cli.Context, reg config.Registries, tasks task.Tasks, own session.UserProgram) (int, error) {
	dir, err := watch.OneRun(c.Args().Slice())
	var run *ask.Run
	if err == nil {
		run, err = ask.Open(reg, dir)
	}
	if err == nil {
		err = run.Repeatable()
	}
	if err != nil {
		return 0, config.Usagef("replay: %w", err)
	}
	step := int64(c.Int("step"))
	if err := run.CheckStep(step); err != nil {
		return 0, config.UsageError{Err: err}
	}
	texts, envs := run.Config.ReadsTexts(), run.Config.Env.Train.TotalNumEnvs
	switch {
	case c.IsSet("prompt") && !texts || c.IsSet("env") && texts:
		return 0, config.Usagef("replay: expected --prompt for a language model, --env for a policy in environments")
	case c.Bool("evaluation") && (c.IsSet("prompt") || c.IsSet("env")):
		return 0, config.Usagef("replay: expected --evaluation, or --env or --prompt")
	case !texts && c.Int("env") >= envs:
		return 0, config.Usagef("--env %d: expected an environment of the run, 0 to %d", c.Int("env"), envs-1)
	}
	out := c.String("out")
	entries, err := os.ReadDir(out)
	if out != "" && (len(entries) > 0 || err != nil && !os.IsNotExist(err)) {
		return 0, config.Usagef("--out %s: expected a new folder, or an empty one", out)
	}
	if err := os.MkdirAll(cmp.Or(out, os.TempDir()), 0o777); err != nil {
		return 0, config.Usagef("--out %s: %w", out, err)
	}
	work, err := os.MkdirTemp(out, "rlinf-replay-") // "" is the folder for temporary files
	if err != nil {
		return 0, config.Usagef("--out %s: %w", out, err)
	}
	defer os.RemoveAll(work)
	for _, damaged := range run.Damaged {
		fmt.Fprintf(c.App.ErrWriter, "note: not used: %s\n", printable.Line(damaged.Error()))
	}
	if note := run.OtherProgram(); note != "" {
		fmt.Fprintln(c.App.ErrWriter, printable.Line(note))
	}
	iterations, seconds, err := run.Cost(step)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(c.App.ErrWriter, "repeating %s, which took %.1f s in the run\n", figures.Count(int(iterations), "step"),
		seconds)
	asked := loop.Watch()
	defer asked.Close()
	again := &ask.Again{Registries: reg, Tasks: tasks, Own: own, Asked: asked}
	p, err := again.Replay(c.Context, run, step, work, func(cfg *config.Config) {
		cfg.Env.Eval.VideoCfg.SaveVideo = c.Bool("evaluation") && out != ""
		cfg.Env.Eval.DataCollection.Enabled = cfg.Env.Eval.VideoCfg.SaveVideo
	})
	if err != nil {
		return 0, err
	}
	v := &replayed{RepeatedStep: p, cfg: run.Config, w: c.App.Writer, out: out}
	switch {
	case c.Bool("evaluation"):
		err = v.episodes(p.Evaluated, "the evaluation after step")
	case len(p.Prompts) > 0:
		err = v.answers(c.Int("prompt"), c.IsSet("prompt"))
	default:
		err = v.rollout(c.Int("env"), c.IsSet("env"))
	}
	if err != nil {
		return 0, err
	}
	show(c.App.Writer, "the repeated metrics are not those of the run", p.Differences, metrics.Difference.String)
	if len(p.Differences) > 0 {
		return loop.ExitCheck, nil
	}
	return loop.ExitOK, nil
}

// A replayed shows a RepeatedStep, and keeps it in a folder.
type replayed struct {
	*ask.RepeatedStep
	cfg *config.Config
	w   io.Writer
	out string // the folder; "" to keep nothing
}

// episodes lists episodes, the worst first.
func (v *replayed) episodes(all []env.Episode, what string) error {
	if len(all) == 0 {
		fmt.Fprintf(v.w, "no episode ended in %s %d\n", what, v.Step)
		return nil
	}
	slices.SortStableFunc(all, func(a, b env.Episode) int {
		return cmp.Or(cmp.Compare(a.Return, b.Return), cmp.Compare(a.Env, b.Env))
	})
	t := tabwriter.NewWriter(v.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "environment\treturn\tsteps\tsuccess")
	for i, e := range all {
		if i == mostShown {
			fmt.Fprintf(t, "… %d more\n", len(all)-mostShown)
			break
		}
		fmt.Fprintf(t, "%d\t%.6g\t%d\t%v\n", e.Env, e.Return, e.Len, e.SuccessOnce)
	}
	if err := t.Flush(); err != nil || v.out == "" {
		return err
	}
	for _, file := range v.Files {
		kept := filepath.Join(v.out, filepath.Base(file))
		if err := os.Rename(file, kept); err != nil {
			return err
		}
		fmt.Fprintln(v.w, "kept", printable.Line(kept))
	}
	return nil
}

// rollout shows what environment k did. If chosen is false, it shows the environment of the worst episode instead.
func (v *replayed) rollout(k int, chosen bool) error {
	if err := v.episodes(v.Episodes, "step"); err != nil {
		return err
	}
	if !chosen && len(v.Episodes) > 0 {
		k = v.Episodes[0].Env
	}
	d, err := v.Rollout(k)
	if err != nil {
		return config.UsageError{Err: err}
	}
	names, rows := table(d)
	fmt.Fprintf(v.w, "environment %d in step %d:\n", k, v.Step)
	t := tabwriter.NewWriter(v.w, 0, 0, 2, ' ', 0)
	writeRow := func(row []string) {
		for _, text := range row[:min(len(row), mostColumns)] {
			fmt.Fprint(t, text, "\t")
		}
		fmt.Fprintln(t)
	}
	writeRow(names)
	for _, row := range rows[:min(len(rows), mostShown)] {
		writeRow(row)
	}
	if err := t.Flush(); err != nil || v.out == "" {
		return err
	}
	path := filepath.Join(v.out, fmt.Sprintf("environment_%d", k))
	err = durable.Write(path+".csv", func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(append([][]string{names}, rows...))
	})
	if err == nil {
		err = durable.Write(path+".safetensors", func(w io.Writer) error { return tensor.WriteSafetensors(w, d, nil) })
	}
	if err == nil {
		fmt.Fprintf(v.w, "kept %s.csv and .safetensors\n", printable.Line(path))
	}
	return err
}

// mostColumns is the maximum number of columns of a table on the terminal.
const mostColumns = 12

// mostNumbers is the maximum number of elements of a tensor in a table.
const mostNumbers = 32

// table returns a column for each number of the small tensors in d, [T, ...], and a row for each of the T steps.
func table(d tensor.Dict) (names []string, rows [][]string) {
	names = []string{"t"}
	for i := range d.Len() {
		name, x := d.Entry(i)
		each := x.Len() / max(x.Dim(0), 1)
		if each > mostNumbers {
			continue
		}
		for k := range each {
			if each > 1 {
				names = append(names, fmt.Sprintf("%s.%d", name, k))
			} else {
				names = append(names, name)
			}
		}
		for t := range x.Dim(0) {
			if t == len(rows) {
				rows = append(rows, []string{strconv.Itoa(t)})
			}
			for k := range each {
				rows[t] = append(rows[t], x.Text(t*each+k))
			}
		}
	}
	return names, rows
}

// answers shows the answers to prompt k. If chosen is false, it shows the prompt with the lowest mean reward instead.
func (v *replayed) answers(k int, chosen bool) error {
	p := slices.MinFunc(v.Prompts, func(a, b ask.Prompt) int {
		return cmp.Or(cmp.Compare(a.Reward(), b.Reward()), cmp.Compare(a.Number, b.Number))
	})
	if chosen {
		i := slices.IndexFunc(v.Prompts, func(q ask.Prompt) bool { return q.Number == int64(k) })
		if i < 0 {
			return config.Usagef("--prompt %d: expected one of the %d prompts of step %d, %d to %d", k, len(v.Prompts),
				v.Step, v.Prompts[0].Number, v.Prompts[len(v.Prompts)-1].Number)
		}
		p = v.Prompts[i]
	}
	words, err := tokenizer.Load(v.cfg.TokenizerFolder())
	if err != nil {
		return err
	}
	fmt.Fprintf(v.w, "prompt %d of step %d, mean reward %.4g:\n%s\n", p.Number, v.Step, p.Reward(),
		printable.Text(words.Decode(p.Answers[0].Tokens[:p.Answers[0].Prompt])))
	for _, a := range p.Answers {
		sum := 0.0
		for _, x := range a.LogProb {
			sum += float64(x)
		}
		fmt.Fprintf(v.w, "reward %.4g, log-prob %.6g, %d tokens: %s\n", a.Reward, sum, len(a.Tokens)-a.Prompt,
			printable.Text(words.Decode(a.Tokens[a.Prompt:])))
	}
	return nil
}
