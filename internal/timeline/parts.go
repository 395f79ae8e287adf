package timeline

import "github.com/rlinf/rlinf/internal/trace"

// A part is a part of a worker's work that has no spans of its own, only sums of times.
type part struct {
	name, of string  // names of the part and of the whole work
	share    float64 // share of the work's time without the earlier parts
}

// isPart reports whether a site has the time of a part of other work. Its Key names that work.
func isPart(s *trace.Site) bool { return s.Op == trace.Work && s.Key != "" }

// partsOf returns the parts of the work of each worker, with their shares over all iterations.
func partsOf(a *trace.Attempt) map[int][]part {
	all := map[int][]part{}
	var times [][]int64
	for i := range a.Workers {
		sites := a.Workers[i].Sites
		for k := range sites {
			if !isPart(&sites[k]) {
				continue
			}
			if times == nil {
				times, _ = siteTimes(a)
			}
			whole := int64(0) // time of this part, of the parts after it, and of the rest
			for j := range sites {
				if s := &sites[j]; s.Op == trace.Work && (s.Key == "" && s.Name == sites[k].Key || j >= k &&
					s.Key == sites[k].Key) {
					whole += times[i][j]
				}
			}
			if whole > 0 {
				all[i] = append(all[i], part{sites[k].Name, sites[k].Key, float64(times[i][k]) / float64(whole)})
			}
		}
	}
	return all
}

// bookkeeping is the name for the time of a work that belongs to none of its parts.
const bookkeeping = "bookkeeping"

// A loan is time in which a worker (by) did the work of another worker (of) on the same rank. For example, a rollout
// worker that steps environments does the work of the env worker.
type loan struct {
	by, of int
	ns     int64
}

// loans returns the loans of all iterations. A loan is at most the idle time of the worker whose work it is.
func loans(a *trace.Attempt, times [][]int64) (all []loan) {
	x := newIndex(a)
	for i := range a.Workers {
		for k := range a.Workers[i].Sites {
			s := &a.Workers[i].Sites[k]
			if !isPart(s) || s.Peer == "" || times[i][k] == 0 {
				continue
			}
			for _, j := range x.byRank[a.Workers[i].Rank] {
				if a.Workers[j].Component != s.Peer {
					continue
				}
				idle := int64(0)
				for site, ns := range times[j] {
					if a.Workers[j].Sites[site].Cause == trace.Idling {
						idle += ns
					}
				}
				all = append(all, loan{i, j, min(times[i][k], idle)})
				break
			}
		}
	}
	return all
}
