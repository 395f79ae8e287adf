package spmd

import (
	"fmt"
	"strconv"
	"strings"
)

// A segment is one element resources[:processes] of a placement. It puts consecutive processes on the
// resources first..last.
type segment struct {
	first, last int
	processes   int
}

// maxProcesses is the upper limit on the members of a component.
const maxProcesses = 1 << 20

// parsePlacement parses a placement over resources 0..n-1. It returns the valid segments and one message per mistake.
// In a message, "{what}" stands for the name of the resources.
func parsePlacement(s string, n int) (segs []segment, wrongs []string) {
	p := placementParser{n: n, lastResource: -1}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			p.segment(part)
		}
	}
	if len(p.segs) == 0 && len(p.wrongs) == 0 {
		p.wrong("expected resources[:processes], as in 0-3, all or 0-1:0-3")
	}
	return p.segs, p.wrongs
}

type placementParser struct {
	n            int
	lastResource int // the last resource of the segments so far
	processes    int // number of processes so far
	segs         []segment
	wrongs       []string
}

func (p *placementParser) wrong(format string, args ...any) {
	p.wrongs = append(p.wrongs, fmt.Sprintf(format, args...))
}

func (p *placementParser) segment(part string) {
	resources, processes, split := strings.Cut(part, ":")
	if strings.Contains(processes, ":") {
		p.wrong("expected one colon at most, not %q", part)
		return
	}
	first, last := 0, p.n-1
	if !strings.EqualFold(strings.TrimSpace(resources), "all") {
		var ok bool
		if first, last, ok = p.span(resources, "resources n, a-b or all"); !ok {
			return
		}
	}
	switch {
	case last >= p.n || last < first:
		p.wrong("expected resources 0..%d, the {what}, not %q", p.n-1, resources)
		return
	case first <= p.lastResource:
		p.wrong("expected every resource once and in ascending order, not %q after %d", resources, p.lastResource)
		return
	}
	p.lastResource = last
	over := last - first + 1
	lo, hi := p.processes, p.processes+over-1
	if split {
		var ok bool
		if lo, hi, ok = p.span(processes, "processes n or a-b"); !ok {
			return
		}
		if lo != p.processes {
			p.wrong("expected processes from %d on in %q: they count from 0 without a gap", p.processes, part)
			return
		}
	}
	count := hi - lo + 1
	switch {
	case split && hi >= maxProcesses:
		p.wrong("expected fewer than %d processes, not %q", maxProcesses, processes)
		return
	case count < over && over%count == 0:
		p.wrong("expected a process for each resource in %q: the keys tensor_model_parallel_size, "+
			"pipeline_model_parallel_size and tensor_parallel_size divide a model among processes", part)
	case count%over != 0:
		p.wrong("expected the %d processes of %q to be a multiple of its %d resources", count, part, over)
	}
	p.processes = hi + 1
	p.segs = append(p.segs, segment{first, last, count})
}

// span parses "n" or "a-b".
func (p *placementParser) span(s, want string) (lo, hi int, ok bool) {
	a, b, isRange := strings.Cut(strings.TrimSpace(s), "-")
	lo, ok = number(a)
	hi = lo
	if ok && isRange {
		hi, ok = number(b)
	}
	switch {
	case !ok:
		p.wrong("expected %s, not %q", want, s)
	case hi < lo:
		p.wrong("expected a range that ascends, not %q", s)
		ok = false
	}
	return lo, hi, ok
}

// number parses decimal digits. It returns false for other text, including signs and underscores.
func number(s string) (int, bool) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// PlacementOf returns the value of cluster.component_placement that puts member i on ranks[i]. The ranks ascend.
// Examples are "0-3", and "0-1:0-3" for two members on each rank.
func PlacementOf(ranks []int) string {
	type run struct{ first, last, perRank int } // perRank members on each of the ranks first..last
	var runs []run
	for i := 0; i < len(ranks); {
		n := 1
		for i+n < len(ranks) && ranks[i+n] == ranks[i] {
			n++
		}
		if k := len(runs) - 1; k >= 0 && runs[k].last == ranks[i]-1 && runs[k].perRank == n {
			runs[k].last++
		} else {
			runs = append(runs, run{ranks[i], ranks[i], n})
		}
		i += n
	}
	var parts []string
	member := 0
	for _, r := range runs {
		text := fmt.Sprint(r.first)
		if r.last > r.first {
			text = fmt.Sprintf("%d-%d", r.first, r.last)
		}
		count := r.perRank * (r.last - r.first + 1)
		if r.perRank > 1 {
			text += fmt.Sprintf(":%d-%d", member, member+count-1)
		}
		member += count
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}
