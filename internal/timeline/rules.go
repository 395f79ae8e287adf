package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/trace"
)

// Configuration keys that findings name.
const (
	placementKey = "cluster.component_placement"
	asyncKey     = "runner.async"
	stagesKey    = "rollout.pipeline_stage_num"
	stalenessKey = "algorithm.staleness_threshold"
	drainKey     = "actor.recv_drain_max_trajectories"
	saveKey      = "runner.save_interval"
	evaluateKey  = "runner.val_check_interval"
	reduceKey    = "comm.reduce"
)

// slowRanks finds members whose work takes longer than the same work of other members in nearly all iterations. Share
// is the mean excess as a fraction of an iteration. slowRanks reports only the slowest member for each kind of work,
// and each rank once.
func (e *evidence) slowRanks() (found []Finding) {
	if len(e.iterations) < fewestIterations || e.crowded {
		return nil
	}
	length := stat.Mean(e.lengths, nil)
	for _, g := range e.works() {
		paces := e.paces(g.spots)
		worst, slows := 0, 0
		for m, p := range paces {
			if length > 0 && p.isSlow() && p.meanExcess() >= slowShare*length {
				if slows++; slows == 1 || p.excess > paces[worst].excess {
					worst = m
				}
			}
		}
		if slows == 0 {
			continue
		}
		at, slow := g.spots[worst].worker, paces[worst]
		text := fmt.Sprintf("Rank %d is slow: %s takes %s longer on %s than the median of the others, in %s of the "+
			"iterations", e.Workers[at].Rank, g.name, figures.Percent(slow.excess/slow.median), e.name(at),
			figures.Percent(float64(slow.over)/float64(slow.seen)))
		if slows > 1 {
			text += fmt.Sprintf(" (%d of %d members are slow)", slows, len(g.spots))
		}
		found = append(found, Finding{Kind: Fault, Rule: SlowRank, Component: g.component, Worker: at, Peer: none,
			Share: slow.meanExcess() / length, Key: placementKey,
			Text: text + "; look for other load on its host, or use another host (" + placementKey + ")."})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(b.Share, a.Share) })
	ranks := map[int]bool{}
	return slices.DeleteFunc(found, func(f Finding) bool {
		rank := e.Workers[f.Worker].Rank
		again := ranks[rank]
		ranks[rank] = true
		return again
	})
}

// A work is a kind of work that several members of a component do, such as "simulate".
type work struct {
	component, name string
	spots           []spot
}

// works returns the kinds of work that several members of a component do.
func (e *evidence) works() []work {
	type key struct{ component, name string }
	var all []work
	at := map[key]int{}
	for i := range e.Workers {
		w := &e.Workers[i]
		for s := range w.Sites {
			if w.Sites[s].Op != trace.Work {
				continue
			}
			k := key{w.Component, w.Sites[s].Name}
			of := entry(&all, at, k, work{component: k.component, name: k.name})
			of.spots = append(of.spots, spot{i, s})
		}
	}
	return slices.DeleteFunc(all, func(w work) bool { return len(w.spots) < 2 })
}

// A pace compares a member with the other members that do the same work.
type pace struct {
	seen, over     int     // iterations with the member, and iterations in which it was slow
	excess, median float64 // sums over the iterations: the member's time minus the others' median, and this median
}

func (p pace) isSlow() bool {
	return p.seen >= fewestIterations && float64(p.over) >= slowIterations*float64(p.seen) && p.median > 0
}

// meanExcess returns the excess, as a mean over the iterations with the member.
func (p pace) meanExcess() float64 { return p.excess / float64(p.seen) }

