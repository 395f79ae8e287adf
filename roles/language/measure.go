package language

import (
	"context"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/task"
)

// measure runs on each rank of a job that evaluates fine-tuning. Each copy of the model measures a share of the
// validation texts, and rank 0 writes the metrics. The metrics are the same for any number of ranks, because rank 0
// adds the results of all texts in their order.
func measure(ctx context.Context, on *task.Evaluation) error {
	x, agreed, err := load(ctx, on, func(*examinee) error { return nil })
	if !agreed {
		return err
	}
	rows, err := shares(ctx, on, x, "measure", measureTexts)
	if err != nil || on.World.Rank() != 0 {
		return err
	}
	var sums algo.TextSums
	for i := range rows {
		sums.Add(&rows[i])
	}
	on.Progress.Done()
	m := sums.Metrics()
	for i, name := range m.Names {
		m.Names[i] = "eval/" + name
	}
	return on.Write(&task.Results{From: x.from, Task: strings.Join(on.Config.Data.ValDataPaths, ", "), Unit: "texts",
		Count: len(rows), Names: m.Names, Values: m.Values, Width: 19})
}

// measureTexts measures the share of the texts that belongs to e's copy of the model. It returns a row for each text.
func measureTexts(_ context.Context, e *examinee) ([]algo.TextSums, error) {
	return algo.MeasureTexts(e.model, e.plan.Limit, e.plan.Config.Actor.Threads, lm.Mesh{Layer: e.line},
		e.plan.Validation(e.copy, e.copies), e.progress)
}
