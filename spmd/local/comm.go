package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rlinf/rlinf/spmd"
)

// eager is the largest size, in bytes, of a small message. The send of a small message copies the message
// and completes at once, even if no receive is posted.
const eager = 4096

// A communicator is the state that the comms of all its members share. Its mu guards these comms, too. No goroutine
// holds mu while it copies data or waits.
type communicator struct {
	world  *world
	label  string
	ranks  []int        // world rank of each member
	ends   []*comm      // one per member
	need   int          // number of ranks that have not called NewComm; guarded by world.mu
	joined map[int]bool // ranks that have called NewComm; guarded by world.mu

	mu   sync.Mutex
	free *parcel // unused parcels
}

func newCommunicator(w *world, ranks []int, label string) *communicator {
	c := &communicator{world: w, label: label, ranks: append([]int(nil), ranks...), joined: make(map[int]bool)}
	distinct := make(map[int]bool)
	for m, r := range ranks {
		c.ends = append(c.ends, &comm{shared: c, rank: m, wake: make(chan struct{}, 1)})
		distinct[r] = true
	}
	c.need = len(distinct)
	return c
}

// join records that a rank has called NewComm, and reports whether all ranks have called it.
func (c *communicator) join(rank int) bool {
	c.joined[rank] = true
	c.need--
	return c.need == 0
}

var _ spmd.Comm = (*comm)(nil)

// A comm is one member's end of a communicator.
type comm struct {
	shared *communicator
	rank   int
	wake   chan struct{} // holds a token when a request of this comm is done
	served bool          // still used after the members' programs have ended: see Outlast

	// Guarded by shared.mu.
	waiting bool
	closed  bool
	posted  queues // receives without a message
	arrived queues // messages without a receive
	ops     []*op  // handle h refers to ops[h-1]
	idle    []*op  // ops that are not in use
}

// An op is one send or receive of a comm. While no receive matches a large send, the op of the send is in the
// receiver's queues arrived.
type op struct {
	link   link
	handle uint64
	owner  *comm
	kind   kind
	buf    []byte
	from   int // sending member
	to     int // receiving member
	tag    int
	state  state
	n      int
	err    error
	cargo  *parcel // copy of a small message without a receive; buf is then unused
	due    int64   // arrival time of a small message, by the clock of the line
}

// A parcel is the memory for the copy of one small message.
type parcel struct {
	next *parcel
	op   op
	mem  [eager]byte
}

type kind uint8

const (
	send kind = iota
	recv
)

func (k kind) String() string { return [...]string{"send to", "receive from"}[k] }

type state uint8

const (
	idle    state = iota
	pending       // in a queue
	matched       // being copied
	done
)

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return len(c.shared.ends) }

func (c *comm) WorldRank(m int) int { return c.shared.ranks[m] }

func (c *comm) Isend(b []byte, to, tag int) (spmd.Request, error) {
	if err := c.check(send, to, tag); err != nil {
		return spmd.Request{}, err
	}
	s, dst := c.shared, c.shared.ends[to]
	s.mu.Lock()
	if c.closed {
		s.mu.Unlock()
		return spmd.Request{}, c.errorf(send, to, tag, errClosed)
	}
	if r := dst.posted.take(c.rank, tag); r != nil {
		r.state = matched
		s.mu.Unlock()
		r.fill(b)
		s.mu.Lock()
		defer s.mu.Unlock()
		due := s.arrival(c.rank, to, len(b))
		r.completeAt(due)
		if len(b) <= eager || due == 0 {
			return spmd.Request{N: len(b)}, nil
		}
		o := c.op(send, b, c.rank, to, tag)
		o.state, o.n = matched, len(b)
		o.completeAt(due)
		return spmd.Request{Handle: o.handle}, nil
	}
	if len(b) <= eager {
		p := s.parcel()
		p.op = op{kind: send, buf: p.mem[:len(b)], from: c.rank, to: to, tag: tag, state: pending, cargo: p,
			due: s.arrival(c.rank, to, len(b))}
		copy(p.mem[:], b)
		dst.arrived.put(&p.op)
		s.mu.Unlock()
		return spmd.Request{N: len(b)}, nil
	}
	o := c.op(send, b, c.rank, to, tag)
	dst.arrived.put(o)
	h := o.handle
	s.mu.Unlock()
	return spmd.Request{Handle: h}, nil
}

