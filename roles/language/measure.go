package language

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/task"
)

// measure runs on each rank of a job that evaluates fine-tuning. Each copy of the model measures a share of the texts
// of validation, and rank 0 writes the metrics. They are the same on any number of ranks, because rank 0 adds the
// results of all texts in their order.
func measure(ctx context.Context, on *task.Evaluation) error {
	x, agreed, err := load(ctx, on, func(*examinee) error { return nil })
	if !agreed {
		return err
	}
	rows, err := shares(ctx, on, x, "measure", (*examinee).measureTexts)
	if err != nil || on.World.Rank() != 0 {
		return err
	}
	var sums algo.TextSums
	for i := range rows {
		sums.Add(&rows[i])
	}
	on.Progress.Done()
	return writeMeasured(on.Out, sums.Metrics(), x.from, on.Config.Data.ValDataPaths, len(rows), on.JSON)
}

// measureTexts measures this copy's share of the texts.
func (e *examinee) measureTexts(context.Context) ([]algo.TextSums, error) {
	return algo.MeasureTexts(e.model, e.plan.Limit, e.plan.Config.Actor.Threads, lm.Mesh{Layer: e.line},
		e.plan.Validation(e.copy, e.copies), e.progress)
}

// writeMeasured writes the metrics to out. texts is the number of measured texts. With asJSON it writes one JSON
// object with the same names.
func writeMeasured(out io.Writer, m algo.Metrics, from string, paths []string, texts int, asJSON bool) error {
	of := strings.Join(paths, ", ")
	if asJSON {
		all := map[string]any{"checkpoint": from, "task": of, "texts": texts}
		for i, name := range m.Names {
			all["eval/"+name] = m.Values[i]
		}
		return json.NewEncoder(out).Encode(all)
	}
	fmt.Fprintf(out, "%s, %d texts of %s\n", from, texts, of)
	for i, name := range m.Names {
		fmt.Fprintf(out, "  %-19s %.4g\n", "eval/"+name, m.Values[i])
	}
	return nil
}
