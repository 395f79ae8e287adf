package bench

import (
	"fmt"

	"github.com/rlinf/rlinf/collectives/bench/report"
)

// mostBuffers is the most bytes that the buffers of all ranks of a host take, where the benchmark
// chooses the number of buffers: for OffCache, the roof and p2p's windows. A single operation may take
// more.
const mostBuffers = 1536 << 20

// A budget says how much memory the buffers may take. It is the same on all ranks, so that they agree
// on the number of buffers.
type budget struct {
	hosts []int // the lowest rank of each rank's host
	cache int   // bytes of the largest last-level cache; 0: not known
	free  int   // bytes that the ranks of a host can still take, on the host that has least; 0: not known
}

// buffers returns how many bytes the buffers of all ranks of a host may take: the smaller of
// mostBuffers and a quarter of the free memory.
func (b *budget) buffers() int {
	if b.free == 0 {
		return mostBuffers
	}
	return min(mostBuffers, b.free/4)
}

// onHosts counts the first n ranks by host. It returns the largest count, and the smallest of the
// hosts that have any of these ranks.
func (b *budget) onHosts(n int) (most, fewest int) {
	count := map[int]int{}
	for _, host := range b.hosts[:n] {
		count[host]++
	}
	fewest = n
	for _, c := range count {
		most, fewest = max(most, c), min(fewest, c)
	}
	return most, fewest
}

// beyondCaches returns how large a rank's two buffers must be for the copies of all ranks of a host to
// miss its last-level cache.
func (b *budget) beyondCaches() int {
	const least, most = 4 << 20, 128 << 20
	ranks, _ := b.onHosts(len(b.hosts))
	return min(most, max(least, 2*b.cache/ranks), b.buffers()/(2*ranks))
}

// window returns the most bytes that the messages of a window may take on each rank.
func (b *budget) window() int {
	const most = 64 << 20
	ranks, _ := b.onHosts(len(b.hosts))
	return min(most, b.buffers()/raceFactor/ranks)
}

// limits returns, by size of a group, how many bytes the buffers of a rank may take in each kind of
// memory. kinds is the number of kinds. The bytes that buffers returns are divided among the ranks of
// a host and the kinds of memory. A rank that is in several groups uses the same memory for all of
// them.
func (b *budget) limits(groups []int, kinds int) map[int]int {
	part := map[int]float64{} // of the memory of a host, for a rank, by group
	for _, n := range groups {
		_, ranks := b.onHosts(n)
		part[n] = 1 / float64(ranks)
	}
	taken, worst := map[int]float64{}, 1.0 // by host
	for rank, host := range b.hosts {
		largest := 0.0
		for n, x := range part {
			if rank < n {
				largest = max(largest, x)
			}
		}
		taken[host] += largest
		worst = max(worst, taken[host])
	}
	limits := map[int]int{}
	for n, x := range part {
		limits[n] = int(float64(b.buffers()/raceFactor/kinds) * x / worst)
	}
	return limits
}

// slots returns the number of buffers that calls use in rotation. A buffer takes step bytes, and a
// host touches touched bytes of it. The buffers fill twice the cache of a host, or limit if that is
// less. There is at least one.
func (b *budget) slots(step, touched, limit int) int {
	return max(1, min((2*b.cache+touched-1)/touched, limit/step))
}

// check returns an error if buffers of this many bytes on each of the first n ranks do not fit into
// the free memory.
func (b *budget) check(n, bytes int) error {
	ranks, _ := b.onHosts(n)
	if b.free == 0 || bytes <= b.free/raceFactor/ranks {
		return nil
	}
	return fmt.Errorf("buffers of %s on each of %d ranks of a host: it has %s free: expected smaller sizes or fewer "+
		"ranks", report.Bytes(int64(bytes)), ranks, report.Bytes(int64(b.free)))
}