// paces compares the members that do the work at spots, over all iterations.
func (e *evidence) paces(spots []spot) []pace {
	paces := make([]pace, len(spots))
	var times, sorted []float64
	var members []int // index in spots of each value of times
	for _, sums := range e.sums {
		times, members = times[:0], members[:0]
		for m, at := range spots {
			if s := sums[at.worker]; s != nil && at.site < len(s.Times) {
				times, members = append(times, seconds(s.Times[at.site])), append(members, m)
			}
		}
		if len(times) < 2 {
			continue
		}
		sorted = append(sorted[:0], times...)
		slices.Sort(sorted)
		for i, m := range members {
			p, others := &paces[m], medianWithout(sorted, times[i])
			p.seen++
			p.excess += times[i] - others
			p.median += others
			if times[i] >= (1+slowExcess)*others && times[i] > 0 {
				p.over++
			}
		}
	}
	return paces
}

// medianWithout returns the median of sorted values after one value x is removed.
func medianWithout(sorted []float64, x float64) float64 {
	out, _ := slices.BinarySearch(sorted, x)
	at := func(i int) float64 {
		if i >= out {
			i++
		}
		return sorted[i]
	}
	n := len(sorted) - 1
	return (at((n-1)/2) + at(n/2)) / 2
}

// A link collects the transfer times of a channel's items from one worker to another.
type link struct {
	channel  string
	from, to int
	items    int       // number of received items whose put is known
	times    []float64 // seconds from the put to the end of the wait; only items for which the receiver waited
	median   float64   // median of times
	waited   float64   // seconds in which the receiver waited for items on their way
}

// isReliable reports whether the receiver waited often enough for a reliable median.
func (l *link) isReliable() bool {
	return len(l.times) >= linkItems && float64(len(l.times)) >= linkWaits*float64(l.items)
}

// slowLinks finds slow links, at most one per channel. Share is the fraction of the time in which the receiver waits
// for items on their way. Share is limited to the median excess of an item times the number of items. A link is
// compared with links at the same distance, if there are any. The largest error of the clocks is subtracted from times
// between nodes.
func (e *evidence) slowLinks() (found []Finding) {
	type pair struct {
		channel  string
		from, to int
	}
	if e.crowded {
		return nil
	}
	var total float64
	var links []link
	at := map[pair]int{}
	for _, v := range e.views {
		total += v.length()
		for worker, t := range v.tracks {
			if t == nil {
				continue
			}
			for i := range t.Spans {
				s := &t.Spans[i]
				site := v.site(worker, s.Site)
				if site.Op != trace.Get {
					continue
				}
				if m, producer := v.putOf(s, &site); m != nil {
					v.count(entry(&links, at, pair{site.Name, producer, worker},
						link{channel: site.Name, from: producer, to: worker}), m, s)
				}
			}
		}
	}
	var channels []string
	byChannel := map[string][]*link{}
	for i := range links {
		l := &links[i]
		if !l.isReliable() {
			continue
		}
		if byChannel[l.channel] == nil {
			channels = append(channels, l.channel)
		}
		l.median = figures.Median(l.times)
		byChannel[l.channel] = append(byChannel[l.channel], l)
	}
	for _, c := range channels {
		if f := e.slowLink(byChannel[c], total); f != nil {
			found = append(found, *f)
		}
	}
	return found
}

// count adds an item to a link. m is the put of the item, and s is the wait for it.
func (v *view) count(l *link, m *trace.Mark, s *trace.Span) {
	l.items++
	if s.End-s.Start < linkWait {
		return
	}
	unsure := int64(0)
	if v.Workers[l.from].Node != v.Workers[l.to].Node {
		unsure = 2 * v.window.Bound
	}
	l.times = append(l.times, seconds(max(0, s.End-m.At-unsure)))
	l.waited += seconds(max(0, s.End-max(m.At, s.Start)-unsure))
}

