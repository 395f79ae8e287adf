package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/trace"
)

// A Finding is a sentence about a run.
type Finding struct {
	Kind  Severity
	Rule  Rule
	Text  string  // one sentence for the user
	Share float64 // fraction of the time, from 0 to 1; see Rule
	Key   string  // configuration key to change, or ""
	// The subject. The rule determines which of these fields are set.
	Component string
	Worker    int   // index in Attempt.Workers, or -1
	Peer      int   // the receiver of a link: index in Attempt.Workers, or -1
	Iteration int64 // 0 for all iterations
}

// A Severity separates faults from mere descriptions.
type Severity uint8

// The kinds of findings.
const (
	Description Severity = iota // describes the run; it is no fault
	Fault                       // a rule is above its threshold
)

// A Rule names the rule of a Finding.
type Rule string

// The rules, and the time that Share measures.
const (
	// SlowRank: a member needs longer for its work than the other members of its component. Share is the time beyond
	// the median of the other members.
	SlowRank Rule = "slow rank"
	// SlowLink: items take longer from one worker to another than on the channel's other links. Share is the time in
	// which the receiver waits for items on their way.
	SlowLink Rule = "slow link"
	// Room: a component waits for room in a channel. Share is the fraction of its workers' time spent on this wait.
	Room Rule = "room"
	// Staleness: workers of an asynchronous run wait, because their data would become too old. Share is the fraction of
	// their time spent on this wait.
	Staleness Rule = "staleness"
	// Stall: a step of an environment took very long once. Share is the fraction of the iteration spent on this step.
	Stall Rule = "stall"
	// Bound: the component or kind of time that takes most of the critical path. Share is its fraction of the path.
	Bound Rule = "bound"
	// NoFault: no rule found a fault. Share is 0.
	NoFault Rule = "no fault"
)

// Thresholds of the rules.
const (
	// MostFindings is the maximum number of findings.
	MostFindings = 5

	// The rules that use sums need at least this number of iterations with sums.
	fewestIterations = 3

	// A rank is slow in an iteration if its work takes at least (1 + slowExcess) times the median of the other members.
	// This is a fault if the rank is slow in at least a fraction slowIterations of all iterations, and if its mean
	// excess is at least a fraction slowShare of an iteration.
	slowExcess     = 0.10
	slowIterations = 0.80
	slowShare      = 0.01

	// A link is slow if its median transfer takes at least linkFactor times the median of the other links of its
	// channel. Its receiver must also wait for transfers for at least a fraction linkShare of an iteration.
	linkFactor = 3
	linkShare  = 0.05
	// A link counts if its receiver waited for at least linkItems items, and for at least a fraction linkWaits of all
	// items. Waits below linkWait nanoseconds do not count.
	linkWaits = 0.25
	linkItems = 3
	linkWait  = 10_000

	// A component lacks room or weights if these waits take at least a fraction roomShare of its time. This is a fault
	// if the workers at the other end wait for items for at least the same fraction of their time. Otherwise the
	// workers at the other end bound the run, and more room cannot help.
	roomShare = 0.05

	// An environment stalled if one span of its work took at least stallFactor times the median of its spans in other
	// windows, and at least a fraction stallShare of the iteration. If more than a fraction stallWindows of all windows
	// have such a span, none of these spans is a stall. The first iteration of an attempt does not count.
	stallFactor  = 5
	stallShare   = 0.20
	stallWindows = 0.20
	// If ranks share cores, a span of at least crowdedStall seconds is a stall. Shorter spans may wait for a core.
	crowdedStall = 1.0
)

// A CoreUse says how the ranks of an attempt use the cores of their hosts.
type CoreUse int

// The uses of cores.
const (
	Spare   CoreUse = iota // a host has more cores than ranks, or the cores are not known
	Full                   // each host has as many ranks as cores
	Crowded                // ranks share fewer cores than there are ranks
)

// Conclude returns what bounded a run, in at most MostFindings sentences. load returns the CoreUse of an attempt. A nil
// load means Spare. In a Crowded attempt the scheduler makes ranks, links and steps slow, so Conclude does not blame
// them, and gives no advice to use more ranks. In a Full attempt it gives no such advice for a component on all ranks.
// Faults come first, in descending order of Share. The next finding is the Description of the critical path in the
// attempt with the most iterations. Other Descriptions follow. If there is no fault and no crowd, the last finding is
// NoFault. A trace without sums and windows gives no finding.
func Conclude(attempts []trace.Attempt, load func(*trace.Attempt) CoreUse) []Finding {
	var faults, others, bound []Finding
	iterations, judged, crowds := 0, false, false
	for i := range attempts {
		e := newEvidence(&attempts[i])
		if load != nil {
			e.load = load(&attempts[i])
		}
		e.crowded = e.load == Crowded
		crowds = crowds || e.crowded
		if len(e.iterations) == 0 && len(e.views) == 0 {
			continue
		}
		judged = true
		for _, rule := range []func(*evidence) []Finding{(*evidence).slowRanks, (*evidence).slowLinks,
			(*evidence).shortRoom, (*evidence).staleness, (*evidence).stalls} {
			for _, f := range rule(e) {
				if f.Kind == Fault {
					faults = append(faults, f)
				} else {
					others = append(others, f)
				}
			}
		}
		if n := max(len(e.iterations), len(e.views)); n > iterations {
			if b := e.bound(); b != nil {
				iterations, bound = n, []Finding{*b}
			}
		}
	}
	if !judged {
		return nil
	}
	largest := func(a, b Finding) int { return cmp.Compare(b.Share, a.Share) }
	slices.SortStableFunc(faults, largest)
	slices.SortStableFunc(others, largest)
	faults, others = removeRepeats(faults), removeRepeats(others)
	if len(faults) == 0 && !crowds {
		others = others[:min(len(others), MostFindings-len(bound)-1)]
		return slices.Concat(bound, others, []Finding{{Rule: NoFault, Worker: none, Peer: none,
			Text: "No fault was found: every rule is below its threshold."}})
	}
	faults = faults[:min(len(faults), MostFindings-len(bound))]
	all := slices.Concat(faults, bound, others)
	return all[:min(len(all), MostFindings)]
}

