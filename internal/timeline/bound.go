package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/trace"
)

// bound returns a finding about what takes most of the time: evaluations, checkpoints, or the largest share of the
// critical paths of usual iterations (busy time of a component, transfers, or time without an explanation). It returns
// nil if there are no paths.
func (e *evidence) bound() *Finding {
	r, _, _ := e.usualShares()
	total := r.Total.Total()
	if total == 0 {
		return nil
	}
	usual, all := e.phaseTimes()
	if f := e.boundByExtras(all.share(evaluating), e.savingShare()); f != nil {
		return f
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
		f.Text = fmt.Sprintf("%s bounded this run: %s%s of the critical path is %s", upper(workers(f.Component)),
			e.phaseClause(&usual), figures.Percent(s.Cost.Busy/total), siteName(s))
		if rest := f.Share - s.Cost.Busy/total; rest >= 0.005 {
			f.Text += fmt.Sprintf(", and %s is other work of theirs", figures.Percent(rest))
		}
		if advice, f.Key = e.busyAdvice(r, s); e.crowded && s.Cause != trace.Saving {
			advice, f.Key = crowdAdvice, placementKey
		}
		f.Text += "; " + advice + e.extrasClause(&all) + "."
	case r.Total.Transfer:
		f.Share = most / total
		s := largestSite(r, func(s SiteCost) float64 { return s.Cost.Transfer })
		f.Component = s.Component
		bound := "Transfers"
		if advice, f.Key = transferAdvice(s); e.crowded { // a message arrives when its reader has a core
			bound, f.Key = "Waits for a core", placementKey
			advice = "ranks take turns while they send and receive; " + crowdAdvice
		}
		f.Text = fmt.Sprintf("%s bounded this run: %stransfers are %s of the critical path, and those of %s to "+
			"%s are %s", bound, e.phaseClause(&usual), figures.Percent(f.Share), siteName(s), workers(f.Component),
			figures.Percent(s.Cost.Transfer/total))
		f.Text += "; " + advice + e.extrasClause(&all) + "."
	default:
		f.Share = most / total
		s := largestSite(r, func(s SiteCost) float64 { return s.Cost.Wait + s.Cost.Unknown })
		f.Component = s.Component
		f.Text = fmt.Sprintf("The trace does not explain %s of the critical path; %s have most of that time (%s)%s.",
			figures.Percent(f.Share), workers(f.Component), s.Cause, e.extrasClause(&all))
	}
	return f
}

// Thresholds of evaluations and checkpoints, as shares of the time of the run.
const (
	extrasBound = 0.50 // they bound the run
	extrasShare = 0.05 // the sentence about the bound mentions them
)

// boundByExtras returns a finding if evaluations or checkpoints take most of the time. Otherwise it returns nil.
func (e *evidence) boundByExtras(evaluations, saves float64) *Finding {
	f := &Finding{Rule: Bound, Worker: none, Peer: none, Share: max(evaluations, saves)}
	switch {
	case f.Share < extrasBound:
		return nil
	case evaluations >= saves:
		f.Key = evaluateKey
		f.Text = fmt.Sprintf("Evaluations bounded this run: they are %s of the time; evaluate less often (%s), or "+
			"fewer episodes.", figures.Percent(evaluations), f.Key)
	default:
		f.Key = saveKey
		f.Text = fmt.Sprintf("Checkpoints bounded this run: they are %s of the time; save less often (%s).",
			figures.Percent(saves), f.Key)
	}
	return f
}

// phaseClause names the largest of the phases of metrics.jsonl in usual iterations. It returns "" if there are no
// phases.
func (e *evidence) phaseClause(t *phaseTimes) string {
	largest := 1
	for k := 2; k < len(t); k++ {
		if t[k] > t[largest] {
			largest = k
		}
	}
	if t[largest] == 0 {
		return ""
	}
	of := "the iterations"
	switch {
	case e.allExtra:
		of = "the iterations (each has an evaluation or a checkpoint)"
	case len(e.extra) > 0:
		of = "usual iterations (without evaluation and checkpoint)"
	}
	return fmt.Sprintf("%s is %s of the time of %s, and ", phaseNames[largest], figures.Percent(t.share(largest)), of)
}

// extrasClause says how much of the time evaluations and checkpoints take. It returns "" if they take little.
func (e *evidence) extrasClause(all *phaseTimes) (text string) {
	if s := all.share(evaluating); s >= extrasShare {
		text += fmt.Sprintf("; evaluations are %s of all time", figures.Percent(s))
	}
	if s := e.savingShare(); s >= extrasShare {
		text += fmt.Sprintf("; checkpoints are %s of all time", figures.Percent(s))
	}
	return text
}

// crowdAdvice is the advice for ranks that share fewer cores than there are ranks. More ranks, or more work at a time,
// cannot help them.
const crowdAdvice = "more cores help, or fewer ranks (" + placementKey + ")"

// fullAdvice is the advice for a component on all ranks if these fill the cores. Neither more ranks nor work at the
// same time can help it.
const fullAdvice = "all ranks do that, and they fill the cores: more cores help"

// siteName returns the name of a site for the text of a finding.
func siteName(s SiteCost) string {
	if s.Name != "" {
		return s.Name
	}
	return "other work" // a runner between calls
}

// typical returns the windows that best represent the usual iterations of the whole run. These are the windows that
// were kept at regular intervals. If there are none, they are the windows of the first iterations, or else all windows.
// If there are other windows, typical leaves out the first iteration of the attempt, because this iteration warms up.
func (e *evidence) typical() []*view {
	usual := slices.DeleteFunc(slices.Clone(e.views), func(v *view) bool { return e.extra[v.window.Iteration] })
	for _, reasons := range [][]trace.Reason{{trace.Regular, trace.All}, {trace.First}} {
		var some []*view
		for _, v := range usual {
			if slices.Contains(reasons, v.window.Why) {
				some = append(some, v)
			}
		}
		if len(some) > 1 {
			some = slices.DeleteFunc(some, func(v *view) bool { return v.window.Iteration == e.first })
		}
		if len(some) > 0 {
			return some
		}
	}
	if len(usual) > 0 {
		return usual
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
	case e.fills(s.Component):
		return fullAdvice, ""
	case slices.Contains([]string{"env", "rollout", "actor"}, s.Component) && !e.async() &&
		busy("env") > 0 && busy("actor") >= overlapTraining && producing >= overlapTraining:
		return "let rollouts and training overlap (" + asyncKey + ": true, with " + stalenessKey + "), or give " +
			s.Component + " more ranks (" + placementKey + ")", asyncKey
	case (s.Component == "env" || s.Component == "rollout") && min(busy("env"), busy("rollout")) >= overlapStages:
		return "let env and rollout overlap by more stages (" + stagesKey + "), or give " + s.Component +
			" more ranks (" + placementKey + ")", stagesKey
	}
	who := s.Component
	if who == "rollout" && s.Name == "simulate" { // rollout workers step the environments of their ranks
		who = "env and rollout"
	}
	return "give " + who + " more ranks (" + placementKey + ")", placementKey
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
