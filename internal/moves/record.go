package moves

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/figures"
	"gopkg.in/yaml.v3"
)

const recordFile = "moves.jsonl"

// A Move is a move of a job to another placement.
type Move struct {
	Step    int64     `json:"step"` // the job moved after this iteration
	Time    time.Time `json:"time"` // when the job continued
	Reason  string    `json:"reason"`
	Before  string    `json:"before"`  // the placement, as YAML: {actor: 0-3, env: 4-7}
	After   string    `json:"after"`   // the new placement
	Seconds float64   `json:"seconds"` // duration of the move
	Bytes   int64     `json:"bytes"`   // bytes sent from rank to rank
	Members int       `json:"members"` // number of members that changed their rank
	// Iteration is the median time of the last iterations before the move, in seconds. It is 0 if unknown.
	Iteration float64 `json:"iteration,omitempty"`
	// Predicted is the predicted time of an iteration after the move, in seconds. It is 0 if there was no prediction.
	Predicted float64 `json:"predicted,omitempty"`
}

// Change returns the difference of the placements, such as "env 0-3 → 4-7". If it cannot parse them, it returns both
// texts unchanged.
func (m *Move) Change() string {
	before, after := places(m.Before), places(m.After)
	var words []string
	for _, p := range after {
		at := slices.IndexFunc(before, func(b place) bool { return b.component == p.component })
		switch {
		case at < 0:
			words = append(words, fmt.Sprintf("%s → %s", p.component, p.ranks))
		case before[at].ranks != p.ranks:
			words = append(words, fmt.Sprintf("%s %s → %s", p.component, before[at].ranks, p.ranks))
		}
	}
	if before == nil || words == nil {
		return strings.TrimSpace(m.Before + " → " + m.After)
	}
	return strings.Join(words, ", ")
}

type place struct{ component, ranks string }

// places returns the components of a placement with their ranks, in the order of the text. It returns nil if the text
// cannot be parsed.
func places(text string) (all []place) {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	pairs := doc.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		ranks := pairs[i+1].Value
		if pairs[i+1].Kind != yaml.ScalarNode {
			text, _ := yaml.Marshal(pairs[i+1]) // keeps the style of the text
			ranks = strings.TrimSpace(string(text))
		}
		for name := range strings.SplitSeq(pairs[i].Value, ",") {
			all = append(all, place{strings.TrimSpace(name), ranks})
		}
	}
	return all
}

// Cost returns the cost of the move, such as "210 ms, 4 members, 1.2 MiB sent".
func (m *Move) Cost() string {
	members := "1 member"
	if m.Members != 1 {
		members = fmt.Sprintf("%d members", m.Members)
	}
	sent, unit := float64(m.Bytes), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB"} {
		if sent >= 1000 {
			sent, unit = sent/1024, larger
		}
	}
	return fmt.Sprintf("%s, %s, %.3g %s sent", Seconds(m.Seconds), members, sent, unit)
}

// Seconds formats a time in seconds with three digits, such as 1.23 s or 45.6 ms.
func Seconds(x float64) string {
	switch {
	case x >= 99.95:
		return fmt.Sprintf("%.0f s", x)
	case x >= 0.9995 || x <= 0:
		return fmt.Sprintf("%.3g s", x)
	}
	return fmt.Sprintf("%.3g ms", 1000*x)
}

// Append adds a move to the record in the run folder. If the move's time is zero, Append sets it to the present time.
func Append(folder string, m Move) error {
	if m.Time.IsZero() {
		m.Time = now()
	}
	return appendLine(filepath.Join(folder, recordFile), m)
}

// Read returns the recorded moves in the run folder. It leaves out damaged lines and returns their number. If there is
// no record, it returns no moves.
func Read(folder string) (all []Move, damaged int, err error) {
	err = eachMove(folder, func(m Move) { all = append(all, m) }, func() { damaged++ })
	return all, damaged, err
}

