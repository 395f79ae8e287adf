package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
)

// stride returns the distance in bytes between the starts of two neighbouring buffers of the given size. Each buffer
// has a guard before and after it.
func stride(size int) int { return lines(size + 2*guard) }

// lines returns size rounded up to whole cache lines, in bytes.
func lines(size int) int { return (size + 63) / 64 * 64 }

// stepOf returns the size of a slot in bytes. A slot has operand.data and, after a guard, operand.second if there is
// one. The guard after the last buffer of a slot overlaps the next slot, which is not in use during a check.
func stepOf(p point, out bool) int {
	if out || p.kind == spmd.SendReceive {
		return stride(p.size) + lines(p.size)
	}
	return lines(p.size)
}

// touched returns the number of bytes that a call touches on a host: the minimum over the hosts.
func (s *sweep) touched(p point, out bool) int {
	byHost := map[int]int{}
	for m := range p.ranks {
		data, second := lengths(p.kind, p.ranks, m, s.plan.Root%p.ranks, p.size, out)
		byHost[s.run.budget.hosts[m]] += lines(data) + lines(second)
	}
	return slices.Min(slices.Collect(maps.Values(byHost)))
}

// slots returns the number of slots that the calls of a point use in rotation.
func (s *sweep) slots(p point, out bool) int {
	if !s.plan.OffCache || p.size == 0 {
		return 1
	}
	b := &s.run.budget
	return b.slots(stepOf(p, out), s.touched(p, out), b.limit(slices.Max(s.plan.Ranks), len(s.plan.Memory)))
}

// places returns the modes in which a point is measured. true is the mode out of place, and false the mode in place.
func (s *sweep) places(p point) []bool {
	if p.kind == spmd.SendReceive || p.kind == spmd.Barrier {
		return []bool{false}
	}
	var list []bool
	if s.plan.OutOfPlace {
		list = append(list, true)
	}
	if s.plan.InPlace {
		list = append(list, false)
	}
	return list
}

// describe adds a note to the report: how many bytes one rotation of the slots touches on a host, and which operations
// still fit into the cache.
func (s *sweep) describe(points []point) {
	b, least := &s.run.budget, math.MaxInt
	var held []string
	for _, p := range points {
		for _, out := range s.places(p) {
			if p.size == 0 {
				continue
			}
			touched := s.slots(p, out) * s.touched(p, out)
			least = min(least, touched)
			if touched <= b.cache {
				held = append(held, p.kind.String())
			}
		}
	}
	inMiB := func(bytes int) float64 { return float64(bytes) / (1 << 20) }
	switch {
	case least == math.MaxInt:
	case b.cache == 0:
		s.run.note("off-cache: the size of the last-level cache is not known, so all calls have the same buffers")
	default:
		except := ""
		if len(held) > 0 {
			except = fmt.Sprintf("; these are NOT out of the cache, as buffers take %.1f MiB at most here: %s",
				inMiB(b.buffers()/raceFactor), strings.Join(report.Distinct(held), ", "))
		}
		s.run.note("off-cache: one round of the buffers on a host touches %.1f MiB or more, %.2f times its last-level "+
			"cache of %s%s", inMiB(least), float64(least)/float64(b.cache), report.Bytes(int64(b.cache)), except)
	}
}
