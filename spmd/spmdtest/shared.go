package spmdtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// shared returns the cases that test shared memory and signals. They pass on transports without shared
// memory.
func shared() []Case {
	return []Case{
		{"every rank or none has shared memory", sharedAlike},
		{"memory can be read and written by the ranks of its node", views},
		{"only memory of one's own Alloc is located", locates},
		{"views beyond the memory are refused", viewBounds},
		{"a signal wakes its waiter", signalPingPong},
		{"a signal wakes all that wait for it", signalBarrier},
		{"a wait for a signal ends with its context", signalContext},
		{"waiting for a signal does not allocate", signalAllocation},
	}
}

// tell sends a number to every rank, and returns the numbers of all ranks.
func tell(ctx context.Context, w *spmd.World, mine uint64) ([]uint64, error) {
	ends, err := w.NewComm(world(w), "tell")
	if err != nil {
		return nil, err
	}
	c := ends[0]
	in := make([]byte, 8*c.Size())
	var reqs []spmd.Request
	for m := range c.Size() {
		r, err := c.Irecv(in[8*m:8*m+8], m, 0)
		if err != nil {
			return nil, err
		}
		s, err := c.Isend(binary.LittleEndian.AppendUint64(nil, mine), m, 0)
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, r, s)
	}
	if err := c.Wait(ctx, reqs); err != nil {
		return nil, err
	}
	all := make([]uint64, c.Size())
	for m := range all {
		all[m] = binary.LittleEndian.Uint64(in[8*m:])
	}
	return all, nil
}

func sharedAlike(ctx context.Context, w *spmd.World) error {
	_, ok := w.Shared()
	mine := uint64(0)
	if ok {
		mine = 1
	}
	all, err := tell(ctx, w, mine)
	if err != nil {
		return err
	}
	for r, theirs := range all {
		if theirs != mine {
			return fmt.Errorf("shared memory: %v here, %v on rank %d", ok, !ok, r)
		}
	}
	return nil
}