// removeRepeats removes findings that repeat the finding of another attempt.
func removeRepeats(list []Finding) []Finding {
	seen := map[Finding]bool{}
	return slices.DeleteFunc(list, func(f Finding) bool {
		subject := Finding{Rule: f.Rule, Component: f.Component, Worker: f.Worker, Peer: f.Peer, Iteration: f.Iteration}
		again := seen[subject]
		seen[subject] = true
		return again
	})
}

// An evidence is the data of an attempt for the rules.
type evidence struct {
	*index
	load       CoreUse
	crowded    bool           // load is Crowded
	iterations []int64        // iterations with sums, in their order
	lengths    []float64      // lengths of these iterations, in seconds
	sums       [][]*trace.Sum // by iteration and worker; nil if there is none
	views      []*view        // the windows whose length is > 0
	extra      map[int64]bool // iterations that are not usual, because they have an evaluation or a checkpoint
	first      int64          // the first iteration of the attempt
	allExtra   bool           // all iterations have an evaluation or a checkpoint, and extra is empty
}

func newEvidence(a *trace.Attempt) *evidence {
	e := &evidence{index: newIndex(a)}
	at := map[int64]int{}
	for i := range a.Sums {
		s := &a.Sums[i]
		if s.Worker < 0 || s.Worker >= len(a.Workers) {
			continue
		}
		k, ok := at[s.Iteration]
		if !ok {
			k = len(e.sums)
			at[s.Iteration], e.iterations = k, append(e.iterations, s.Iteration)
			e.sums = append(e.sums, make([]*trace.Sum, len(a.Workers)))
		}
		e.sums[k][s.Worker] = s
	}
	first := e.runner(0) // the length of an iteration is the time of this runner, or else of the busiest worker
	for _, by := range e.sums {
		length := int64(0)
		for i, s := range by {
			if s == nil || first != none && by[first] != nil && i != first {
				continue
			}
			all := int64(0)
			for _, t := range s.Times {
				all += t
			}
			length = max(length, all)
		}
		e.lengths = append(e.lengths, seconds(length))
	}
	for i := range a.Windows {
		if v := e.view(&a.Windows[i]); v.end > v.start {
			e.views = append(e.views, v)
		}
	}
	e.first = e.firstIteration()
	e.findExtras()
	return e
}

// firstIteration returns the first iteration of the attempt.
func (e *evidence) firstIteration() int64 {
	first := int64(math.MaxInt64)
	for _, v := range e.views {
		first = min(first, v.window.Iteration)
	}
	for _, i := range e.iterations {
		first = min(first, i)
	}
	return first
}

// async reports whether the run was asynchronous. Only then do rollout workers have a call "produce".
func (e *evidence) async() bool {
	return slices.ContainsFunc(e.Workers, func(w trace.Lane) bool {
		return slices.ContainsFunc(w.Sites, func(s trace.Site) bool {
			return s.Op == trace.Call && s.Name == "produce"
		})
	})
}

// fills reports whether a component is on all ranks, and the ranks fill the cores.
func (e *evidence) fills(component string) bool {
	on := map[int]bool{}
	for _, w := range e.Workers {
		if w.Component == component {
			on[w.Rank] = true
		}
	}
	return e.load == Full && len(on) == e.Ranks
}

// name describes a worker: "env 3 (rank 3, host a)".
func (e *evidence) name(worker int) string {
	w := &e.Workers[worker]
	host := ""
	if w.Node >= 0 && w.Node < len(e.Hosts) {
		host = ", host " + e.Hosts[w.Node]
	}
	return fmt.Sprintf("%s %d (rank %d%s)", w.Component, w.Member, w.Rank, host)
}

// workers names the workers of a component: "the env workers".
func workers(component string) string {
	switch component {
	case trace.Runner, "actor":
		return "the " + component + "s"
	}
	return "the " + component + " workers"
}

// upper returns text with its first letter in upper case.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
