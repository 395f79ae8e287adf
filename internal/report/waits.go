package report

import (
	"math"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// waitsData has the times of workers by cause in the newest attempt.
type waitsData struct {
	Causes     []string         `json:"causes"` // first useful time, then waits
	Waits      []bool           `json:"waits"`  // whether each cause is a wait
	Rows       []waitRow        `json:"rows"`
	Iterations int              `json:"iterations"`
	Attempt    int              `json:"attempt"` // number of the attempt, from 1
	Hidden     int              `json:"hidden"`  // number of ranks that are left out
	Efficiency []efficiencyData `json:"efficiency"`
	Late       []lateData       `json:"late"`
}

// A waitRow has the time of a worker. If Rank is negative, it has the time of a component.
type waitRow struct {
	Name    string    `json:"name"`
	Rank    int       `json:"rank"`
	Workers int       `json:"workers"`
	Seconds []float64 `json:"seconds"` // by cause
}

type efficiencyData struct {
	Component string  `json:"component"`
	Workers   int     `json:"workers"`
	Balance   float64 `json:"balance"`
	Comm      float64 `json:"comm"`
	Parallel  float64 `json:"parallel"`
	Busiest   string  `json:"busiest"`
}

// lateData has the member that most often arrived last at the operations of a communicator, or at votes.
type lateData struct {
	Name       string  `json:"name"`
	Operations int     `json:"operations"`
	Member     string  `json:"member"`
	Share      float64 `json:"share"`  // share of the operations at which the member was last
	Chance     float64 `json:"chance"` // expected Share if each member were last equally often
	Delay      float64 `json:"delay"`  // mean, in seconds
}

// waits sums the times of the newest attempt. It returns nil if this attempt has no sums.
func (r *Run) waits() *waitsData {
	a, number := r.lastAttempt()
	if a == nil || len(a.Sums) == 0 {
		return nil
	}
	table := timeline.Waits(a)
	d := &waitsData{Iterations: table.Iterations, Attempt: number}
	causes := timeline.Causes()
	for _, c := range causes {
		d.Causes, d.Waits = append(d.Causes, string(c)), append(d.Waits, c.IsWait())
	}
	row := func(name string, rank, workers int, t timeline.Times) {
		one := waitRow{Name: plain(name), Rank: rank, Workers: workers, Seconds: make([]float64, len(causes))}
		for i, c := range causes {
			one.Seconds[i] = math.Round(t[c]*1e6) / 1e6
		}
		d.Rows = append(d.Rows, one)
	}
	for _, c := range table.Components {
		row(c.Component, -1, c.Workers, c.Times)
	}
	shown := shownRanks(a)
	if shown != nil {
		d.Hidden = a.Ranks - len(shown)
	}
	for i, t := range table.Workers {
		if w := &a.Workers[i]; shown.has(w.Rank) && t.Total() > 0 {
			row(nameOf(w), w.Rank, 1, t)
		}
	}
	for _, e := range timeline.Efficiencies(a) {
		d.Efficiency = append(d.Efficiency, efficiencyData{plain(e.Component), e.Workers, e.LB, e.Comm, e.PE,
			nameOf(&a.Workers[e.Busiest])})
	}
	for _, l := range timeline.LastArrivals(a) {
		most := -1
		for i, m := range l.Members {
			if most < 0 || m.Last > l.Members[most].Last {
				most = i
			}
		}
		if most < 0 || l.Members[most].Last == 0 {
			continue
		}
		m, name := l.Members[most], l.Component+", "+l.Name
		if l.Op == trace.Vote {
			name = "vote of the runners"
		}
		d.Late = append(d.Late, lateData{plain(name), l.Operations, nameOf(&a.Workers[m.Worker]), m.Share, l.Chance,
			m.Delay / float64(m.Last)})
	}
	return d
}

// lastAttempt returns the newest attempt with workers, and the number of this attempt. Numbers begin at 1.
func (r *Run) lastAttempt() (*trace.Attempt, int) {
	if r.Trace == nil {
		return nil, 0
	}
	for i := len(r.Trace.Attempts) - 1; i >= 0; i-- {
		if a := &r.Trace.Attempts[i]; len(a.Workers) > 0 {
			return a, i + 1
		}
	}
	return nil, 0
}
