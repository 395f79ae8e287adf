package collectives

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// newShared returns the algorithm "shared", for members of one node that have shared memory. It sends no messages.
// Every member publishes the locations of its buffers and enters a barrier. Then it reads the data that it needs from
// the other members' buffers. A second barrier prevents changes of buffers while they are read. Buffers outside of
// World.Alloc's memory are copied into such memory and back.
//
// The last member to arrive reduces a short vector for all members, before it releases them. This takes only one
// barrier. A long vector is split into chunks. Each member that is awake repeatedly takes the next chunk, reduces it,
// and writes the result to every member's buffer. In the costs, σ is the time of a barrier, and β the time of a byte of
// memory traffic:
//
//	barrier                              σ
//	allreduce, short                     σ + 2PSβ
//	allreduce, long                      2σ + 2Sβ
//	reduce, short                        σ + (P+1)Sβ
//	reduce, long, and reduce-scatter     2σ + (1+1/P)Sβ
//	broadcast, short                     σ + 2Sβ
//	broadcast, allgather, alltoall, …    2σ + 2Sβ
func newShared() *algorithm {
	return &algorithm{
		name: "shared", ordered: true, kinds: of(kinds()...), run: runShared,
		fits: func(g *Group, _ *spmd.Collective) bool { return g.shared != nil && g.heads.size() == 1 },
	}
}

// chunk is the number of bytes of a long vector that a member reduces at a time. The last member to arrive reduces a
// vector of at most one chunk alone. Waking a member is slow. So if another member sleeps, the last member also reduces
// longer vectors alone, if the vectors of all members together have at most maxAlone bytes.
const (
	chunk    = 64 << 10
	maxAlone = 512 << 10
)

// runShared runs c over the team t, which consists of all members on this node.
func runShared(ctx context.Context, t *team, c *spmd.Collective) error {
	g := t.g
	if g.window == nil {
		w, err := openWindow(ctx, t)
		if err != nil {
			return err
		}
		g.window = w
	}
	w := g.window
	if c.Kind == spmd.Barrier {
		return w.barrier(ctx)
	}
	if c.Kind == spmd.Broadcast && len(c.Data) <= maxInline {
		return broadcastInline(ctx, t, c, w)
	}
	data, err := g.publish(w, c)
	if err != nil {
		return err
	}
	if c.Kind == spmd.AllReduce || c.Kind == spmd.Reduce {
		err = reduceTogether(ctx, t, c, w)
	} else {
		if err = w.barrier(ctx); err == nil {
			err = pull(t, c, w, data)
		}
		if err == nil {
			err = w.barrier(ctx) // buffers must not change while others read them
		}
	}
	if err == nil && len(data) > 0 && &data[0] != &c.Data[0] {
		copy(c.Data, data)
	}
	return err
}

// publish writes the locations of c's buffers to this member's slot. It returns c.Data, or its copy in shared
// memory.
func (g *Group) publish(w *window, c *spmd.Collective) (data []byte, err error) {
	s := &w.slots[w.me]
	s.bytes = int64(len(c.Data))
	data, s.data, err = g.staged(c.Data, &g.stage, false)
	if err != nil || c.Kind != spmd.AllToAll && c.Kind != spmd.SendReceive {
		return data, err
	}
	send, inPlace := c.Send, c.Kind == spmd.AllToAll && c.Send == nil
	if inPlace {
		send = c.Data
	}
	if _, s.send, err = g.staged(send, &g.sendStage, inPlace); err != nil {
		return nil, err
	}
	row := w.row(w.me)
	if c.Kind == spmd.SendReceive {
		row[0] = int64(len(send))
		return data, nil
	}
	at, e := s.send, c.DType.Size()
	for m := range row { // row[m] is the location of the block for member m
		row[m] = at
		at += int64(len(block(send, e, c.SendCounts, len(row), m)))
	}
	return data, nil
}

// staged returns b and its location in shared memory. If b is not in shared memory, or if forceCopy is true,
// it returns a copy of b in *stage and the location of the copy.
func (g *Group) staged(b []byte, stage *[]byte, forceCopy bool) (mem []byte, location int64, err error) {
	if at, ok := g.shared.Locate(b); ok && !forceCopy || len(b) == 0 {
		return b, at, nil
	}
	if err := g.grow(stage, len(b)); err != nil {
		return nil, 0, err
	}
	mem = (*stage)[:len(b)]
	at, ok := g.shared.Locate(mem)
	if !ok {
		return nil, 0, fmt.Errorf("no shared memory is left on this node: %d bytes", len(b))
	}
	copy(mem, b)
	return mem, at, nil
}

