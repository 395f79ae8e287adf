package bench

import (
	"fmt"

	"github.com/rlinf/rlinf/collectives/bench/report"
)

// mostBuffers limits the total size in bytes of all buffers on a host if the benchmark chooses the number of buffers.
// It chooses this number for OffCache, the roof and the windows of P2P. A single operation may take more.
const mostBuffers = 1536 << 20

// A budget limits the memory of the buffers. It is the same on all ranks, so that they agree on the number of buffers.
type budget struct {
	hosts []int // hosts[r] is the lowest rank on the host of rank r
	cache int   // bytes of the largest last-level cache; 0 if not known
	free  int   // available memory in bytes, the minimum over the hosts; 0 if not known
}

// buffers returns the maximum size in bytes of all buffers on a host: mostBuffers or a quarter of the free memory,
// whichever is smaller.
func (b *budget) buffers() int {
	if b.free == 0 {
		return mostBuffers
	}
	return min(mostBuffers, b.free/4)
}

// onHost returns the maximum number of ranks on one host, among the first n ranks.
func (b *budget) onHost(n int) int {
	most, count := 0, map[int]int{}
	for _, host := range b.hosts[:n] {
		count[host]++
		most = max(most, count[host])
	}
	return most
}

// beyondCaches returns a buffer size in bytes. If each rank of a host has two buffers of this size, copies between them
// miss the last-level cache.
func (b *budget) beyondCaches() int {
	const least, most = 4 << 20, 128 << 20
	ranks := b.onHost(len(b.hosts))
	return min(most, max(least, 2*b.cache/ranks), b.buffers()/(2*ranks))
}

// window returns the maximum number of bytes that the messages of a window may take on a rank.
func (b *budget) window() int {
	const most = 64 << 20
	return min(most, b.limit(len(b.hosts), 1))
}

// limit returns the maximum size in bytes of a rank's buffers in one kind of memory. The argument kinds is the number
// of kinds of memory in use. Groups have up to n ranks, and all groups of a rank use the same buffers.
func (b *budget) limit(n, kinds int) int { return b.buffers() / raceFactor / kinds / b.onHost(n) }

// slots returns the number of slots that calls use in rotation, at least 1. A slot takes step bytes on a rank. The
// argument touched is the number of bytes that a call touches on a host. One rotation touches twice the cache of a
// host. The slots of a rank take at most limit bytes.
func (b *budget) slots(step, touched, limit int) int {
	return max(1, min((2*b.cache+touched-1)/touched, limit/step))
}

// check returns an error if buffers of this many bytes on each of the first n ranks exceed the free memory.
func (b *budget) check(n, bytes int) error {
	ranks := b.onHost(n)
	if b.free == 0 || bytes <= b.free/raceFactor/ranks {
		return nil
	}
	return fmt.Errorf("buffers of %s on each of %d ranks of a host: it has %s free: expected smaller sizes or fewer "+
		"ranks", report.Bytes(int64(bytes)), ranks, report.Bytes(int64(b.free)))
}
