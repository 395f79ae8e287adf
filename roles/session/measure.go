package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// measure is the life of one rank of a job that evaluates fine-tuning. Each rank measures a share of the
// texts of validation, and rank 0 writes the figures: the same on any number of ranks, because it adds
// up those of all texts in their order.
func (s *session) measure(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config,
	how Evaluation) error {
	s.phase(w, "loading the model")
	j, m, from, err := s.loadExamined(w, cfg, how)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	t := j.Tuning
	s.phase(w, "evaluation")
	rows, err := algo.MeasureTexts(m, t.Limit, cfg.Actor.Threads, t.Validation(w.Rank(), w.Size()),
		s.progress.Counter())
	if err != nil {
		return err
	}
	all, err := gatherRows(ctx, world, rows)
	if err != nil || w.Rank() != 0 {
		return err
	}
	rows = make([]algo.TextSums, len(t.Valid.Samples))
	if _, err := binary.Decode(all, binary.LittleEndian, rows); err != nil {
		return err
	}
	var sums algo.TextSums
	for i := range rows {
		sums.Add(&rows[i])
	}
	s.progress.Done()
	return writeMeasured(s.Out, sums.Metrics(), from, cfg.Data.ValDataPaths, len(rows), how.JSON)
}

// writeMeasured writes the figures of so many texts. JSON has one object with the same names.
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