// reduceTogether runs an allreduce or a reduce.
func reduceTogether(ctx context.Context, t *team, c *spmd.Collective, w *window) error {
	n := len(c.Data)
	if w.arrive() {
		chunks := 0
		if alone := n <= chunk || w.released.Sleepers.Load() > 0 && n*t.size() <= maxAlone; alone {
			if err := reduceViews(t, c, w, 0, n); err != nil {
				return err
			}
		} else {
			chunks = (n + chunk - 1) / chunk
		}
		w.next.Store(0)
		w.left.Store(uint32(chunks))
		w.chunks.Store(uint32(chunks))
		w.release()
	} else if err := w.await(ctx); err != nil {
		return err
	}
	chunks := int(w.chunks.Load())
	if chunks == 0 {
		return nil
	}
	for i := int(w.next.Add(1)) - 1; i < chunks; i = int(w.next.Add(1)) - 1 {
		if err := reduceViews(t, c, w, i*chunk, min((i+1)*chunk, n)); err != nil {
			return err
		}
		if w.left.Add(^uint32(0)) == 0 {
			w.shared.Post(&w.finished, w.phase)
		}
	}
	return w.awaitSignal(ctx, &w.finished)
}

// reduceViews reduces bytes [lo, hi) of every member's Data. It writes the result to every member's Data, or only to
// the root's Data.
func reduceViews(t *team, c *spmd.Collective, w *window, lo, hi int) error {
	g := t.g
	g.pieces = g.pieces[:0]
	for m := range t.size() {
		d, err := w.data(m, len(c.Data))
		if err != nil {
			return err
		}
		g.pieces = append(g.pieces, d)
	}
	dsts := g.pieces
	if c.Kind == spmd.Reduce {
		dsts = g.pieces[c.Root : c.Root+1]
	}
	t.g.sums.reduce(c.DType, c.Op, dsts, g.pieces, lo, hi)
	return nil
}

// broadcastInline broadcasts a short vector through the window. The root overwrites a buffer only after the next
// barrier. A member enters that barrier only after it has copied the vector.
func broadcastInline(ctx context.Context, t *team, c *spmd.Collective, w *window) error {
	small := &w.small[(w.phase+1)%2]
	if t.me == c.Root {
		small.bytes = int64(len(c.Data))
		copy(small.data[:], c.Data)
	}
	if err := w.barrier(ctx); err != nil || t.me == c.Root {
		return err
	}
	if int(small.bytes) != len(c.Data) {
		return w.otherLength(c.Root, int(small.bytes), len(c.Data))
	}
	copy(c.Data, small.data[:])
	return nil
}

// pull reads this member's result of c from the other members' buffers into data.
func pull(t *team, c *spmd.Collective, w *window, data []byte) error {
	switch c.Kind {
	case spmd.Broadcast:
		if t.me == c.Root {
			return nil
		}
		d, err := w.data(c.Root, len(data))
		copy(data, d)
		return err
	case spmd.ReduceScatter:
		return pullReduction(t, c, w, data)
	case spmd.Scatter:
		return pullScatter(t, c, w, data)
	case spmd.SendReceive:
		if n := w.row(c.From)[0]; int(n) != len(data) {
			return fmt.Errorf("member %d sends %d bytes where %d are expected", c.From, n, len(data))
		}
		return w.read(c.From, w.slots[c.From].send, data)
	case spmd.Gather:
		if t.me != c.Root {
			return nil
		}
	}
	for i := range t.size() { // each member reads from a different peer first
		m := (t.me + i) % t.size()
		mine := t.block(data, c, m)
		var d []byte
		var err error
		switch {
		case c.Kind == spmd.AllToAll:
			err = w.read(m, w.row(m)[t.me], mine)
		case m == t.me:
		case c.Kind == spmd.AllGather:
			d, err = w.data(m, len(data))
			if err == nil {
				copy(mine, t.block(d, c, m))
			}
		default:
			d, err = w.data(m, len(mine))
			copy(mine, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pullReduction(t *team, c *spmd.Collective, w *window, data []byte) error {
	g := t.g
	g.pieces = g.pieces[:0]
	for m := range t.size() {
		d, err := w.data(m, len(data))
		if err != nil {
			return err
		}
		g.pieces = append(g.pieces, t.block(d, c, t.me))
	}
	g.dsts = append(g.dsts[:0], t.block(data, c, t.me))
	t.g.sums.reduce(c.DType, c.Op, g.dsts, g.pieces, 0, len(g.dsts[0]))
	return nil
}

func pullScatter(t *team, c *spmd.Collective, w *window, data []byte) error {
	if t.me == c.Root {
		return nil
	}
	lo, total := t.me*len(data), t.size()*len(data)
	if c.Counts != nil {
		lo, total = 0, 0
		for m, k := range c.Counts {
			if m < t.me {
				lo += k * c.DType.Size()
			}
			total += k * c.DType.Size()
		}
	}
	whole, err := w.data(c.Root, total)
	if err == nil {
		copy(data, whole[lo:])
	}
	return err
}
