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

// Efficiencies returns the efficiency of each component over the iterations from first to last, both included.
// Components without work are left out.
func Efficiencies(a *trace.Attempt, first, last int64) []Efficiency {
	useful := make([]float64, len(a.Workers))
	all := make([]float64, len(a.Workers))
	for i := range a.Sums {
		s := &a.Sums[i]
		if s.Iteration < first || s.Iteration > last || s.Worker < 0 || s.Worker >= len(a.Workers) {
			continue
		}
		sites := a.Workers[s.Worker].Sites
		for site := range min(len(s.Times), len(sites)) {
			all[s.Worker] += seconds(s.Times[site])
			if sites[site].Cause == trace.Working {
				useful[s.Worker] += seconds(s.Times[site])
			}
		}
	}
	total := 0.0
	if r := newIndex(a).runner(0); r != none {
		total = all[r]
	}
	if total == 0 && len(all) > 0 {
		total = slices.Max(all)
	}
	return efficiencies(a, useful, total)
}

// efficiencies computes the efficiency of each component from the useful times of its workers.
func efficiencies(a *trace.Attempt, useful []float64, total float64) (all []Efficiency) {
	var times [][]float64
	at := map[string]int{}
	for i := range a.Workers {
		c := a.Workers[i].Component
		if all = grow(all, at, c, Efficiency{Component: c, Busiest: i}); len(times) < len(all) {
			times = append(times, nil)
		}
		e := &all[at[c]]
		e.Workers++
		if useful[i] > useful[e.Busiest] {
			e.Busiest = i
		}
		times[at[c]] = append(times[at[c]], useful[i])
	}
	for i := range all {
		if most := useful[all[i].Busiest]; most > 0 && total > 0 {
			all[i].LB, all[i].Comm = stat.Mean(times[i], nil)/most, most/total
			all[i].PE = all[i].LB * all[i].Comm
		}
	}
	return slices.DeleteFunc(all, func(e Efficiency) bool { return e.PE == 0 })
}
