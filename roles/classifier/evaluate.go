package classifier

import (
	"context"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/tensor"
)

// Evaluate measures a checkpoint on the validation frames, on rank 0.
func (Task) Evaluate(ctx context.Context, on *task.Evaluation) error {
	on.Phase("loading the model")
	var e evaluation
	err := e.load(on)
	if agreed, err := on.Agree(ctx, err); !agreed || on.World.Rank() != 0 {
		return err
	}
	on.Phase("evaluation")
	var sums algo.ClassifySums
	micro := e.plan.Config.Actor.MicroBatchSize
	sums.Measure(e.plan.blank, e.plan.blank.NewWork(micro), micro, e.plan.valid.Images.U8(), e.plan.valid.Labels)
	on.Progress.Done()
	m := inSection(sums.Metrics())
	err = on.Write(&task.Results{From: e.from, Task: strings.Join(on.Config.Data.ValDataPaths, ", "), Unit: "images",
		Count: e.plan.valid.Len(), Names: m.Names, Values: m.Values, Width: 19})
	if !on.JSON {
		fmt.Fprintln(on.Out, strings.Join(sums.Table(), "\n"))
	}
	return err
}

// An evaluation is a plan whose network has the parameters of a checkpoint.
type evaluation struct {
	plan *plan
	from string // folder or file of the parameters
}

func (e *evaluation) load(on *task.Evaluation) error {
	if on.Record.File != "" || on.Episodes > 0 {
		return fmt.Errorf("--record and --episodes: expected a job with environments")
	}
	cfg := *on.Config
	cfg.Runner.ValCheckInterval = max(cfg.Runner.ValCheckInterval, 1)
	d := newDraft(&cfg, on.Registries, make([]int, on.World.Size()))
	if err := d.complete(); err != nil {
		return err
	}
	e.plan = d.plan
	var err error
	if e.plan.blank, err = e.plan.newNetwork(tensor.Heap); err != nil {
		return err
	}
	from, file, err := loop.FindModel(on.Config, on.Checkpoint)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Load(e.plan.blank.Params(), e.plan.blank.Params()); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	e.from = from
	return nil
}
