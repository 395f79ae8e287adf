package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// bound returns a finding about the largest share of the critical paths: busy time of a component, transfers, or time
// without an explanation. It returns nil if there are no paths.
func (e *evidence) bound() *Finding {
	var paths []*Path
	for _, v := range e.typical() {
		paths = append(paths, v.criticalPath())
	}
	r := SharesOf(e.Attempt, paths...)
	total := r.Total.Total()
	if total == 0 {
		return nil
	}
	f := &Finding{Rule: Bound, Worker: none, Peer: none}
	busiest := slices.MaxFunc(r.Components, func(a, b ComponentCost) int {
		return cmp.Compare(a.Cost.Busy, b.Cost.Busy)
	})
	advice := ""
	switch most := max(busiest.Cost.Busy, r.Total.Transfer, r.Total.Wait+r.Total.Unknown); most {
	case busiest.Cost.Busy:
		f.Component, f.Share = busiest.Component, most/total
		s := largestSite(r, func(s SiteCost) float64 {
			if s.Component != f.Component {
				return 0
			}
			return s.Cost.Busy
		})
		f.Text = fmt.Sprintf("%s bounded this run: %s of the critical path is %s", upper(workers(f.Component)),
			percent(s.Cost.Busy/total), siteName(s))
		if rest := f.Share - s.Cost.Busy/total; rest >= 0.005 {
			f.Text += fmt.Sprintf(", and %s is other work of theirs", percent(rest))
		}
		advice, f.Key = e.busyAdvice(r, s)
		f.Text += "; " + advice + "."
	case r.Total.Transfer:
		f.Share = most / total
		s := largestSite(r, func(s SiteCost) float64 { return s.Cost.Transfer })
		f.Component = s.Component
		f.Text = fmt.Sprintf("Transfers bounded this run: they are %s of the critical path, and those of %s to %s are "+
			"%s", percent(f.Share), siteName(s), workers(f.Component), percent(s.Cost.Transfer/total))
		advice, f.Key = transferAdvice(s)
		f.Text += "; " + advice + "."
	default:
		f.Share = most / total
		s := largestSite(r, func(s SiteCost) float64 { return s.Cost.Wait + s.Cost.Unknown })
		f.Component = s.Component
		f.Text = fmt.Sprintf("The trace does not explain %s of the critical path; %s have most of that time (%s).",
			percent(f.Share), workers(f.Component), s.Cause)
	}
	return f
}

// siteName returns the name of a site for the text of a finding.
func siteName(s SiteCost) string {
	if s.Name != "" {
		return s.Name
	}
	return "other work" // a runner between calls
}

// typical returns the windows that represent the whole run best: the windows that were kept at regular intervals, or
// else the first iterations, or else all windows. If there are other windows, it leaves out the first iteration of the
// attempt, because this iteration warms up.
func (e *evidence) typical() []*view {
	first := e.firstIteration()
	for _, reasons := range [][]trace.Reason{{trace.Regular, trace.All}, {trace.First}} {
		var some []*view
		for _, v := range e.views {
			if slices.Contains(reasons, v.window.Why) {
				some = append(some, v)
			}
		}
		if len(some) > 1 {
			some = slices.DeleteFunc(some, func(v *view) bool { return v.window.Iteration == first })
		}
		if len(some) > 0 {
			return some
		}
	}
	return e.views
}

// largestSite returns the site with the largest cost.
func largestSite(r *Shares, cost func(SiteCost) float64) SiteCost {
	return slices.MaxFunc(r.Sites, func(a, b SiteCost) int { return cmp.Compare(cost(a), cost(b)) })
}

// Thresholds of the advice to overlap two components. Both components must have at least this share of the critical
// path.
const (
	overlapTraining = 0.20 // for actors and rollouts
	overlapStages   = 0.10 // for env workers and rollout workers
)

// busyAdvice returns advice for a critical path whose largest part is work at site s, and the key to change. The key is
// "" if no key helps.
func (e *evidence) busyAdvice(r *Shares, s SiteCost) (text, key string) {
	busy := func(components ...string) (share float64) {
		for _, c := range r.Components {
			if slices.Contains(components, c.Component) {
				share += c.Cost.Busy / r.Total.Total()
			}
		}
		return share
	}
	switch producing := busy("env", "rollout"); {
	case s.Cause == trace.Saving:
		return "save less often (" + saveKey + ")", saveKey
	case s.Component == trace.Runner:
		return "no key changes that", ""
	case slices.Contains([]string{"env", "rollout", "actor"}, s.Component) && !e.async() &&
		busy("env") > 0 && busy("actor") >= overlapTraining && producing >= overlapTraining:
		return "let rollouts and training overlap (" + asyncKey + ": true), or give " + s.Component +
			" more ranks (" + placementKey + ")", asyncKey
	case (s.Component == "env" || s.Component == "rollout") && min(busy("env"), busy("rollout")) >= overlapStages:
		return "let env and rollout overlap by more stages (" + stagesKey + "), or give " + s.Component +
			" more ranks (" + placementKey + ")", stagesKey
	}
	return "give " + s.Component + " more ranks (" + placementKey + ")", placementKey
}

// transferAdvice returns advice for a critical path whose largest part is transfers at site s, and the key to change.
func transferAdvice(s SiteCost) (text, key string) {
	switch s.Op {
	case trace.Collect:
		return "try " + reduceKey + ": fast, or fewer ranks for " + s.Component + " (" + placementKey + ")", reduceKey
	case trace.Vote:
		return "fewer ranks need less time to agree (" + placementKey + ")", placementKey
	}
	return "place both ends on the same ranks (" + placementKey + ")", placementKey
}
