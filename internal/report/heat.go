package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// heatData has times by row and iteration. A row is a rank. If there are more than mostRanks ranks, a row is a node.
type heatData struct {
	Rows       []string  `json:"rows"`
	Iterations array     `json:"iterations"`
	Each       int       `json:"each"` // number of iterations in a column; the column shows their longest time
	Measures   []measure `json:"measures"`
	Of         string    `json:"of"` // rank or node
}

// A measure has a time for each row and column. Value v stands for the time Top · v / 65535.
type measure struct {
	Name   string  `json:"name"`
	Top    float64 `json:"top"`    // seconds
	Values array   `json:"values"` // row by row
}

// mostColumns is the maximum number of columns of a heat map.
const mostColumns = 600

// heat packs the times of work and of waits. In worlds of at most mostRanks ranks, it also packs the times of phases.
// If several attempts made an iteration, the last attempt counts.
func (r *Run) heat(p *packer) *heatData {
	last, _ := r.lastAttempt()
	if last == nil {
		return nil
	}
	byNode, rows := last.Ranks > mostRanks, last.Ranks
	d := &heatData{Of: "rank"}
	if byNode {
		d.Of, rows = "node", max(len(last.Hosts), 1)
		for _, w := range last.Workers {
			rows = max(rows, w.Node+1)
		}
	}
	if rows < 2 || rows > 4096 {
		return nil
	}
	from, to := int64(math.MaxInt64), int64(0)
	for i := range r.Trace.Attempts {
		for _, s := range r.Trace.Attempts[i].Sums {
			from, to = min(from, s.Iteration), max(to, s.Iteration)
		}
	}
	if to < from || to-from > 1<<32 {
		return nil
	}
	d.Each = int((to-from)/mostColumns) + 1
	columns := int(to-from)/d.Each + 1
	for i := range rows {
		d.Rows = append(d.Rows, fmt.Sprintf("%s %d", d.Of, i))
	}
	var at []float64
	for c := range columns {
		at = append(at, float64(from)+float64(c*d.Each))
	}
	d.Iterations = p.f64(at)
	g := newGrids(r.Trace, from, to, rows, byNode)
	for k, values := range g.values {
		longest := g.thin(values, d.Each, columns)
		top := slices.Max(longest)
		if top == 0 {
			continue
		}
		packed := make([]uint16, len(longest))
		for i, v := range longest {
			packed[i] = uint16(math.Round(v / top * math.MaxUint16))
		}
		d.Measures = append(d.Measures, measure{g.names[k], top, p.u16(packed)})
	}
	if len(d.Measures) == 0 {
		return nil
	}
	return d
}

// grids has a time for each measure, row and iteration.
type grids struct {
	from       int64
	rows, wide int
	names      []string    // names of the measures: work, waits, and the phases
	values     [][]float32 // values of each measure, row by row
}

func newGrids(t *trace.Trace, from, to int64, rows int, byNode bool) *grids {
	g := &grids{from: from, rows: rows, wide: int(to-from) + 1, names: []string{"work", "waits"}}
	if !byNode {
		g.names = append(g.names, phaseNames[:]...)
	}
	for range g.names {
		g.values = append(g.values, make([]float32, g.rows*g.wide))
	}
	work, wait, phases := g.values[0], g.values[1], g.values[2:]
	for i := range t.Attempts {
		a := &t.Attempts[i]
		members := make([]float32, rows) // number of ranks in each row
		seen := map[int]bool{}
		for _, w := range a.Workers {
			if row := rowOfWorker(&w, byNode); row < rows && !seen[w.Rank] {
				seen[w.Rank] = true
				members[row]++
			}
		}
		if len(a.Sums) > 0 { // this attempt replaces all iterations from its first iteration on
			g.clear(a.Sums[0].Iteration)
		}
		for _, s := range a.Sums {
			if s.Worker < 0 || s.Worker >= len(a.Workers) || s.Iteration < from || s.Iteration > to {
				continue
			}
			w := &a.Workers[s.Worker]
			row := rowOfWorker(w, byNode)
			if row >= rows {
				continue
			}
			cell := row*g.wide + int(s.Iteration-from)
			for k, ns := range s.Times {
				if k >= len(w.Sites) || w.Sites[k].Cause == trace.Calling || w.Sites[k].Cause == trace.Idling {
					continue
				}
				if seconds := float32(ns) / 1e9 / members[row]; w.Sites[k].Cause.IsWait() {
					wait[cell] += seconds
				} else {
					work[cell] += seconds
				}
			}
		}
		for _, ph := range a.Phases {
			if ph.Iteration < from || ph.Iteration > to || byNode {
				continue
			}
			for rank, times := range ph.Ranks {
				for k, v := range split(times) {
					if rank < rows {
						phases[k][rank*g.wide+int(ph.Iteration-from)] = float32(v)
					}
				}
			}
		}
	}
	return g
}

func rowOfWorker(w *trace.Lane, byNode bool) int {
	if byNode {
		return max(w.Node, 0)
	}
	return max(w.Rank, 0)
}

// clear sets the times of an iteration and of all later iterations to zero.
func (g *grids) clear(iteration int64) {
	first := int(min(max(iteration-g.from, 0), int64(g.wide)))
	for _, x := range g.values {
		for row := range g.rows {
			clear(x[row*g.wide+first : (row+1)*g.wide])
		}
	}
}

// thin joins groups of iterations into columns. size is the number of iterations in a group. thin returns the longest
// time of each column, row by row.
func (g *grids) thin(values []float32, size, columns int) []float64 {
	out := make([]float64, g.rows*columns)
	for row := range g.rows {
		for i, v := range values[row*g.wide : (row+1)*g.wide] {
			cell := row*columns + i/size
			out[cell] = max(out[cell], float64(v))
		}
	}
	return out
}