// eachMove calls f with each recorded move in the run folder, and damaged for each damaged line.
func eachMove(folder string, f func(Move), damaged func()) error {
	return eachLine(filepath.Join(folder, recordFile), func(line []byte) {
		var m Move
		if json.Unmarshal(line, &m) != nil || m.Step < 0 || m.After == "" {
			damaged()
			return
		}
		f(m)
	})
}

// Newest is like Read, but returns only the last n moves. The result made is the number of all moves.
func Newest(folder string, n int) (newest []Move, made, damaged int, err error) {
	err = eachMove(folder, func(m Move) {
		if made++; len(newest) == n {
			newest = append(newest[:0], newest[1:]...)
		}
		newest = append(newest, m)
	}, func() { damaged++ })
	return newest, made, damaged, err
}

// CutBack prepares the run folder for a job that continues after step, or for a new run at step 0. It removes the moves
// at this step and later, because the job begins with the placement of its configuration. If an earlier job has left a
// request without an answer, CutBack refuses the request.
func CutBack(folder string, step int64) error {
	r, err := Pending(folder)
	if err != nil && !errors.Is(err, errDamaged) {
		return err
	}
	if r != nil {
		if err := Reply(folder, r, Answer{Refused: "the job ended before it could move"}); err != nil {
			return err
		}
	}
	all, damaged, err := Read(folder)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(m Move) bool { return m.Step >= step })
	if len(kept) == len(all) && damaged == 0 {
		return nil
	}
	if err := durable.Write(filepath.Join(folder, recordFile), func(w io.Writer) error {
		for enc, i := json.NewEncoder(w), 0; i < len(kept); i++ {
			if err := enc.Encode(kept[i]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("cut the record of moves back to step %d: %w", step, err)
	}
	return nil
}

// Since returns the moves at or after the time start. The moves must be in the order of time.
func Since(moves []Move, start time.Time) []Move {
	for len(moves) > 0 && moves[0].Time.Before(start) {
		moves = moves[1:]
	}
	return moves
}

// Gain returns the median iteration times before and after moves[i], in seconds. A time is 0 if it is unknown. steps
// and seconds are columns of the metrics: seconds[k] is the mean iteration time from steps[k-1] to steps[k]. Gain uses
// at most 20 rows on each side, up to the previous and the next move.
func Gain(moves []Move, i int, steps, seconds []float64) (before, after float64) {
	const most = 20 // rows
	at, from, to := float64(moves[i].Step), 0.0, math.Inf(1)
	if i > 0 {
		from = float64(moves[i-1].Step)
	}
	if i+1 < len(moves) {
		to = float64(moves[i+1].Step)
	}
	var left, right []float64
	last := 0.0 // step of the previous row
	for k, step := range steps {
		if x := seconds[k]; x > 0 && !math.IsInf(x, 0) {
			if last >= from && step <= at {
				left = append(left, x)
			}
			if last >= at && step <= to && len(right) < most {
				right = append(right, x)
			}
		}
		last = step
	}
	if before = figures.Median(left[max(0, len(left)-most):]); before == 0 {
		before = moves[i].Iteration
	}
	return before, figures.Median(right)
}

// appendLine adds v as a line to the file at path, and syncs the file. If a crash has left an incomplete line,
// appendLine ends that line first.
func appendLine(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	end := make([]byte, 1)
	if info, statErr := f.Stat(); statErr != nil {
		err = statErr
	} else if size := info.Size(); size > 0 {
		_, err = f.ReadAt(end, size-1)
		if err == nil && end[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// eachLine calls f with each complete line of the file at path, except for empty lines. A missing file has no lines.
func eachLine(path string, f func(line []byte)) error {
	file, err := durable.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer file.Close()
	for in := durable.NewLines(file); ; {
		line, _, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil // the rest is still being written, or was cut
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			f(line)
		}
	}
}