func (c *comm) Irecv(b []byte, from, tag int) (spmd.Request, error) {
	if err := c.check(recv, from, tag); err != nil {
		return spmd.Request{}, err
	}
	s := c.shared
	s.mu.Lock()
	if c.closed {
		s.mu.Unlock()
		return spmd.Request{}, c.errorf(recv, from, tag, errClosed)
	}
	r := c.op(recv, b, from, c.rank, tag)
	m := c.arrived.take(from, tag)
	if m == nil {
		c.posted.put(r)
		s.mu.Unlock()
		return spmd.Request{Handle: r.handle}, nil
	}
	r.state, m.state = matched, matched
	s.mu.Unlock()
	r.fill(m.buf)
	s.mu.Lock()
	if m.cargo != nil {
		r.completeAt(m.due)
		s.release(m.cargo)
	} else {
		due := s.arrival(from, c.rank, len(m.buf))
		m.n = len(m.buf)
		r.completeAt(due)
		m.completeAt(due)
	}
	s.mu.Unlock()
	return spmd.Request{Handle: r.handle}, nil
}

func (c *comm) Wait(ctx context.Context, reqs []spmd.Request) error {
	for {
		news := c.shared.world.news()
		open, err := c.reap(reqs)
		if err != nil || !open {
			return err
		}
		if err := c.park(ctx, news, reqs, false); err != nil {
			return err
		}
	}
}

// reap collects the requests that are done and reports whether a request is still open. If so, the next
// completion wakes c.
func (c *comm) reap(reqs []spmd.Request) (open bool, err error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	for i := range reqs {
		ok, e := c.collect(&reqs[i])
		if e != nil && err == nil {
			err = e
		}
		open = open || !ok
	}
	c.waiting = open
	return open, err
}

func (c *comm) WaitAny(ctx context.Context, reqs []spmd.Request) (int, error) {
	for {
		news := c.shared.world.news()
		i, open, err := c.reapOne(reqs)
		if i >= 0 || !open || err != nil {
			return i, err
		}
		if err := c.park(ctx, news, reqs, true); err != nil {
			return -1, err
		}
	}
}

// reapOne collects the first request that is done and returns its index, or -1. It also reports whether a
// request was open.
func (c *comm) reapOne(reqs []spmd.Request) (i int, open bool, err error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	for i := range reqs {
		if reqs[i].Handle == 0 {
			continue
		}
		open = true
		if ok, err := c.collect(&reqs[i]); ok || err != nil {
			return i, true, err
		}
	}
	c.waiting = open
	return -1, open, nil
}

