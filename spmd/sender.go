package spmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// A Sender puts items under one key of a Channel:
//
//	it, err := s.Take(ctx, layout)         // waits until the key has room
//	copy(it.Dict.Must("reward").F32(), r)  // fill it in place
//	err = s.Put(ctx, it)                   // now the consumer owns the item
//
// Only one goroutine at a time may use the Senders and Receivers of a member. Take allocates only for
// the first items of a layout.
type Sender struct {
	c      *Channel
	key    Key
	member int
	port   *port
	closed bool
	number int64 // number of the next Put
	room   Span
	puts   Span
	// slabs holds slabs for the producer to fill. If the consumer is in this process, items use slabs of the
	// consumer's queue instead, except in debug mode.
	slabs []*slab

	// The next two fields are used if the owner of the key is in this process.
	box *inbox
	src *source
	// The fields below are used if the owner is remote.
	to      int
	tag     int
	credit  [1]Request // receive of the next credit
	credits int        // credits held; the producer starts with one
	sent    int
	known   *tensor.Layout // layout that the owner knows
	wire    []*slab        // slabs to send from, in debug mode
	notes   [2][noteBytes]byte
}

func (c *Channel) newSender(m *Member, key Key) (*Sender, error) {
	member := m.Index()
	s := &Sender{c: c, key: key, member: member, port: c.producers[member],
		room: NewSpan(m.recorder, c.site(OpRoom, key, c.spec.To)),
		puts: NewSpan(m.recorder, c.site(OpPut, key, c.spec.To))}
	s.to, s.box = c.ownerOf(key)
	if s.box != nil {
		s.src = &source{member: member, wake: make(chan struct{}, 1)}
		s.box.mu.Lock()
		s.box.queue([]byte(key.Name)).join(s.src)
		s.box.mu.Unlock()
		return s, nil
	}
	var err error
	if s.tag, err = c.tag(member, s.to, 1); err != nil {
		return nil, err
	}
	if err := s.awaitCredit(); err != nil {
		return nil, err
	}
	s.credits = 1
	return s, s.port.post(note{op: opOpen, tag: s.tag, name: key.Name}.write(s.notes[0][:]), s.to, tagControl)
}

func (s *Sender) awaitCredit() (err error) {
	s.credit[0], err = s.port.comm.Irecv(nil, s.to, s.tag)
	return err
}

// Take waits until the key has room, and returns an item with this layout. The item's contents are undefined.
func (s *Sender) Take(ctx context.Context, layout *tensor.Layout) (*Item, error) {
	return s.take(ctx, layout, true)
}

// TryTake is like Take, but returns ErrFull if the key has no room.
func (s *Sender) TryTake(layout *tensor.Layout) (*Item, error) {
	return s.take(context.Background(), layout, false)
}

func (s *Sender) take(ctx context.Context, layout *tensor.Layout, block bool) (*Item, error) {
	if s.closed {
		return nil, s.errorf("take", ErrClosed)
	}
	if layout.Size() > s.c.spec.ItemBytes {
		return nil, s.errorf("take", fmt.Errorf("a layout of %d bytes, items have at most %d", layout.Size(),
			s.c.spec.ItemBytes))
	}
	sl, err := s.slab(ctx, false)
	if err == ErrFull && block {
		s.room.Begin()
		sl, err = s.slab(ctx, true)
		s.room.End(int64(s.key.To), 0)
	}
	if err == ErrFull {
		return nil, err
	}
	if err != nil {
		return nil, s.errorf("take", err)
	}
	sl.item = Item{From: s.member, slab: sl}
	sl.bind(layout)
	sl.phase, sl.sender = taken, s
	return &sl.item, nil
}

// slab returns memory for an item. If the key has no room, slab waits for room or, if block is false, returns ErrFull.
func (s *Sender) slab(ctx context.Context, block bool) (*slab, error) {
	if s.box != nil {
		return s.takeHere(ctx, block)
	}
	return s.takeThere(ctx, block)
}

