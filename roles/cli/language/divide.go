package language

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

// partsFlag is the name of the flag for the number of parts of a model.
const partsFlag = "tensor-parallel-size"

// A dividedModel is a language model that is partitioned among the goroutines of a group.
type dividedModel struct {
	whole *lm.Model // has sizes, and no memory for weights
	parts *spmd.Group[*part]
}

// A part is one member's part of a model.
type part struct {
	model *lm.Model
	line  *member.AxisGroup // connects the members that have the parts of the model
	wrong error             // why the weights cannot be read
}

// withModel returns the action of a command. The action loads the model of -m, with the adapters of --adapter if given,
// and calls run with the model.
func withModel(run func(ctx context.Context, c *cli.Context, m *dividedModel) error) func(*cli.Context) error {
	return func(c *cli.Context) error {
		whole, o, err := findModel(c)
		if err != nil {
			return err
		}
		options := spmd.Options{Log: io.Discard, Failing: func(f *spmd.Failure) {
			if f.Stack != nil {
				fmt.Fprintf(c.App.ErrWriter, "%s\n", f.Stack)
			}
		}}
		err = spmd.Run(c.Context, local.New(1), options, func(ctx context.Context, w *spmd.World) error {
			parts, err := loadParts(ctx, c, w, whole.Config, o)
			if err != nil {
				return err
			}
			return run(ctx, c, &dividedModel{whole, parts})
		})
		if f := (*spmd.Failure)(nil); errors.As(err, &f) {
			return f.Err // without the rank, as there is only one
		}
		return err
	}
}

// findModel returns the whole model without memory for weights, and its options. It reports all mistakes that it can
// find without the weights.
func findModel(c *cli.Context) (m *lm.Model, o lm.Options, err error) {
	dir, err := folder(c)
	if err != nil {
		return nil, o, err
	}
	sizes, err := hf.ReadConfig(dir)
	if err != nil {
		hint := job.ExportFirst(dir)
		if _, adapter := hf.ReadAdapter(dir); adapter == nil {
			hint = fmt.Sprintf(": it has adapters: -m names the model below them, and --adapter %s", dir)
		}
		return nil, o, config.Usagef("-m %s: expected the folder of a model: %w%s", dir, err, hint)
	}
	o.Frozen = true
	if adapter := c.String("adapter"); adapter != "" {
		if o.LoRA, err = hf.ReadAdapter(adapter); err != nil {
			return nil, o, config.UsageError{Err: err}
		}
	}
	if m, err = lm.New(new(nn.Params[float32]), sizes, o); err != nil {
		return nil, o, config.UsageError{Err: err}
	}
	if n, fit := c.Int(partsFlag), sizes.Sizes(); !slices.Contains(fit, n) {
		return nil, o, config.Usagef("--%s %d: expected one of %v (divisors of %d key heads and of the %d blocks of "+
			"this model's sums)", partsFlag, n, fit, sizes.KVHeads, sizes.Blocks())
	}
	if err := hf.Check(m, dir); err != nil {
		return nil, o, config.UsageError{Err: err}
	}
	return m, o, checkMemory(fmt.Sprintf("the model of %s", dir), 4*(m.Count()+2*m.Params.Len()))
}

// loadParts loads the parts of a model with these sizes and options.
func loadParts(ctx context.Context, c *cli.Context, w *spmd.World, sizes lm.Config, o lm.Options) (*spmd.Group[*part],
	error) {
	_, stop := args.Progress(c, "loading the model")
	defer stop()
	j := &job.Job{Config: new(config.Config)} // a Line reads no keys of the configuration
	parts, err := member.Divide(ctx, w, j, c.Int(partsFlag),
		func(_ *spmd.Member, line *member.AxisGroup) (*part, error) {
			p := &part{line: line}
			o := o
			o.Part = lm.Shard{Index: line.Index(), Size: line.Size()}
			p.model, p.wrong = loadModel(c, sizes, o)
			return p, nil
		})
	if err != nil {
		return nil, err
	}
	for _, p := range parts.Here() {
		if p.wrong != nil {
			return nil, p.wrong
		}
	}
	return parts, nil
}

// loadModel loads the model, or the part of the model that o.Part selects.
func loadModel(c *cli.Context, sizes lm.Config, o lm.Options) (*lm.Model, error) {
	m, err := lm.New(new(nn.Params[float32]), sizes, o)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	if err := m.Alloc(tensor.Heap); err != nil {
		return nil, err
	}
	if err := hf.Load(m, c.String("model")); err != nil {
		return nil, config.UsageError{Err: err}
	}
	if adapter := c.String("adapter"); adapter != "" {
		if err := hf.LoadAdapter(m, adapter); err != nil {
			return nil, config.UsageError{Err: err}
		}
	}
	return m, nil
}

// callParts calls f for all parts at the same time, and returns the result of the first part. All results are equal.
func callParts[R any](ctx context.Context, m *dividedModel, name string, f func(context.Context, *part) (R, error)) (
	first R, err error) {
	results, err := spmd.Call(m.parts, ctx, name, f).Wait(ctx)
	if err == nil {
		first = results[0].Value
	}
	return first, err
}
