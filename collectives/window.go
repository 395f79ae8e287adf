package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// A window is shared memory of a group's members on one node. It has words for barriers, and for each
// member a slot with the locations of the member's buffers. It is in the first member's memory.
type window struct {
	shared spmd.Shared
	ranks  []int // world ranks of the members
	me     int
	*syncWords
	slots []slot
	rows  []int64        // one row per member: the locations of its blocks for each member, in an alltoall
	small *[2]inlineData // data of short broadcasts, in even and in odd phases
	phase uint32         // number of barriers so far, the same on every member
}

// syncWords is the state of barriers and of chunked reductions, each word on its own cache line.
type syncWords struct {
	released spmd.Signal // the last phase whose barrier is complete
	finished spmd.Signal // the last phase whose chunks are all reduced
	arrived  line        // number of arrivals, summed over all phases
	next     line        // next chunk to take
	left     line        // number of chunks not reduced yet
	chunks   line        // number of chunks; 0 if the last member to arrive has reduced the whole vector
}

type line struct {
	atomic.Uint32
	_ [60]byte
}

// maxInline is the largest number of bytes that a broadcast sends through the window itself.
const maxInline = 4 << 10

type inlineData struct {
	bytes int64
	data  [maxInline]byte
}

// A slot describes one member's buffers to the other members.
type slot struct {
	data, send int64 // locations of the buffers
	bytes      int64 // length of Data
	phase      atomic.Uint32
	_          [36]byte
}

// openWindow makes the window of a team with shared memory. It is collective over the team.
func openWindow(ctx context.Context, t *team) (*window, error) {
	g := t.g
	w := &window{shared: g.shared, me: t.me}
	for _, m := range t.members {
		w.ranks = append(w.ranks, g.comm.WorldRank(m))
	}
	p := t.size()
	size := int(unsafe.Sizeof(syncWords{})) + p*int(unsafe.Sizeof(slot{})) + p*p*8 + int(unsafe.Sizeof([2]inlineData{}))
	word, err := g.scratch(8)
	if err != nil {
		return nil, err
	}
	var mem []byte
	if t.me == 0 {
		if mem, err = g.host.Alloc(size); err != nil {
			return nil, err
		}
		at, ok := g.shared.Locate(mem)
		if !ok {
			return nil, fmt.Errorf("no shared memory is left on this node: %d bytes", size)
		}
		binary.NativeEndian.PutUint64(word, uint64(at))
	}
	if err := treeBroadcast(ctx, t, word, 0); err != nil {
		return nil, err
	}
	if t.me != 0 {
		if mem, err = g.shared.View(w.ranks[0], int64(binary.NativeEndian.Uint64(word)), size); err != nil {
			return nil, err
		}
	}
	w.syncWords = (*syncWords)(unsafe.Pointer(unsafe.SliceData(mem)))
	mem = mem[unsafe.Sizeof(syncWords{}):]
	w.slots = unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(mem))), p)
	mem = mem[p*int(unsafe.Sizeof(slot{})):]
	w.rows = unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(mem))), p*p)
	mem = mem[p*p*8:]
	w.small = (*[2]inlineData)(unsafe.Pointer(unsafe.SliceData(mem)))
	return w, nil
}

// arrive enters the next barrier and reports whether this member is the last to arrive. The last member must then call
// release, because the other members wait for that call. After it, they see all earlier writes of the last member.
func (w *window) arrive() (last bool) {
	w.phase++
	w.slots[w.me].phase.Store(w.phase)
	return w.arrived.Add(1) == w.phase*uint32(len(w.slots))
}

func (w *window) release() { w.shared.Post(&w.released, w.phase) }

// await waits until the last member has called release.
func (w *window) await(ctx context.Context) error { return w.awaitSignal(ctx, &w.released) }

func (w *window) awaitSignal(ctx context.Context, s *spmd.Signal) error {
	for {
		old := s.Value.Load()
		if old == w.phase {
			return nil
		}
		if err := w.shared.Await(ctx, s, old, w.missing()); err != nil {
			return err
		}
	}
}

// missing returns the rank of a member that has not arrived in this phase, or -1 if all have
// arrived.
func (w *window) missing() int {
	for m := range w.slots {
		if w.slots[m].phase.Load() != w.phase {
			return w.ranks[m]
		}
	}
	return -1
}

// barrier returns when all members have arrived.
func (w *window) barrier(ctx context.Context) error {
	if w.arrive() {
		w.release()
		return nil
	}
	return w.await(ctx)
}

// data returns member m's Data, or an error if Data is not n bytes long.
func (w *window) data(m, n int) ([]byte, error) {
	s := &w.slots[m]
	if int(s.bytes) != n {
		return nil, w.otherLength(m, int(s.bytes), n)
	}
	if n == 0 {
		return nil, nil
	}
	return w.shared.View(w.ranks[m], s.data, n)
}

// otherLength returns an error about the lengths of Data: k bytes on member m, and n bytes on this member.
func (w *window) otherLength(m, k, n int) error {
	return fmt.Errorf("rank %d passes %d bytes where rank %d passes %d: another length or type", w.ranks[m], k,
		w.ranks[w.me], n)
}

// read copies len(dst) bytes at a location in member m's memory to dst.
func (w *window) read(m int, location int64, dst []byte) error {
	if len(dst) == 0 {
		return nil
	}
	d, err := w.shared.View(w.ranks[m], location, len(dst))
	copy(dst, d)
	return err
}

// row returns the row of member m in w.rows.
func (w *window) row(m int) []int64 { return w.rows[m*len(w.slots):][:len(w.slots)] }
