package embodied

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rlinf/rlinf/env"
)

// A figure is a metric of an evaluation.
type figure struct {
	name  string
	value float64
}

// finish writes the metrics of the episodes in blob, which has rows of env.AppendRows. It returns an error if all
// episodes were lost.
func (e *evaluation) finish(out io.Writer, blob []byte, asJSON bool) error {
	rows := make([]float64, len(blob)/8)
	if err := binary.Read(bytes.NewReader(blob), binary.LittleEndian, rows); err != nil {
		return err
	}
	episodes, err := env.FromRows(rows, len(e.spec.Figures()))
	if err != nil {
		return err
	}
	sum := env.Summarize(episodes)
	if sum.NumTrajectories == 0 {
		return fmt.Errorf("%s: all %d episodes were lost, for their simulators failed", e.spec.Name, sum.NumLost)
	}
	film := ""
	if e.env.VideoCfg.SaveVideo && e.unrenderable == "" {
		film = e.film
	}
	figures := e.figures(sum)
	if asJSON {
		return e.writeJSON(out, sum.NumTrajectories, figures, film)
	}
	fmt.Fprintf(out, "%s, %d episodes of %s\n", e.from, sum.NumTrajectories, e.spec.Name)
	width := 19 // the longest name of the metrics that all evaluations with success have
	for _, f := range figures {
		width = max(width, len(f.name))
	}
	for _, f := range figures {
		fmt.Fprintf(out, "  %-*s %.4g\n", width, f.name, f.value)
	}
	if film != "" {
		fmt.Fprintf(out, "  %-*s %s\n", width, "film", film)
	}
	return nil
}

// figures returns the metrics in sum that these environments have.
func (e *evaluation) figures(sum env.Summary) []figure {
	all := []figure{{"eval/return", sum.Return}, {"eval/return_std", sum.ReturnStd},
		{"eval/return_min", sum.ReturnMin}, {"eval/episode_len", sum.EpisodeLen}}
	if sum.NumLost > 0 {
		all = append(all, figure{"eval/num_lost", float64(sum.NumLost)})
	}
	if e.spec.InfoIndex("success") >= 0 {
		all = append(all, figure{"eval/success_once", sum.SuccessOnce}, figure{"eval/success_at_end", sum.SuccessAtEnd})
	}
	if e.spec.InfoIndex("wrong_object") >= 0 {
		all = append(all, figure{"eval/wrong_object", sum.WrongObject})
	}
	if e.spec.InfoIndex(env.ToldObject) >= 0 {
		all = append(all, figure{"eval/told_object", sum.ToldObject})
	}
	for i, t := range sum.ByTask[:min(len(sum.ByTask), len(e.spec.Tasks))] {
		if t.NumTrajectories > 0 {
			all = append(all, figure{"eval/success_once/" + e.spec.Tasks[i], t.SuccessOnce})
		}
	}
	for i, name := range e.spec.Figures() {
		all = append(all, figure{"eval/info/" + name, sum.Info[i]})
	}
	return all
}

// writeJSON writes one object: checkpoint, task, episodes, the film if there is one, and the metrics.
func (e *evaluation) writeJSON(out io.Writer, episodes int, figures []figure, film string) error {
	all := map[string]any{"checkpoint": e.from, "task": e.spec.Name, "episodes": episodes}
	if film != "" {
		all["film"] = film
	}
	for _, f := range figures {
		all[f.name] = f.value
	}
	return json.NewEncoder(out).Encode(all)
}
