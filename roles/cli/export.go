package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/policy/export"
	"github.com/rlinf/rlinf/roles/cli/language"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

const exportUsage = `rlinf export CHECKPOINT --format onnx|c --out FOLDER     a policy of environments
rlinf export CHECKPOINT --out FOLDER                     a language model`

const exportDescription = `CHECKPOINT is the folder of a checkpoint, or a run's folder, which stands for its newest
checkpoint.

The export of a policy reads the simulator's observations and computes the environment's actions. It needs neither
rlinf nor the simulator. FOLDER gets policy.onnx, or policy.h, policy.c, policy.bin and policy.f90. Beside them,
policy.json describes inputs and outputs, and policy_test.json has 8 observations with their actions. See
docs/export.md.`

func exportFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "of a policy of environments: onnx or c"},
		&cli.BoolFlag{Name: "sample", Usage: "draw actions from the distribution of the policy, by an input of " +
			"random numbers"},
		&cli.StringSliceFlag{Name: "note", Usage: "add a meaning to an input or output in policy.json, as `NAME=TEXT`"},
	}, language.ExportFlags()...)
}

// runExport writes the model of a checkpoint for other programs: a policy of environments, or a language model.
func runExport(c *cli.Context, reg config.Registries) error {
	switch {
	case c.Args().Len() != 1:
		return config.Usagef("export: %d arguments: expected a checkpoint or a run's folder", c.Args().Len())
	case c.String("out") == "":
		return config.Usagef("export: no folder: expected --out FOLDER")
	}
	out := c.String("out")
	left, err := os.ReadDir(out)
	if len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return config.Usagef("export: --out %s: expected a folder without files", out)
	}
	from, cfg, err := openTrained(reg, c.Args().First())
	if err != nil {
		return config.Usagef("export: %w", err)
	}
	format := c.String("format")
	if cfg.ReadsTexts() {
		if format != "" || c.Bool("sample") || c.IsSet("note") {
			return config.Usagef("export: %s is a language model: expected no --format, --sample or --note; "+
				"without them, the command writes the format of Hugging Face", from.Dir)
		}
		return language.Export(c, from, cfg)
	}
	if cfg.Classifies() {
		return config.Usagef("export: %s is a classifier of images: expected a policy, because "+
			"reward.model.model_path takes the checkpoint as it is", from.Dir)
	}
	for _, f := range language.ExportFlags() {
		if name := f.Names()[0]; name != "out" && c.IsSet(name) {
			return config.Usagef("export: --%s: expected a language model, but %s is a policy of environments", name,
				from.Dir)
		}
	}
	p, err := loadPolicy(reg, from, cfg)
	if err != nil {
		return config.Usagef("export: %w", err)
	}
	p.Sample = c.Bool("sample")
	if p.Notes, err = notesOf(c.StringSlice("note")); err != nil {
		return err
	}
	write, ok := map[string]func(string) ([]string, error){"onnx": p.WriteONNX, "c": p.WriteC}[format]
	if !ok {
		return config.Usagef("export: --format %s: expected onnx or c", cmp.Or(format, "not given"))
	}
	_, missing := os.Stat(out)
	if err := os.MkdirAll(out, 0o777); err != nil {
		return config.Usagef("export: --out: %w", err)
	}
	files, err := write(out)
	if err != nil {
		if missing != nil {
			err = errors.Join(err, os.Remove(out))
		}
		return config.UsageError{Err: err}
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: %s: %s, step %d\n", out, strings.Join(files, ", "), p.Task, p.Step)
	return err
}

// notesOf returns the texts of --note by name.
func notesOf(list []string) (map[string]string, error) {
	notes := map[string]string{}
	for _, n := range list {
		name, text, ok := strings.Cut(n, "=")
		if !ok || name == "" || text == "" {
			return nil, config.Usagef("export: --note %s: expected NAME=TEXT", n)
		}
		notes[name] = text
	}
	return notes, nil
}

// openTrained opens the checkpoint dir, or the newest checkpoint if dir is a run's folder.
func openTrained(reg config.Registries, dir string) (*checkpoint.Checkpoint, *config.Config, error) {
	from, err := checkpoint.Load(newestIn(dir))
	if err != nil {
		return nil, nil, err
	}
	text, err := from.Read("config.yaml")
	if err != nil {
		return nil, nil, err
	}
	cfg, err := config.Parse(reg, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	return from, cfg, nil
}

// newestIn returns the newest checkpoint if dir is a run's folder, else dir.
func newestIn(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "checkpoints")); dir != "" && err == nil {
		return filepath.Join(dir, "checkpoints", "latest")
	}
	return dir
}

// loadPolicy returns the policy of a checkpoint. It starts no simulator, because the configuration has the greeting of
// an external one.
func loadPolicy(reg config.Registries, from *checkpoint.Checkpoint, cfg *config.Config) (*export.TrainedPolicy, error) {
	e := cfg.Env.Train
	if e.ID() == env.ExternalID && e.External.Greeting == "" {
		return nil, fmt.Errorf("%s: config.yaml: env.train.external.greeting: none: expected the description of the "+
			"simulator, which a run adds", from.Dir)
	}
	seen, err := reg.Probe(e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	plain := e
	plain.StateElements, plain.FrameStack, plain.ActionRepeat = nil, 1, 1
	spec, err := reg.Probe(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	blank := cfg.PolicyConfig()
	blank.Blank = true
	seen, _ = cfg.PolicySpec(seen)
	pol, err := reg.Policies.New(blank, seen, cfg.Actor.Seed, tensor.Heap)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	weights, err := loop.OpenModel(from)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	if err := weights.Load(pol.Params(), pol.Params()); err != nil {
		return nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	b := runfolder.ReadBuild()
	p := &export.TrainedPolicy{Policy: pol, Spec: spec, Env: e, Task: spec.Name, Run: from.Dir, Step: from.Step,
		Build: strings.TrimSpace("rlinf " + b.Version + " " + b.Revision)}
	learns := reg.Learning(cfg)
	p.NoValue = learns.Offline || learns.Labelled || cfg.Algorithm.LossType == "actor"
	if !p.NoValue && cfg.Algorithm.NormalizeRewards {
		if p.ValueScale = loop.RewardScale(from); p.ValueScale == 0 {
			p.ValueNote = "discounted return of normalised rewards: the checkpoint has no scale"
		}
	}
	return p, nil
}
