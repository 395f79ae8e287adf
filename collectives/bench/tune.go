package bench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
)

// Tune returns, on rank 0, a table with the fastest algorithm for each operation, group and size that was measured in
// place, in communication memory. The algorithm changes from one size to the next only if the new algorithm is faster
// by more than 1 %, so that noise makes no rules.
func (r *Run) Tune() *collectives.TuningTable {
	rows := r.rep.Where(func(row *report.Measurement) bool {
		return (row.Memory == "arena" || row.Memory == "") && row.Algorithm != InC && row.Algorithm != Blocking &&
			row.Wrong == 0
	})
	m := r.rep.Machine
	t := &collectives.TuningTable{Schema: 1, Machine: fmt.Sprintf("%d ranks on %d nodes, %s %s, %s", m.Ranks, m.Nodes,
		m.Transport, m.Library, r.rep.Started.Format("2006-01-02"))}
	nodes := "one"
	if m.Nodes > 1 {
		nodes = "many"
	}
	// A rule holds for all groups that have at most its number of members, so small groups come first.
	slices.SortStableFunc(rows, func(a, b *report.Measurement) int { return a.Ranks - b.Ranks })
	type group struct {
		op    string
		ranks int
	}
	for g, rows := range report.Group(rows, func(row *report.Measurement) group { return group{row.Op, row.Ranks} }) {
		first := len(t.Rules)
		for size, rows := range report.BySize(rows) {
			// The fastest row counts, whatever its type. Among equally fast rows the first name counts.
			slices.SortFunc(rows, func(a, b *report.Measurement) int {
				return cmp.Or(cmp.Compare(a.Median, b.Median), cmp.Compare(a.Algorithm, b.Algorithm))
			})
			if n := len(t.Rules); n > first {
				last := &t.Rules[n-1]
				at := slices.IndexFunc(rows,
					func(row *report.Measurement) bool { return row.Algorithm == last.Algorithm })
				if at >= 0 && rows[0].Median > 0.99*rows[at].Median {
					last.Bytes = int(size)
					continue
				}
			}
			t.Rules = append(t.Rules, collectives.TuningRule{Kind: g.op, Members: g.ranks, Nodes: nodes,
				Bytes:     int(size),
				Algorithm: rows[0].Algorithm})
		}
		if n := len(t.Rules); n > first {
			t.Rules[n-1].Bytes = 0 // the last rule also holds for larger sizes
		}
	}
	return t
}
