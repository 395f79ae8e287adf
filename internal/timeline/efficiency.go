package timeline

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/rlinf/rlinf/internal/trace"
)

// An Efficiency is the parallel efficiency of a component, in the terms of POP (Performance Optimisation and
// Productivity). Useful time is the time of work.
type Efficiency struct {
	Component string
	Workers   int
	LB        float64 // load balance: mean useful time / largest useful time, at most 1
	Comm      float64 // communication efficiency: largest useful time / total time
	PE        float64 // parallel efficiency: LB · Comm
	Busiest   int     // worker with the largest useful time
}

// Efficiencies returns the efficiency of each component over all iterations. It leaves out components without work.
func Efficiencies(a *trace.Attempt) (all []Efficiency) {
	times, _ := siteTimes(a)
	useful, totals := make([]float64, len(a.Workers)), make([]float64, len(a.Workers))
	lent := loans(a, times)
	byComponent := map[string][]float64{} // useful times of the members
	at := map[string]int{}
	for i, w := range a.Workers {
		for site, ns := range times[i] {
			totals[i] += seconds(ns)
			if w.Sites[site].Cause == trace.Working {
				useful[i] += seconds(ns)
			}
		}
		for _, l := range lent {
			switch i {
			case l.by:
				useful[i] -= seconds(l.ns)
			case l.of:
				useful[i] += seconds(l.ns)
			}
		}
		byComponent[w.Component] = append(byComponent[w.Component], useful[i])
		e := entry(&all, at, w.Component, Efficiency{Component: w.Component, Busiest: i})
		e.Workers++
		if useful[i] > useful[e.Busiest] {
			e.Busiest = i
		}
	}
	total := 0.0
	if r := newIndex(a).runner(0); r != none {
		total = totals[r]
	}
	if total == 0 && len(totals) > 0 {
		total = slices.Max(totals)
	}
	for i := range all {
		if most := useful[all[i].Busiest]; most > 0 && total > 0 {
			all[i].LB, all[i].Comm = stat.Mean(byComponent[all[i].Component], nil)/most, most/total
			all[i].PE = all[i].LB * all[i].Comm
		}
	}
	return slices.DeleteFunc(all, func(e Efficiency) bool { return e.PE == 0 })
}
