package language

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/task"
)

// measure runs on each rank of a job that evaluates fine-tuning. Each rank measures a share of the texts of
// validation, and rank 0 writes the metrics. They are the same on any number of ranks, because rank 0 adds the
// results of all texts in their order.
func measure(ctx context.Context, on *task.Evaluation) error {
	on.Phase("loading the model")
	p, m, from, err := loadExamined(on)
	if agreed, err := on.Agree(ctx, on, err); !agreed {
		return err
	}
	on.Phase("evaluation")
	rank, size := on.World.Rank(), on.World.Size()
	rows, err := algo.MeasureTexts(m, p.Limit, p.Config.Actor.Threads, p.Validation(rank, size), on.Progress.Counter())
	if err != nil {
		return err
	}
	all, err := on.GatherRows(ctx, rows)
	if err != nil || rank != 0 {
		return err
	}
	rows = make([]algo.TextSums, len(p.Valid.Samples))
	if _, err := binary.Decode(all, binary.LittleEndian, rows); err != nil {
		return err
	}
	var sums algo.TextSums
	for i := range rows {
		sums.Add(&rows[i])
	}
	on.Progress.Done()
	return writeMeasured(on.Out, sums.Metrics(), from, p.Config.Data.ValDataPaths, len(rows), on.JSON)
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