// park waits until a request of c is done, the channel news is closed, or ctx ends. It returns an error if the wait for
// reqs can never end, because a rank has left: see leftError.
func (c *comm) park(ctx context.Context, news <-chan struct{}, reqs []spmd.Request, waitAny bool) error {
	if w := c.shared.world; w.departures.Load() > 0 && !c.served {
		if err := c.leftError(reqs, waitAny); err != nil {
			return err
		}
	}
	select {
	case <-c.wake:
		return nil
	case <-news:
		return c.shared.world.ended(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *comm) Test(r *spmd.Request) (bool, error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	return c.collect(r)
}

var (
	errClosed  = errors.New("the communicator is closed")
	errMatched = errors.New("a message has matched it")
)

func (c *comm) Cancel(r *spmd.Request) error {
	if r.Handle == 0 {
		return nil
	}
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	o := c.ops[r.Handle-1]
	if o.kind != recv || o.state != pending {
		return fmt.Errorf("cancel: %w", c.errorf(o.kind, o.peer(), o.tag, errMatched))
	}
	c.posted.remove(o)
	c.retire(o)
	*r = spmd.Request{}
	return nil
}

func (c *comm) Close() error {
	s := c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var open []string
	for _, o := range c.ops {
		if o.state != idle {
			open = append(open, fmt.Sprintf("%v member %d tag %d", o.kind, o.peer(), o.tag))
		}
	}
	if open != nil {
		return fmt.Errorf("close communicator %q, member %d: requests nobody waited for: %s", s.label, c.rank,
			strings.Join(open, ", "))
	}
	return nil
}

func (c *comm) check(k kind, peer, tag int) error {
	switch {
	case peer < 0 || peer >= len(c.shared.ends):
		return c.errorf(k, peer, tag, fmt.Errorf("expected a member of 0..%d", len(c.shared.ends)-1))
	case tag < 0 || tag >= spmd.MaxTag:
		return c.errorf(k, peer, tag, fmt.Errorf("expected a tag of 0..%d", spmd.MaxTag-1))
	}
	return nil
}

func (c *comm) errorf(k kind, peer, tag int, cause error) error {
	return fmt.Errorf("communicator %q, member %d: %v member %d, tag %d: %w", c.shared.label, c.rank, k, peer, tag,
		cause)
}

// collect reports whether r is done. If r is done, collect zeroes its handle and sets its N.
func (c *comm) collect(r *spmd.Request) (bool, error) {
	if r.Handle == 0 {
		return true, nil
	}
	o := c.ops[r.Handle-1]
	if o.state != done {
		return false, nil
	}
	*r = spmd.Request{N: o.n}
	err := o.err
	c.retire(o)
	return true, err
}

// op returns an op for a new request of c. It reuses an idle op if there is one.
func (c *comm) op(k kind, b []byte, from, to, tag int) *op {
	var o *op
	if n := len(c.idle); n > 0 {
		o, c.idle = c.idle[n-1], c.idle[:n-1]
	} else {
		o = &op{handle: uint64(len(c.ops) + 1), owner: c}
		c.ops = append(c.ops, o)
	}
	o.kind, o.buf, o.from, o.to, o.tag, o.state, o.n = k, b, from, to, tag, pending, 0
	return o
}

func (c *comm) retire(o *op) {
	o.state, o.buf, o.err = idle, nil, nil
	c.idle = append(c.idle, o)
}

// peer returns the receiving member of a send, or the sending member of a receive.
func (o *op) peer() int {
	if o.kind == send {
		return o.to
	}
	return o.from
}

// fill copies the message b into the buffer of the op o, which is a receive. It needs no lock, because no other
// goroutine uses an op that is being copied.
func (o *op) fill(b []byte) {
	if len(b) > len(o.buf) {
		o.err = o.owner.errorf(recv, o.from, o.tag, fmt.Errorf("a message of %d bytes for a buffer of %d", len(b),
			len(o.buf)))
		return
	}
	o.n = copy(o.buf, b)
}

// complete marks o as done and wakes its owner if the owner waits.
func (o *op) complete() {
	o.state = done
	if c := o.owner; c.waiting {
		c.waiting = false
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// arrival returns the arrival time of a message that is sent now, or 0 if it arrives at once.
func (s *communicator) arrival(from, to, n int) int64 {
	if l := s.world.line; l != nil && s.ranks[from] != s.ranks[to] {
		return l.transmit(s.ranks[from], s.ranks[to], n)
	}
	return 0
}

// completeAt completes o when the line's clock reaches due. If due is 0, it completes o at once.
func (o *op) completeAt(due int64) {
	if due == 0 || !o.owner.shared.world.line.hold(o, due) {
		o.complete()
	}
}

func (s *communicator) parcel() *parcel {
	if p := s.free; p != nil {
		s.free = p.next
		return p
	}
	return new(parcel)
}

func (s *communicator) release(p *parcel) {
	p.next, s.free = s.free, p
}