// slowLink returns a finding about the slow link with the longest waits among the links of a channel. It returns nil if
// no link is slow. total is the length of all windows in seconds.
func (e *evidence) slowLink(links []*link, total float64) *Finding {
	slices.SortStableFunc(links, func(a, b *link) int { return cmp.Compare(b.waited, a.waited) })
	for _, l := range links {
		usual, ok := e.usualLink(l, links)
		if !ok || l.median < linkFactor*usual {
			continue
		}
		// The median limits the share: a few very slow items do not make a link slow.
		share := min(l.waited, float64(len(l.times))*(l.median-usual)) / total
		if share < linkShare {
			continue
		}
		place := "rank"
		if e.distance(l.from, l.to) == 2 {
			place = "host"
		}
		return &Finding{Kind: Fault, Rule: SlowLink, Component: e.Workers[l.to].Component, Worker: l.from, Peer: l.to,
			Share: share, Key: placementKey,
			Text: fmt.Sprintf("The link from %s to %s is slow: an item of channel %q takes %s there, and %s on other "+
				"links, which costs %s of the time; look at the network, or place both workers on one %s (%s).",
				e.name(l.from), e.name(l.to), l.channel, figures.Seconds(l.median), figures.Seconds(usual),
				figures.Percent(share), place, placementKey)}
	}
	return nil
}

// usualLink returns the median time of the other links, in seconds. If there are links at the same distance as l, it
// uses only these links.
func (e *evidence) usualLink(l *link, links []*link) (usual float64, ok bool) {
	var alike, others []float64
	for _, o := range links {
		if o == l {
			continue
		}
		others = append(others, o.median)
		if e.distance(o.from, o.to) == e.distance(l.from, l.to) {
			alike = append(alike, o.median)
		}
	}
	if len(alike) > 0 {
		others = alike
	}
	if len(others) == 0 {
		return 0, false
	}
	return figures.Median(others), true
}

// distance returns 0 for workers on the same rank, 1 for workers on the same node, and 2 otherwise.
func (e *evidence) distance(a, b int) int {
	switch v, w := &e.Workers[a], &e.Workers[b]; {
	case v.Rank == w.Rank:
		return 0
	case v.Node == w.Node:
		return 1
	}
	return 2
}

// share returns the fraction of a component's time that it spent at the matching sites, in the given sums.
func (e *evidence) share(sums [][]*trace.Sum, component string, matches func(*trace.Site) bool) float64 {
	var part, total int64
	for _, by := range sums {
		for i, sum := range by {
			if sum == nil || e.Workers[i].Component != component {
				continue
			}
			for s := range min(len(sum.Times), len(e.Workers[i].Sites)) {
				total += sum.Times[s]
				if matches(&e.Workers[i].Sites[s]) {
					part += sum.Times[s]
				}
			}
		}
	}
	if total == 0 {
		return 0
	}
	return float64(part) / float64(total)
}

// lastWork returns the index in e.sums of the last iteration in which a component worked, or 0 if there is none.
func (e *evidence) lastWork(component string) int {
	for k := len(e.sums) - 1; k >= 0; k-- {
		if e.share(e.sums[k:k+1], component, func(s *trace.Site) bool { return s.Cause == trace.Working }) > 0 {
			return k
		}
	}
	return 0
}

// shortRoom finds channels in which a component waits for room. Share is the fraction of the component's time spent on
// this wait. shortRoom leaves out the channel of trajectories of an asynchronous run, because the method staleness
// checks this channel.
func (e *evidence) shortRoom() (found []Finding) {
	if len(e.iterations) < fewestIterations {
		return nil
	}
	type pair struct{ component, channel, consumer string }
	var pairs []pair
	publishers := e.publishers()
	for i := range e.Workers {
		for _, s := range e.Workers[i].Sites {
			if s.Op == trace.Room && !(e.async() && slices.Contains(publishers, s.Peer)) {
				if p := (pair{e.Workers[i].Component, s.Name, s.Peer}); !slices.Contains(pairs, p) {
					pairs = append(pairs, p)
				}
			}
		}
	}
	for _, p := range pairs {
		share := e.share(e.sums, p.component,
			func(s *trace.Site) bool { return s.Op == trace.Room && s.Name == p.channel })
		if share < roomShare {
			continue
		}
		lacking := e.share(e.sums, p.consumer,
			func(s *trace.Site) bool { return s.Op == trace.Get && s.Name == p.channel })
		f := Finding{Rule: Room, Component: p.component, Worker: none, Peer: none, Share: share}
		f.Text = fmt.Sprintf("%s wait %s of their time for room in channel %q", upper(workers(p.component)),
			figures.Percent(share), p.channel)
		if lacking < roomShare {
			f.Text += fmt.Sprintf(", because %s are busy; more room cannot help", workers(p.consumer))
			if !e.crowded && !e.fills(p.consumer) {
				f.Key = placementKey
				f.Text += fmt.Sprintf(", but more ranks for %s can (%s)", p.consumer, f.Key)
			}
			f.Text += "."
		} else {
			f.Kind = Fault
			advice := ""
			advice, f.Key = roomAdvice(p.channel, p.consumer)
			switch {
			case f.Key == placementKey && e.crowded:
				advice = crowdAdvice
			case f.Key == placementKey && e.fills(p.consumer):
				advice, f.Key = "its size is fixed, and the ranks fill the cores: more cores help", ""
			}
			f.Text += fmt.Sprintf(", and %s wait %s of theirs for its items: the channel has too little room; %s.",
				workers(p.consumer), figures.Percent(lacking), advice)
		}
		found = append(found, f)
	}
	return found
}

