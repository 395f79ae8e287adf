package report

import "github.com/rlinf/rlinf/internal/moves"

// movesData is the table of a run's moves.
type movesData struct {
	Rows []moveRow `json:"rows"`
	Left int       `json:"left,omitempty"` // number of older moves that are left out
}

type moveRow struct {
	Step      int64  `json:"step"`
	Time      string `json:"time"`
	Change    string `json:"change"`
	Reason    string `json:"reason"`
	Cost      string `json:"cost"`
	Before    string `json:"before"` // time of an iteration
	After     string `json:"after"`
	Predicted string `json:"predicted"`
}

// A page lists the newest mostMoves moves. Its charts mark the newest mostMoveMarks moves.
const mostMoves, mostMoveMarks = 200, 40

// readMoves reads moves.jsonl.
func (r *Run) readMoves() {
	var damaged int
	var err error
	r.Moves, r.moved, damaged, err = moves.Newest(r.Folder, mostMoves+1) // the gain of the first needs the one before
	if err != nil {
		r.problem("moves.jsonl cannot be read: %v.", err)
	}
	if damaged > 0 {
		r.problem("moves.jsonl: %s damaged. They are left out.", count(damaged, "line is", "lines are"))
	}
}

// moves returns the table of moves, or nil if the run has made no move.
func (r *Run) moves() *movesData {
	if len(r.Moves) == 0 {
		return nil
	}
	steps, seconds := r.Metrics.Steps, r.Metrics.Columns["time/step"]
	if seconds == nil {
		steps = nil
	}
	text := func(seconds float64) string {
		if !(seconds > 0) || !finite(seconds) {
			return ""
		}
		return duration(seconds)
	}
	d := &movesData{Left: max(r.moved-mostMoves, 0)}
	for i := max(len(r.Moves)-mostMoves, 0); i < len(r.Moves); i++ {
		m := &r.Moves[i]
		before, after := moves.Gain(r.Moves, i, steps, seconds)
		d.Rows = append(d.Rows, moveRow{m.Step, m.Time.UTC().Format("2006-01-02 15:04:05"), plain(m.Change()),
			plain(m.Reason), m.Cost(), text(before), text(after), text(m.Predicted)})
	}
	return d
}

// moveMarks returns the marks of the newest moves for the charts.
func (r *Run) moveMarks() (marks []mark) {
	for _, m := range r.Moves[max(len(r.Moves)-mostMoveMarks, 0):] {
		marks = append(marks, mark{float64(m.Step), "moved"})
	}
	return marks
}
