package bench

import (
	"fmt"

	"github.com/rlinf/rlinf/collectives/bench/report"
)

// mostBuffers is the largest number of bytes that the buffers of all ranks of a host take, if the benchmark chooses the
// number of buffers: for OffCache, the roof and p2p's windows. A single operation may take more.
const mostBuffers = 1536 << 20

// A budget says how much memory the buffers may take. It is the same on all ranks, so that they agree
// on the number of buffers.
type budget struct {
	hosts []int // the lowest rank of each rank's host
	cache int   // bytes of the largest last-level cache; 0 if not known
	free  int   // bytes that the ranks of a host can still take, on the host with the least; 0 if not known
}

// buffers returns how many bytes the buffers of all ranks of a host may take: the smaller of
// mostBuffers and a quarter of the free memory.
func (b *budget) buffers() int {
	if b.free == 0 {
		return mostBuffers
	}
	return min(mostBuffers, b.free/4)
}

// onHost returns how many of the first n ranks are on the host that has most of them.
func (b *budget) onHost(n int) int {
	most, count := 0, map[int]int{}
	for _, host := range b.hosts[:n] {
		count[host]++
		most = max(most, count[host])
	}
	return most
}

// beyondCaches returns how large a rank's two buffers must be for the copies of all ranks of a host to
// miss its last-level cache.
func (b *budget) beyondCaches() int {
	const least, most = 4 << 20, 128 << 20
	ranks := b.onHost(len(b.hosts))
	return min(most, max(least, 2*b.cache/ranks), b.buffers()/(2*ranks))
}

// window returns the largest number of bytes that the messages of a window may take on each rank.
func (b *budget) window() int {
	const most = 64 << 20
	return min(most, b.limit(len(b.hosts), 1))
}

// limit returns how many bytes the buffers of a rank may take in each kind of memory, in groups of up to
// n ranks. kinds is the number of kinds. A rank that is in several groups uses the same memory for all of
// them.
func (b *budget) limit(n, kinds int) int { return b.buffers() / raceFactor / kinds / b.onHost(n) }

// slots returns the number of buffers that calls use in rotation. A buffer takes step bytes, and calls on a host touch
// `touched` bytes of it. Together the buffers fill twice the cache of a host, or limit bytes if that is less. slots
// returns at least 1.
func (b *budget) slots(step, touched, limit int) int {
	return max(1, min((2*b.cache+touched-1)/touched, limit/step))
}

// check returns an error if buffers of this many bytes on each of the first n ranks do not fit into
// the free memory.
func (b *budget) check(n, bytes int) error {
	ranks := b.onHost(n)
	if b.free == 0 || bytes <= b.free/raceFactor/ranks {
		return nil
	}
	return fmt.Errorf("buffers of %s on each of %d ranks of a host: it has %s free: expected smaller sizes or fewer "+
		"ranks", report.Bytes(int64(bytes)), ranks, report.Bytes(int64(b.free)))
}
