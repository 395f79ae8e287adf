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

// stride is the distance between the beginnings of two buffers of size bytes with their guards.
func stride(size int) int { return lines(size + 2*guard) }

// lines returns size rounded up to whole cache lines, in bytes.
func lines(size int) int { return (size + 63) / 64 * 64 }

// stepOf returns the distance between the beginnings of two calls' buffers. A call's buffers are Data and, behind the
// guard of Data, the second buffer, if there is one (see operand). The guard behind a call's last buffer lies in the
// buffers of the next call, which are not in use then.
func stepOf(p point, out bool) int {
	if out || p.kind == spmd.SendReceive {
		return stride(p.size) + lines(p.size)
	}
	return lines(p.size)
}

// touched returns how many bytes a call of a point touches on a host. Hosts may differ, and touched returns the
// smallest number.
func (s *sweep) touched(p point, out bool) int {
	byHost := map[int]int{}
	for m := range p.ranks {
		data, second := lengths(p.kind, p.ranks, m, s.plan.Root%p.ranks, p.size, out)
		byHost[s.run.budget.hosts[m]] += lines(data) + lines(second)
	}
	return slices.Min(slices.Collect(maps.Values(byHost)))
}

// slots returns the number of buffers that the calls of a point use in rotation.
func (s *sweep) slots(p point, out bool) int {
	if !s.plan.OffCache || p.size == 0 {
		return 1
	}
	return s.run.budget.slots(stepOf(p, out), s.touched(p, out), s.limit)
}

// places returns the ways in which the point is measured: true means out of place, false in place.
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

// describe adds a note to the report: the least number of bytes that the calls on a host touch in one round of the
// buffers, and which operations fit into the cache.
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
