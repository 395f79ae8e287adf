package embodied

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/task"
)

// write writes the metrics of the episodes in blob. blob has the format of env.AppendRows. If all episodes were lost,
// write returns an error.
func (e *evaluation) write(on *task.Evaluation, blob []byte) error {
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
		return fmt.Errorf("%s: all %d episodes were lost, because their simulators failed", e.spec.Name, sum.NumLost)
	}
	r := &task.Results{From: e.from, Task: e.spec.Name, Unit: "episodes", Count: sum.NumTrajectories, Width: 19}
	if states := e.env.InitialStates(e.episodes, e.epochs); states < e.episodes*e.epochs {
		r.States = states
	}
	if e.env.VideoCfg.SaveVideo && e.unrenderable == "" && e.unfilmed == nil {
		r.Film = e.film
	}
	if n := e.recorded; n.Episodes > 0 {
		r.Record, r.Recorded = e.record, [2]int{n.Episodes, n.Transitions}
	}
	set := func(name string, value float64) {
		r.Names, r.Values = append(r.Names, "eval/"+name), append(r.Values, value)
	}
	set("return", sum.Return)
	set("return_std", sum.ReturnStd)
	set("return_min", sum.ReturnMin)
	set("episode_len", sum.EpisodeLen)
	if sum.NumLost > 0 {
		set("num_lost", float64(sum.NumLost))
	}
	setOwn(set, &e.spec, &sum)
	return on.Write(r)
}

// setOwn sets the metrics of s that only some kinds of environments have.
func setOwn(setMetric func(name string, value float64), spec *env.Spec, s *env.Summary) {
	if spec.InfoIndex("success") >= 0 {
		setMetric("success_once", s.SuccessOnce)
		setMetric("success_at_end", s.SuccessAtEnd)
	}
	if spec.InfoIndex("wrong_object") >= 0 {
		setMetric("wrong_object", s.WrongObject)
	}
	if spec.InfoIndex(env.ToldObject) >= 0 {
		setMetric("told_object", s.ToldObject)
	}
	if spec.Intervene {
		setMetric("intervened_once", s.IntervenedOnce)
		setMetric("intervened_steps", s.IntervenedSteps)
		setMetric("intervened_clipped", s.ClippedSteps)
		if spec.InfoIndex(env.Success) >= 0 {
			setMetric("success_no_intervened", s.SuccessNoIntervened)
		}
	}
	for i, t := range s.ByTask[:min(len(s.ByTask), len(spec.Tasks))] {
		if t.NumTrajectories > 0 {
			setMetric("success_once/"+spec.Tasks[i], t.SuccessOnce)
		}
	}
	for i, name := range spec.Figures() {
		setMetric("info/"+name, s.Info[i])
	}
}