// mates returns the ranks of this rank's node, including this rank.
func mates(w *spmd.World) []int {
	var ranks []int
	for r, node := range w.Nodes() {
		if node == w.Node() {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func views(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	for _, n := range []int{1, 1000, 300_001} {
		b, err := w.Alloc(n + w.Size()) // each rank writes one of the last bytes
		if err != nil {
			return err
		}
		fill(b[:n], w.Rank())
		at, ok := sh.Locate(b)
		if !ok {
			return fmt.Errorf("memory of Alloc(%d) is not located", len(b))
		}
		all, err := tell(ctx, w, uint64(at))
		if err != nil {
			return err
		}
		for _, r := range mates(w) {
			v, err := sh.View(r, int64(all[r]), n+w.Size())
			if err != nil {
				return err
			}
			if err := check(v[:n], r); err != nil {
				return fmt.Errorf("%d bytes of rank %d: %w", n, r, err)
			}
			v[n+w.Rank()] = byte(w.Rank() + 1)
			if r == w.Rank() && unsafe.SliceData(v) != unsafe.SliceData(b) {
				return errors.New("a view of one's own memory is another memory")
			}
		}
		if _, err := tell(ctx, w, 0); err != nil { // wait until all have written
			return err
		}
		for _, r := range mates(w) {
			if b[n+r] != byte(r+1) {
				return fmt.Errorf("rank %d wrote %d into the memory of rank %d, want %d", r, b[n+r], w.Rank(), r+1)
			}
		}
	}
	return nil
}

func locates(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	b, err := w.Alloc(1000)
	if err != nil {
		return err
	}
	at, ok := sh.Locate(b)
	if !ok {
		return errors.New("memory of Alloc is not located")
	}
	for _, cut := range [][2]int{{0, 1}, {1, 999}, {64, 128}, {999, 1000}} {
		part, ok := sh.Locate(b[cut[0]:cut[1]])
		if !ok || part != at+int64(cut[0]) {
			return fmt.Errorf("bytes %v of memory at %d are at %d, %v", cut, at, part, ok)
		}
	}
	if at, ok := sh.Locate(make([]byte, 1000)); ok {
		return fmt.Errorf("memory of the Go heap is at %d", at)
	}
	all, err := tell(ctx, w, uint64(at))
	if err != nil {
		return err
	}
	for _, r := range mates(w) {
		v, err := sh.View(r, int64(all[r]), 1000)
		if err != nil {
			return err
		}
		if at, ok := sh.Locate(v); ok != (r == w.Rank()) {
			return fmt.Errorf("on rank %d, memory of rank %d is at %d, %v", w.Rank(), r, at, ok)
		}
	}
	return nil
}

func viewBounds(_ context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	b, err := w.Alloc(64)
	if err != nil {
		return err
	}
	at, _ := sh.Locate(b)
	for _, bad := range []struct {
		rank int
		at   int64
		n    int
	}{{-1, at, 64}, {w.Size(), at, 64}, {w.Rank(), -1, 1}, {w.Rank(), at, -1}, {w.Rank(), at, 1 << 40},
		{w.Rank(), 1 << 60, 1}} {
		if v, err := sh.View(bad.rank, bad.at, bad.n); err == nil {
			return fmt.Errorf("view %+v gave %d bytes", bad, len(v))
		}
	}
	return nil
}

// signals returns n signals in the memory of the node's first rank. All ranks of the node get the same
// signals.
func signals(ctx context.Context, w *spmd.World, sh spmd.Shared, n int) ([]spmd.Signal, error) {
	size := n * int(unsafe.Sizeof(spmd.Signal{}))
	b, err := w.Alloc(size)
	if err != nil {
		return nil, err
	}
	at, _ := sh.Locate(b)
	all, err := tell(ctx, w, uint64(at))
	if err != nil {
		return nil, err
	}
	first := mates(w)[0]
	if b, err = sh.View(first, int64(all[first]), size); err != nil {
		return nil, err
	}
	return unsafe.Slice((*spmd.Signal)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

func signalPingPong(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	sig, err := signals(ctx, w, sh, w.Size())
	if err != nil {
		return err
	}
	peer := w.Rank() ^ 1 // pairs 0 and 1, 2 and 3, …
	if peer >= w.Size() {
		return nil
	}
	const rounds = 10_000
	mine, theirs := &sig[w.Rank()], &sig[peer]
	for i := uint32(0); i < rounds; i++ {
		if w.Rank() < peer {
			sh.Post(mine, i+1)
		}
		if err := sh.Await(ctx, theirs, i, peer); err != nil {
			return err
		}
		if v := theirs.Value.Load(); v != i+1 {
			return fmt.Errorf("round %d: the signal is %d, want %d", i, v, i+1)
		}
		if w.Rank() > peer {
			sh.Post(mine, i+1)
		}
	}
	return nil
}

// signalBarrier implements a barrier, in which the last rank to arrive releases all other ranks. Memory
// that a rank wrote before the barrier must be visible to all ranks after the barrier.
func signalBarrier(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	sig, err := signals(ctx, w, sh, 2+w.Size())
	if err != nil {
		return err
	}
	arrived, release := &sig[0].Value, &sig[1]
	ranks := mates(w)
	notes := unsafe.Slice((*byte)(unsafe.Pointer(&sig[2])), w.Size()*int(unsafe.Sizeof(sig[0]))) // one per rank
	note := func(r int) []byte { return notes[r*64 : r*64+8] }
	for i := uint32(0); i < 500; i++ {
		for turn := range uint32(2) { // each turn reads the values that the other turn wrote
			epoch := 2*i + turn
			if turn == 0 {
				binary.LittleEndian.PutUint64(note(w.Rank()), uint64(i)<<8|uint64(w.Rank()))
			} else {
				for _, r := range ranks {
					if v := binary.LittleEndian.Uint64(note(r)); v != uint64(i)<<8|uint64(r) {
						return fmt.Errorf("round %d: rank %d wrote %#x", i, r, v)
					}
				}
			}
			if arrived.Add(1) == uint32(len(ranks))*(epoch+1) {
				sh.Post(release, epoch+1)
			} else if err := sh.Await(ctx, release, epoch, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

func signalContext(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	sig, err := signals(ctx, w, sh, w.Size())
	if err != nil {
		return err
	}
	cause := errors.New("enough")
	sub, stop := context.WithCancelCause(ctx)
	w.Go("stopper", func() error { stop(cause); return nil })
	for range 2 { // the context ends during the first wait, and before the second wait
		if err := sh.Await(sub, &sig[w.Rank()], 0, -1); !errors.Is(err, cause) {
			return fmt.Errorf("the wait returned %v", err)
		}
	}
	if n := sig[w.Rank()].Sleepers.Load(); n != 0 {
		return fmt.Errorf("%d sleepers are left", n)
	}
	sh.Post(&sig[w.Rank()], 1)
	return sh.Await(sub, &sig[w.Rank()], 0, -1) // an earlier Post takes precedence over the end of the context
}

func signalAllocation(ctx context.Context, w *spmd.World) error {
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	sig, err := signals(ctx, w, sh, w.Size()+1)
	if err != nil {
		return err
	}
	n := uint32(len(mates(w)))
	next := &sig[(w.Rank()+1)%w.Size()]
	mine := &sig[w.Rank()]
	if w.LocalSize() != w.Size() {
		return nil
	}
	const rounds = 300
	var before, after runtime.MemStats
	for i := uint32(0); i < 2*rounds; i++ { // a token goes around the ring, so all ranks but one wait
		if i == rounds {
			runtime.ReadMemStats(&before)
		}
		if w.Rank() == 0 {
			sh.Post(next, i+1)
		}
		if n > 1 || w.Rank() == 0 {
			if err := sh.Await(ctx, mine, i, -1); err != nil {
				return err
			}
		}
		if w.Rank() != 0 {
			sh.Post(next, i+1)
		}
	}
	runtime.ReadMemStats(&after)
	// The runtime and other ranks of the process may still allocate a little.
	if got := after.Mallocs - before.Mallocs; got > rounds/2 {
		return fmt.Errorf("%d rounds allocated %d times", rounds, got)
	}
	return nil
}
