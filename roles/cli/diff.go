package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/ask"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

const diffUsage = "rlinf diff A B                # where do the numbers of two runs part?\n" +
	"rlinf diff A [B] --with RLINF # repeats B, or A again, by another build"

const diffDescription = "First configurations, builds, metrics and checkpoints are compared. Then both runs repeat\n" +
	"the first step that differs, from the state before it, and the command names the first phase, tensor\n" +
	"and element that part. The runs are only read."

func diffFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "with", Usage: "repeat the second run by the program `RLINF`"},
		args.Int(cli.IntFlag{Name: "step", Usage: "repeat step `N`", DefaultText: "the first that differs"}, 1,
			args.MaxCount),
		&cli.StringFlag{Name: "testify", Usage: "write what the step of one run shows to `FILE`", Hidden: true},
		&cli.StringFlag{Name: "of", Usage: "with --testify: the `TENSOR` to write", Hidden: true},
	}
}

// runDiff compares two runs, and finds where they part. It returns the exit code.
func runDiff(c *cli.Context, reg config.Registries, tasks task.Tasks, own session.UserProgram) (int, error) {
	words, with := c.Args().Slice(), c.String("with")
	if with != "" && len(words) == 1 || c.IsSet("testify") {
		words = append(words, words[0])
	}
	if len(words) != 2 {
		return 0, config.Usagef("diff: expected the folders of two runs, or of one with --with RLINF")
	}
	var runs [2]*ask.Run
	for i, dir := range words {
		var err error
		if runs[i], err = ask.Open(reg, dir); err == nil {
			err = runs[i].Repeatable()
		}
		if err != nil {
			return 0, config.Usagef("diff: %w", err)
		}
	}
	asked := loop.Watch()
	defer asked.Close()
	again := &ask.Again{Registries: reg, Tasks: tasks, Own: own, Asked: asked}
	if out := c.String("testify"); out != "" {
		return testify(c, again, runs[0], out)
	}
	d, err := ask.NewDiff(runs[0], runs[1])
	if err != nil {
		return 0, err
	}
	step := int64(c.Int("step"))
	if step == 0 {
		step = d.Parted()
	}
	for _, run := range runs {
		if err := run.CheckStep(step); step > 0 && err != nil {
			if !c.IsSet("step") {
				writeDiff(c.App.Writer, d)
			}
			return 0, config.UsageError{Err: err}
		}
	}
	writeDiff(c.App.Writer, d)
	if with != "" && step == 0 {
		step = runs[0].Repeats
	}
	if step == 0 {
		fmt.Fprintf(c.App.Writer, "equal, as far as step %d\n", min(runs[0].Last, runs[1].Last))
		return loop.ExitOK, nil
	}
	var other ask.Testifier = again
	if with != "" {
		other = ask.OtherBuild{Path: with}
	}
	fmt.Fprintf(c.App.ErrWriter, "repeating steps %d to %d of both\n", runs[0].To(step).From.Step+1, step)
	p, err := ask.Part(c.Context, again, other, runs[0], runs[1], step)
	switch {
	case err != nil:
		return 0, err
	case p != nil:
		fmt.Fprintf(c.App.Writer, "they part in %s\n", printable.Line(p.String()))
		return loop.ExitCheck, nil
	case d.Equal():
		fmt.Fprintf(c.App.Writer, "step %d: equal when it is repeated\n", step)
		return loop.ExitOK, nil
	}
	fmt.Fprintf(c.App.Writer, "step %d: equal when this program repeats it in both: other programs, or other "+
		"processors, made the runs; --with RLINF names the other program\n", step)
	return loop.ExitCheck, nil
}

// testify writes the testimony of a step, for another build of rlinf.
func testify(c *cli.Context, again *ask.Again, r *ask.Run, out string) (int, error) {
	var of *ask.Sight
	if text := c.String("of"); text != "" {
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return 0, config.Usagef("--of: %w", err)
		}
	}
	t, err := again.Testify(c.Context, r, int64(c.Int("step")), of)
	if err == nil {
		err = t.Write(out)
	}
	return loop.ExitOK, err
}

// mostShown is the maximum number of differences of a kind that diff shows.
const mostShown = 10

func writeDiff(w io.Writer, d *ask.Diff) {
	show(w, "keys that change no number", d.Harmless, func(k checkpoint.ChangedKey) string {
		return fmt.Sprintf("%s: %s, and %s", k.Key, k.Then, k.Now)
	})
	show(w, "keys that may change numbers", d.Keys, func(k checkpoint.ChangedKey) string {
		return fmt.Sprintf("%s: %s, and %s", k.Key, k.Then, k.Now)
	})
	if d.Builds[0] != d.Builds[1] {
		fmt.Fprintf(w, "builds: %s, and %s\n", printable.Line(d.Builds[0]), printable.Line(d.Builds[1]))
	}
	show(w, "metrics", d.Metrics, metrics.Difference.String)
	show(w, fmt.Sprintf("checkpoints of step %d", d.At), d.Tensors,
		checkpoint.TensorDifference.String)
}

// show writes the first elements of a list, one in a line.
func show[T any](w io.Writer, what string, list []T, text func(T) string) {
	if len(list) > 0 {
		fmt.Fprintf(w, "%s: %s\n", what, figures.Count(len(list), "difference"))
	}
	for i, x := range list {
		if i == mostShown {
			fmt.Fprintf(w, "  … %d more\n", len(list)-mostShown)
			return
		}
		fmt.Fprintf(w, "  %s\n", printable.Line(text(x)))
	}
}