// roomAdvice returns advice to give a channel of a synchronous run more room, and the key to change. The key is "" if
// no key helps.
func roomAdvice(channel, consumer string) (text, key string) {
	switch channel {
	case "obs", "act", "rewards": // these channels have a key for each stage
		return "raise " + stagesKey, stagesKey
	case "out", "batches": // these channels hold one rollout, unless the run is asynchronous
		return "set " + asyncKey + ": true, with " + stalenessKey + " for the number of rollouts", asyncKey
	}
	if channel == "transitions" || strings.HasPrefix(channel, "answers of ") { // they have a key for each consumer
		return "its size is fixed, so give " + consumer + " more ranks (" + placementKey + ")", placementKey
	}
	return "the program makes it, and can make it larger (MaxSize)", ""
}

// publishers returns the components that publish weights.
func (e *evidence) publishers() (list []string) {
	for i := range e.Workers {
		w := &e.Workers[i]
		if !slices.Contains(list, w.Component) &&
			slices.ContainsFunc(w.Sites, func(s trace.Site) bool { return s.Op == trace.Publish }) {
			list = append(list, w.Component)
		}
	}
	return list
}

// staleness finds components of an asynchronous run that wait for newer weights, or for room for their trajectories,
// because their data would become too old. Share is the fraction of the component's time spent on these waits. The
// first iteration does not count, because it warms up. The iteration of the component's last work and later iterations
// do not count either, because no iteration needs another rollout then.
func (e *evidence) staleness() (found []Finding) {
	publishers := e.publishers()
	if len(e.iterations) < fewestIterations || len(publishers) == 0 || !e.async() {
		return nil
	}
	var components []string
	for i := range e.Workers {
		if c := e.Workers[i].Component; !slices.Contains(components, c) && !slices.Contains(publishers, c) {
			components = append(components, c)
		}
	}
	for _, c := range components {
		n := e.lastWork(c)
		sums := e.sums[min(1, n):n]
		weights := e.share(sums, c, func(s *trace.Site) bool { return s.Op == trace.Adopt })
		room := e.share(sums, c, func(s *trace.Site) bool {
			return s.Op == trace.Room && slices.Contains(publishers, s.Peer)
		})
		if n <= fewestIterations || weights+room < roomShare {
			continue
		}
		lacking := 0.0
		for _, p := range publishers {
			lacking = max(lacking, e.share(sums, p, func(s *trace.Site) bool {
				return s.Op == trace.Get && s.Cause == trace.Trajectory
			}))
		}
		f := Finding{Rule: Staleness, Component: c, Worker: none, Peer: none, Share: weights + room, Key: stalenessKey}
		key := stalenessKey
		if room > weights {
			key += " (if it is negative: " + drainKey + ")"
		}
		f.Text = fmt.Sprintf("%s wait %s of their time for %s, because their data would become too old",
			upper(workers(c)), figures.Percent(f.Share), waitedFor(weights, room))
		if lacking < roomShare {
			f.Text += fmt.Sprintf("; %s are busy and bound the run, so a larger %s cannot help.",
				workers(publishers[0]), key)
		} else {
			f.Kind = Fault
			f.Text += fmt.Sprintf(", and %s wait %s of theirs for trajectories: the bound on the age is too tight; "+
				"raise %s.", workers(publishers[0]), figures.Percent(lacking), key)
		}
		found = append(found, f)
	}
	return found
}

