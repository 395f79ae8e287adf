package collectives

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// A window is what the members of a group on one node have in common: a few words by which they
// meet, and a slot for each in which it says where its buffers lie. It lies in the memory of the
// first of them.
type window struct {
	shared spmd.Shared
	ranks  []int // in the world, of the members
	me     int
	*meeting
	slots []slot
	rows  []int64    // for each member, where its blocks for each of the others begin
	small *[2]parcel // what short broadcasts carry, in phases of even and odd numbers
	phase uint32     // meetings so far, the same on every member
}

// A meeting is the words by which members meet, each on a cache line of its own.
type meeting struct {
	released spmd.Signal // the phase that all have come to
	finished spmd.Signal // the phase whose chunks are all done
	arrived  line        // counts arrivals, of all phases
	next     line        // the next chunk that nobody has taken
	left     line        // chunks that are not done
	chunks   line        // how many there are; 0: the last member has done everything
}

type line struct {
	atomic.Uint32
	_ [60]byte
}

// inline is how many bytes a broadcast carries in the window itself.
const inline = 4 << 10

type parcel struct {
	bytes int64
	data  [inline]byte
}

// A slot is what a member lets the others know.
type slot struct {
	data, send int64 // where the buffers lie
	bytes      int64 // length of Data
	phase      atomic.Uint32
	_          [36]byte
}

// openWindow makes the window of a team whose members share memory; collective over them.
func openWindow(ctx context.Context, t *team) (*window, error) {
	g := t.g
	w := &window{shared: g.shared, me: t.me}
	for _, m := range t.members {
		w.ranks = append(w.ranks, g.comm.WorldRank(m))
	}
	p := t.size()
	size := int(unsafe.Sizeof(meeting{})) + p*int(unsafe.Sizeof(slot{})) + p*p*8 + int(unsafe.Sizeof([2]parcel{}))
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
	w.meeting = (*meeting)(unsafe.Pointer(unsafe.SliceData(mem)))
	mem = mem[unsafe.Sizeof(meeting{}):]
	w.slots = unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(mem))), p)
	mem = mem[p*int(unsafe.Sizeof(slot{})):]
	w.rows = unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(mem))), p*p)
	mem = mem[p*p*8:]
	w.small = (*[2]parcel)(unsafe.Pointer(unsafe.SliceData(mem)))
	return w, nil
}

// arrive comes to the next meeting, and reports whether this member is the last: then the others
// wait until it calls release. What it wrote before, the others see after.
func (w *window) arrive() (last bool) {
	w.phase++
	w.slots[w.me].phase.Store(w.phase)
	return w.arrived.Add(1) == w.phase*uint32(len(w.slots))
}

func (w *window) release() { w.shared.Post(&w.released, w.phase) }

// await returns once the last has come and released the others.
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

// missing returns the rank of a member that has not come to the present phase, -1 when all have.
func (w *window) missing() int {
	for m := range w.slots {
		if w.slots[m].phase.Load() != w.phase {
			return w.ranks[m]
		}
	}
	return -1
}

// meet returns when all members have come.
func (w *window) meet(ctx context.Context) error {
	if w.arrive() {
		w.release()
		return nil
	}
	return w.await(ctx)
}

// data returns member m's Data, of n bytes.
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

// otherLength says that member m's Data does not have the n bytes of this one's.
func (w *window) otherLength(m, theirs, n int) error {
	return fmt.Errorf("rank %d passes %d bytes where rank %d passes %d: another length or type", w.ranks[m], theirs,
		w.ranks[w.me], n)
}

// read copies what lies at a place in member m's memory.
func (w *window) read(m int, at int64, to []byte) error {
	if len(to) == 0 {
		return nil
	}
	d, err := w.shared.View(w.ranks[m], at, len(to))
	copy(to, d)
	return err
}

// row is member m's part of rows.
func (w *window) row(m int) []int64 { return w.rows[m*len(w.slots):][:len(w.slots)] }
