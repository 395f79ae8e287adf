package bench

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
)

// Tune returns the table of the fastest algorithm for each operation, group and size that was
// measured in place, in communication memory; rank 0's. An algorithm must be faster than the one of
// the next smaller size by a hundredth to take its place, so that noise makes no rules.
func (r *Run) Tune() *collectives.Table {
	type group struct {
		op    string
		ranks int
	}
	type choice struct {
		size  int64
		times map[string]float64
	}
	var order []group
	all := map[group][]choice{}
	for _, row := range r.rep.Rows {
		if row.Memory != "arena" && row.Memory != "" || row.Algorithm == InC || row.Algorithm == Blocking ||
			row.Wrong > 0 {
			continue
		}
		g := group{row.Op, row.Ranks}
		if all[g] == nil {
			order = append(order, g)
		}
		at := slices.IndexFunc(all[g], func(c choice) bool { return c.size == row.Size })
		if at < 0 {
			at = len(all[g])
			all[g] = append(all[g], choice{row.Size, map[string]float64{}})
		}
		if old, ok := all[g][at].times[row.Algorithm]; !ok || row.Median < old { // of several types the fastest
			all[g][at].times[row.Algorithm] = row.Median
		}
	}
	m := r.rep.Machine
	t := &collectives.Table{Schema: 1, Machine: fmt.Sprintf("%d ranks on %d nodes, %s %s, %s", m.Ranks, m.Nodes,
		m.Transport, m.Library, r.rep.Started.Format("2006-01-02"))}
	nodes := "one"
	if m.Nodes > 1 {
		nodes = "many"
	}
	// A rule holds for groups of so many members or fewer, so small groups come first.
	slices.SortStableFunc(order, func(a, b group) int { return a.ranks - b.ranks })
	for _, g := range order {
		choices := all[g]
		slices.SortFunc(choices, func(a, b choice) int { return int(min(1, max(-1, a.size-b.size))) })
		first := len(t.Rules)
		for _, c := range choices {
			best := ""
			for name, time := range c.times {
				if best == "" || time < c.times[best] || time == c.times[best] && name < best {
					best = name
				}
			}
			if n := len(t.Rules); n > first {
				last := &t.Rules[n-1]
				if old, ok := c.times[last.Algorithm]; ok && c.times[best] > 0.99*old {
					last.Bytes = int(c.size)
					continue
				}
			}
			t.Rules = append(t.Rules, collectives.Rule{Kind: g.op, Members: g.ranks, Nodes: nodes, Bytes: int(c.size),
				Algorithm: best})
		}
		if n := len(t.Rules); n > first {
			t.Rules[n-1].Bytes = 0 // the last holds for what is larger too
		}
	}
	return t
}
