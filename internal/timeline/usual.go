package timeline

import (
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// findExtras finds the iterations that have an evaluation or a checkpoint. The other iterations are usual, except for
// the first iteration of the attempt, which warms up. If all iterations have an evaluation or a checkpoint, all are
// usual.
func (e *evidence) findExtras() {
	e.extra = map[int64]bool{}
	for k, by := range e.sums {
		for i, sum := range by {
			if sum != nil && e.isExtra(i, sum) {
				e.extra[e.iterations[k]] = true
			}
		}
	}
	if len(e.extra) == len(e.iterations) {
		e.allExtra = len(e.extra) > 0
		clear(e.extra)
	}
}

// usual reports whether an iteration is usual. If there are no others, the first iteration is usual, too.
func (e *evidence) usual(iteration int64) bool {
	return !e.extra[iteration] && (iteration != e.first || len(e.iterations) == len(e.extra)+1)
}

// isExtra reports whether a worker evaluated or saved in an iteration.
func (e *evidence) isExtra(worker int, sum *trace.Sum) bool {
	sites := e.Workers[worker].Sites
	for i, ns := range sum.Times[:min(len(sum.Times), len(sites))] {
		if s := &sites[i]; ns > 0 && (s.Cause == trace.Saving || s.Name == evaluateCall) {
			return true
		}
	}
	return false
}

// evaluateCall is the name of the call in which workers evaluate, in every task.
const evaluateCall = "evaluate"

// usualShares returns the shares of the critical paths of all usual iterations. The typical windows show how the time
// at each site of rank 0's runner is divided. The sums give the total time at each site of this runner, over all usual
// iterations. windows is the number of windows. iterations is the number of iterations whose time is in the shares.
func (e *evidence) usualShares() (shares *Shares, iterations, windows int) {
	views := e.typical()
	paths := make([]*Path, len(views))
	for i, v := range views {
		paths[i] = v.criticalPath()
	}
	runner := e.runner(0)
	sums, n := e.usualTimes(runner)
	if n == 0 || !slices.ContainsFunc(views, func(v *view) bool { return v.first == runner }) {
		return SharesOf(e.Attempt, paths...), len(views), len(views)
	}
	kept := make([]int64, len(sums)) // the same times in the windows
	for _, v := range views {
		v.eachRunnerSpan(runner, func(site int, start, end int64) { kept[site] += end - start })
	}
	c := newCosts(e.Attempt)
	for i, v := range views {
		v.eachRunnerSpan(runner, func(site int, start, end int64) {
			for _, s := range paths[i].Segments {
				s.Start, s.End = max(s.Start, start), min(s.End, end)
				if s.Start < s.End {
					c.add(&s, float64(sums[site])/float64(kept[site]))
				}
			}
		})
	}
	for site, ns := range sums {
		if ns > 0 && kept[site] == 0 {
			s := e.site(runner, site)
			c.add(&Segment{Worker: runner, Op: s.Op, Name: s.Name, Cause: s.Cause, Kind: kindOf(true, &s), End: ns,
				Peer: none}, 1)
		}
	}
	return c.sorted(), n, len(views)
}

// usualTimes returns the nanoseconds of a worker at each of its sites, over all usual iterations, and the number of
// these iterations.
func (e *evidence) usualTimes(worker int) (times []int64, iterations int) {
	if worker == none {
		return nil, 0
	}
	times = make([]int64, len(e.Workers[worker].Sites))
	for k, by := range e.sums {
		if sum := by[worker]; sum != nil && e.usual(e.iterations[k]) {
			iterations++
			for i := range min(len(sum.Times), len(times)) {
				times[i] += sum.Times[i]
			}
		}
	}
	return times, iterations
}

// eachRunnerSpan calls f for the spans of rank 0's runner in the window. It cuts them at the start of the iteration.
func (v *view) eachRunnerSpan(runner int, f func(site int, start, end int64)) {
	if v.first != runner {
		return
	}
	for _, s := range v.tracks[runner].Spans {
		if s.Site >= 0 && s.Site < len(v.Workers[runner].Sites) && s.End > max(s.Start, v.start) {
			f(s.Site, max(s.Start, v.start), s.End)
		}
	}
}

// UsualShares returns the Shares of the critical paths of all usual iterations. Iterations with an evaluation or a
// checkpoint, and the first iteration, are not usual. Only iterations with a window have a path, so the paths are
// scaled to the time of all usual iterations. windows is the number of windows. iterations is the number of iterations
// whose time is in the Shares.
func UsualShares(a *trace.Attempt) (shares *Shares, iterations, windows int) {
	return newEvidence(a).usualShares()
}

// Unusual returns the iterations that are not usual. If all have an evaluation or a checkpoint, there are none.
func Unusual(a *trace.Attempt) map[int64]bool { return newEvidence(a).extra }

// phaseNames has the names of the phases in Phases. Entry 0, the whole step, has no name.
var phaseNames = [trace.NumPhases]string{1: "sending weights", 2: "making rollouts", 3: "computing advantages",
	4: "training", evaluating: "evaluating"}

const evaluating = trace.NumPhases - 1

// A phaseTimes has the time of each phase on its slowest rank, summed over iterations.
type phaseTimes [trace.NumPhases]float64

func (t *phaseTimes) add(p *trace.Phases) {
	for k := range t {
		longest := p.Median[k]
		for _, r := range p.Ranks {
			longest = max(longest, r[k])
		}
		for _, r := range p.Slowest {
			longest = max(longest, r.Times[k])
		}
		t[k] += float64(longest)
	}
}

// share returns the share of a phase, from 0 to 1.
func (t *phaseTimes) share(phase int) float64 {
	if t[0] == 0 {
		return 0
	}
	return min(t[phase]/t[0], 1)
}

// phaseTimes returns the times of phases in usual iterations, and in all iterations.
func (e *evidence) phaseTimes() (usual, all phaseTimes) {
	for i := range e.Phases {
		var one phaseTimes
		one.add(&e.Phases[i])
		for k, s := range one {
			all[k] += s
			if one[evaluating] == 0 && e.Phases[i].Iteration != e.first { // the phases leave out checkpoints
				usual[k] += s
			}
		}
	}
	if usual[0] == 0 {
		usual = all
	}
	return usual, all
}

// savingShare returns the share of the run's time in which rank 0 saved checkpoints.
func (e *evidence) savingShare() float64 {
	return e.share(e.sums, trace.Runner, func(s *trace.Site) bool { return s.Cause == trace.Saving })
}
