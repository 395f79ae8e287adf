package language

import (
	"cmp"
	"fmt"

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

// ExportFlags returns the flags of the command export.
func ExportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Usage: "`FOLDER` for the model; it must not exist, or be empty"},
		&cli.StringFlag{Name: "dtype", Value: "f32", Usage: "weights as f32, bf16 or f16"},
		args.Int(cli.IntFlag{Name: "shard-mb",
			Usage: "split the weights into files of at most this many `MB`; 0: one file"}, 0, 1<<20),
		&cli.BoolFlag{Name: "adapter", Usage: "write only the adapters, in the format of PEFT, without merging them"},
	}
}

// Export writes a trained language model as a folder in the format of Hugging Face. It reads the model from a
// checkpoint whose configuration is cfg.
func Export(c *cli.Context, from *checkpoint.Checkpoint, cfg *config.Config) error {
	dtype, ok := map[string]tensor.DType{"f32": tensor.F32, "bf16": tensor.BF16, "f16": tensor.F16}[c.String("dtype")]
	if !ok {
		return config.Usagef("export: --dtype %s: expected f32, bf16 or f16", c.String("dtype"))
	}
	out := c.String("out")
	progress, stop := args.Progress(c, "loading the model")
	defer stop()
	m, l, chat, err := loadTuned(from, cfg)
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
	if err == nil && chat != nil && cfg.Data.ChatTemplate != "" {
		err = chat.Save(out)
	}
	if err != nil {
		return err
	}
	stop()
	_, err = fmt.Fprintf(c.App.Writer, "%s: %s with %d weights\n", out, what, count)
	return err
}

// loadTuned returns the model in a checkpoint, and the chat template that it was trained with, or nil.
func loadTuned(from *checkpoint.Checkpoint, cfg *config.Config) (m *lm.Model, l plan.Language,
	chat *tokenizer.ChatTemplate, err error) {
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
	if chat, _, err = l.UseTokenizer(cfg, k); err != nil {
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
	return m, l, chat, err
}