func (s *Sender) takeHere(ctx context.Context, block bool) (*slab, error) {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	for s.src.owed == 0 {
		if !block {
			return nil, ErrFull
		}
		s.box.mu.Unlock()
		err := park(ctx, s.src.wake, s.c.w.job.end)
		s.box.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	s.src.owed--
	if s.debug() {
		return s.freeSlab(&s.slabs, true)
	}
	return s.box.slab(s.src.queue)
}

func (s *Sender) takeThere(ctx context.Context, block bool) (*slab, error) {
	if s.credits == 0 {
		if block {
			if err := s.port.comm.Wait(ctx, s.credit[:]); err != nil {
				return nil, err
			}
		} else if ok, err := s.port.comm.Test(&s.credit[0]); !ok || err != nil {
			if err == nil {
				err = ErrFull
			}
			return nil, err
		}
		s.credits++
		if err := s.awaitCredit(); err != nil {
			return nil, err
		}
	}
	s.credits--
	return s.freeSlab(&s.slabs, s.debug())
}

func (s *Sender) debug() bool { return s.c.w.job.opts.Debug }

var errWritten = errors.New("an item was written after its Put")

// freeSlab returns an unused slab of the pool, or a new slab. A pool has at most one slab for each credit of the
// producer. If poisoned is true, freeSlab checks that nobody wrote to the slab after its release.
func (s *Sender) freeSlab(pool *[]*slab, poisoned bool) (*slab, error) {
	for _, sl := range *pool {
		if sl.phase == taken {
			continue
		}
		if sl.req.Handle != 0 {
			if ok, err := s.port.comm.Test(&sl.req); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		if poisoned && !sl.spoiled() {
			return nil, errWritten
		}
		return sl, nil
	}
	sl, err := newSlab(s.c.w.Alloc, s.c.spec.ItemBytes)
	if err != nil {
		return nil, err
	}
	*pool = append(*pool, sl)
	return sl, nil
}

var errNotTaken = errors.New("it was not taken from this sender, or was put already")

// Put passes the item to the consumer. It does not wait, because Take has already waited for room.
func (s *Sender) Put(ctx context.Context, it *Item) error {
	if err := context.Cause(ctx); err != nil {
		return s.errorf("put", err)
	}
	sl := it.slab
	if sl == nil || sl.phase != taken || sl.sender != s || it != &sl.item {
		return s.errorf("put", errNotTaken)
	}
	if s.closed {
		return s.errorf("put", ErrClosed)
	}
	s.puts.Mark(int64(s.key.To)) // before the consumer can get the item
	it.number = s.number
	s.number++
	var err error
	if s.box != nil {
		err = s.putHere(sl)
	} else {
		err = s.putThere(sl)
	}
	if err != nil {
		return s.errorf("put", err)
	}
	return nil
}

func (s *Sender) putHere(sl *slab) error {
	b, q := s.box, s.src.queue
	b.mu.Lock()
	if s.debug() {
		to, err := b.slab(q)
		if err != nil {
			b.mu.Unlock()
			return err
		}
		sl = s.spend(sl, to)
	}
	q.arrive(s.src, sl)
	return s.matchAndUnlock()
}

// matchAndUnlock serves the queue of this sender after a change, unlocks its inbox and wakes the owner if needed.
func (s *Sender) matchAndUnlock() error {
	b, q := s.box, s.src.queue
	err := b.match(q, false)
	ring := b.markChanged(q)
	b.mu.Unlock()
	if err == nil && ring {
		err = b.ring(s.port)
	}
	return err
}

func (s *Sender) putThere(sl *slab) error {
	if s.debug() {
		to, err := s.freeSlab(&s.wire, false)
		if err != nil {
			return err
		}
		sl = s.spend(sl, to)
	}
	msg, err := sl.pack(sl.layout != s.known)
	if err != nil {
		return err
	}
	s.known = sl.layout
	sl.phase, sl.item.Dict = busy, tensor.Dict{}
	if sl.req, err = s.port.comm.Isend(msg, s.to, s.tag); err != nil {
		return err
	}
	s.sent++
	return nil
}

// spend moves an item from src to dst, and returns dst. It poisons src, because the producer may still refer to src.
func (s *Sender) spend(src, dst *slab) *slab {
	dst.copyFrom(src)
	src.spoil()
	src.phase, src.item.Dict = free, tensor.Dict{}
	return dst
}

// Close ends the stream of items. Items that were taken but not put are lost. Closing twice does
// nothing.
func (s *Sender) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.box == nil {
		err = s.port.post(note{op: opClose, tag: s.tag, count: s.sent}.write(s.notes[1][:]), s.to, tagControl)
	} else {
		s.box.mu.Lock()
		s.src.queue.close(s.src, s.src.arrived)
		err = s.matchAndUnlock()
	}
	if err != nil {
		return s.errorf("close", err)
	}
	return nil
}

// leave notifies every inbox that a producer will open no more keys.
func (c *Channel) leave(member int) error {
	p := c.producers[member]
	from, to := len(c.spec.From.Ranks), len(c.spec.To.Ranks)
	for m := range to + len(c.owners) {
		box := c.owned
		if m < to {
			if !c.spec.Pairs(member, m) {
				continue
			}
			box = c.inboxes[m]
		} else if c.owners[m-to] != c.w.Rank() {
			box = nil
		}
		if box == nil {
			if err := p.post(note{op: opLeave}.write(make([]byte, noteBytes)), from+m, tagControl); err != nil {
				return err
			}
			continue
		}
		box.mu.Lock()
		err := box.leave(member, false)
		ring := false
		for _, q := range box.order {
			ring = box.markChanged(q) || ring
		}
		box.mu.Unlock()
		if err == nil && ring {
			err = box.ring(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drain waits until the sends of all items are done.
func (s *Sender) drain(ctx context.Context) error {
	if s.box != nil {
		return nil
	}
	for _, pool := range [][]*slab{s.slabs, s.wire} {
		for _, sl := range pool {
			reqs := [1]Request{sl.req}
			if err := s.port.comm.Wait(ctx, reqs[:]); err != nil {
				return err
			}
			sl.req = Request{}
		}
	}
	return nil
}

// cancel cancels the receive of the next credit.
func (s *Sender) cancel(ctx context.Context) error {
	if s.box != nil {
		return nil
	}
	return s.port.cancel(ctx, &s.credit[0])
}

func (s *Sender) errorf(op string, cause error) error {
	return fmt.Errorf("channel %q: key %v: %s: %w", s.c.spec.Name, s.key, op, cause)
}