func waitedFor(weights, room float64) string {
	switch {
	case room == 0:
		return "newer weights"
	case weights == 0:
		return "room for their trajectories"
	}
	return "newer weights and for room"
}

// stallWorks are the names of the work of environments.
var stallWorks = [...]string{"simulate", "play"}

// stalls finds iterations in which a single span of an environment's work was very long. Share is the fraction of the
// iteration spent on this span. The finding of an iteration names the worker with the longest span.
func (e *evidence) stalls() []Finding {
	worst := map[int]*stall{} // by view
	for worker := range e.Workers {
		for site := range e.Workers[worker].Sites {
			s := &e.Workers[worker].Sites[site]
			if s.Op == trace.Work && slices.Contains(stallWorks[:], s.Name) {
				for _, of := range e.stallsAt(worker, site) {
					if worst[of.view] == nil || of.length > worst[of.view].length {
						worst[of.view] = &of
					}
				}
			}
		}
	}
	var found []Finding
	for i, v := range e.views {
		s := worst[i]
		if s == nil {
			continue
		}
		name := e.Workers[s.worker].Sites[s.site].Name
		found = append(found, Finding{Kind: Fault, Rule: Stall, Component: e.Workers[s.worker].Component,
			Worker: s.worker, Peer: none, Iteration: v.window.Iteration, Share: s.length / v.length(),
			Text: fmt.Sprintf("An environment of %s stalled in iteration %d: %s took %s, %.0f times its median and %s "+
				"of the iteration; look at that environment and its host.", e.name(s.worker), v.window.Iteration, name,
				figures.Seconds(s.length), s.length/s.usual, figures.Percent(s.length/v.length()))})
	}
	return found
}

// A stall is a long span of work.
type stall struct {
	view, worker, site int
	length, usual      float64 // length of the span, and median length in other windows, in seconds
}

// stallsAt returns the stalls of a worker at a site.
func (e *evidence) stallsAt(worker, site int) (found []stall) {
	windows := 0
	for i, v := range e.views {
		if e.extra[v.window.Iteration] { // evaluations step other environments
			continue
		}
		longest := 0.0
		for _, k := range v.spansOf(worker, site) {
			s := &v.tracks[worker].Spans[k]
			longest = max(longest, seconds(min(s.End, v.end)-max(s.Start, v.start)))
		}
		if longest > 0 {
			windows++
		}
		if longest < stallShare*v.length() || v.window.Iteration == e.first || e.crowded && longest < crowdedStall {
			continue
		}
		if usual := e.usualLength(worker, site, i); usual > 0 && longest >= stallFactor*usual {
			found = append(found, stall{i, worker, site, longest, usual})
		}
	}
	if n := len(found); n > 1 && float64(n) > stallWindows*float64(windows) {
		return nil
	}
	return found
}

// usualLength returns the median length of the spans at a site, in seconds, or 0 if there are none. It leaves out the
// window whose index is given.
func (e *evidence) usualLength(worker, site, except int) float64 {
	var lengths []float64
	for i, v := range e.views {
		if i == except || e.extra[v.window.Iteration] {
			continue
		}
		for _, k := range v.spansOf(worker, site) {
			s := &v.tracks[worker].Spans[k]
			lengths = append(lengths, seconds(s.End-s.Start))
		}
	}
	if len(lengths) == 0 {
		return 0
	}
	return figures.Median(lengths)
}
