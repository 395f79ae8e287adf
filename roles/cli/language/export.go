package language

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

func exportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Usage: "`FOLDER` for the model; it must not exist, or be empty"},
		&cli.StringFlag{Name: "dtype", Value: "f32", Usage: "weights as f32, bf16 or f16"},
		args.Int(cli.IntFlag{Name: "shard-mb",
			Usage: "split the weights into files of at most this many `MB`; 0: one file"}, 0, 1<<20),
		&cli.BoolFlag{Name: "adapter", Usage: "write only the adapters, in the format of PEFT, without merging them"},
	}
}

// runExport writes the language model of a checkpoint as a folder in the format of Hugging Face.
func runExport(c *cli.Context, reg config.Registries) error {
	dtype, ok := map[string]tensor.DType{"f32": tensor.F32, "bf16": tensor.BF16, "f16": tensor.F16}[c.String("dtype")]
	switch {
	case c.Args().Len() != 1:
		return config.Usagef("export: %d arguments: expected a checkpoint or a run's folder", c.Args().Len())
	case c.String("out") == "":
		return config.Usagef("export: no folder: expected --out FOLDER")
	case !ok:
		return config.Usagef("export: --dtype %s: expected f32, bf16 or f16", c.String("dtype"))
	}
	out := c.String("out")
	if left, _ := os.ReadDir(out); len(left) > 0 {
		return config.Usagef("export: --out %s: expected a folder without files", out)
	}
	progress, stop := args.Progress(c, "loading the model")
	defer stop()
	m, l, cfg, err := loadTuned(c.Args().First(), reg)
	if err != nil {
		return config.Usagef("export: %w", err)
	}
	progress.Phase("writing the model")
	what, count := l.Model.Family, 0
	for _, t := range m.MergedTensors() {
		count += config.Product(t.Shape...)
	}
	if c.Bool("adapter") {
		what, count = "adapters for "+what, m.Params.Len()
		if l.LoRA == nil {
			return config.Usagef("export: --adapter: the model has no adapters (is_lora false)")
		}
		err = hf.SaveAdapter(m, out, cmp.Or(l.BaseWeights.Path, l.Base), l.Tokens)
	} else {
		err = hf.Save(m, out, hf.SaveOptions{DType: dtype, ShardBytes: c.Int("shard-mb") << 20, Tokens: l.Tokens})
	}
	if err == nil {
		err = tokenizer.Copy(out, cfg.TokenizerFolder())
	}
	if err != nil {
		return err
	}
	stop()
	_, err = fmt.Fprintf(c.App.Writer, "%s: %s with %d weights\n", out, what, count)
	return err
}

// loadTuned returns the model in the checkpoint dir, or in the newest checkpoint if dir is a run's folder.
func loadTuned(dir string, reg config.Registries) (m *lm.Model, l plan.Language, cfg *config.Config, err error) {
	if _, err := os.Stat(filepath.Join(dir, "checkpoints")); err == nil {
		dir = filepath.Join(dir, "checkpoints", "latest")
	}
	from, err := checkpoint.Load(dir)
	if err != nil {
		return nil, l, nil, err
	}
	text, err := from.Read("config.yaml")
	if err != nil {
		return nil, l, nil, err
	}
	if cfg, err = config.Parse(reg, text); err != nil {
		return nil, l, nil, fmt.Errorf("%s: %w", from.Dir, err)
	}
	if !cfg.ReadsTexts() {
		return nil, l, nil, fmt.Errorf("%s: no language model: task_type is %s", from.Dir, cfg.Runner.TaskType)
	}
	k, err := tokenizer.Load(cfg.TokenizerFolder())
	if err != nil {
		return nil, l, nil, err
	}
	if l, err = plan.LanguageOf(cfg, k.Size()); err != nil {
		return nil, l, nil, err
	}
	if err := l.UseBase(cfg.Runner.CkptPath); err != nil {
		return nil, l, nil, err
	}
	if _, _, err = l.UseTokenizer(cfg, k); err != nil {
		return nil, l, nil, err
	}
	if m, err = l.Load(tensor.Heap); err != nil {
		return nil, l, nil, err
	}
	f, err := loop.OpenModel(from)
	if err != nil {
		return nil, l, nil, err
	}
	defer f.Close()
	if err = f.Load(m.Params, m.Params); err != nil {
		err = fmt.Errorf("%s: %w", from.Dir, err)
	}
	return m, l, cfg, err
}
