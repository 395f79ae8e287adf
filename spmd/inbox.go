package spmd

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// An inbox holds queues and has one owner. A consumer owns the inbox for its own keys. A goroutine of the
// process owns the inbox for shared keys. Members in the owner's process lock mu and use the queues directly.
// Only the owner exchanges messages with remote members, over port.
type inbox struct {
	c      *Channel
	member int   // the owner's number in the channel's communicator
	port   *port // nil if all peers are in this process
	shared bool

	mu      sync.Mutex
	queues  map[string]*queue
	order   []*queue      // in the order of their creation
	senders []int         // producers that may put items
	left    []int         // senders that have closed the channel
	changed []*queue      // queues that other goroutines changed; the owner processes them before it sleeps
	asleep  bool          // the owner waits for messages; the method ring wakes it
	bell    chan struct{} // wakes the owner if port is nil

	// Only the owner uses the fields below.
	links      []*link
	requesters []*requester
	bells      []*ringer
	replies    []*slab
	events     []event
	reqs       []Request // the request of each event
	turn       int
}

// A link receives the control messages of a producer in another process.
type link struct {
	member int
	note   [noteBytes]byte
	req    Request
	tags   map[int]*source
}

// A ringer is a member of the owner's process that may wake the owner by a message.
type ringer struct {
	member int
	req    Request
}

// newInbox makes the inbox of a member of the communicator and posts its receives. requesters lists the
// consumers of shared keys; it is nil for the inbox of a single consumer.
func newInbox(c *Channel, member int, members []int, p *port, senders, requesters []int) (*inbox, error) {
	b := &inbox{c: c, member: member, shared: requesters != nil, queues: make(map[string]*queue), senders: senders,
		bell: make(chan struct{}, 1)}
	here := func(m int) bool { return members[m] == c.w.Rank() }
	if !slices.ContainsFunc(slices.Concat(senders, requesters), func(m int) bool { return !here(m) }) {
		return b, nil
	}
	b.port = p
	for _, m := range senders {
		if here(m) {
			b.bells = append(b.bells, &ringer{member: m})
			continue
		}
		l := &link{member: m, tags: make(map[int]*source)}
		if err := b.awaitControl(l); err != nil {
			return nil, err
		}
		b.links = append(b.links, l)
	}
	for _, m := range requesters {
		if here(m) {
			b.bells = append(b.bells, &ringer{member: m})
			continue
		}
		a := &requester{member: m, keys: make(map[string]*answer)}
		if err := b.awaitRequest(a); err != nil {
			return nil, err
		}
		b.requesters = append(b.requesters, a)
	}
	for _, l := range b.bells {
		if err := b.awaitBell(l); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *inbox) awaitControl(l *link) (err error) {
	l.req, err = b.port.comm.Irecv(l.note[:], l.member, tagControl)
	return err
}

func (b *inbox) awaitBell(l *ringer) (err error) {
	l.req, err = b.port.comm.Irecv(nil, l.member, tagBell)
	return err
}

// queue returns the queue of a key. The first call makes it.
func (b *inbox) queue(name []byte) *queue {
	if q := b.queues[string(name)]; q != nil {
		return q
	}
	q := &queue{name: string(name), maxsize: b.c.spec.MaxSize, producers: len(b.senders), gone: len(b.left)}
	b.queues[q.name] = q
	b.order = append(b.order, q)
	return q
}

// slab returns a free slab of q's pool, or a new slab.
func (b *inbox) slab(q *queue) (*slab, error) {
	sl, err := q.pool.get(b.c)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", q.name, err)
	}
	sl.queue = q
	return sl, nil
}

func (b *inbox) recycle(sl *slab) {
	sl.src = nil
	sl.queue.pool.put(b.c, sl)
}

// markChanged records that a goroutine other than the owner's changed q. The caller holds mu. If the result
// is true, the owner sleeps, and the caller must wake it by calling ring.
func (b *inbox) markChanged(q *queue) bool {
	if b.port == nil {
		signal(b.bell)
		return false
	}
	if b.shared && !q.needsOwner() {
		return false
	}
	if !slices.Contains(b.changed, q) {
		b.changed = append(b.changed, q)
	}
	asleep := b.asleep
	b.asleep = false
	return asleep
}

// ring wakes the owner by a message from p, the caller's port. The caller must not hold mu.
func (b *inbox) ring(p *port) error { return p.post(nil, b.member, tagBell) }

// leave records that a producer has closed the channel. Queues that the producer never joined no longer
// wait for this producer. The caller holds mu.
func (b *inbox) leave(member int, owner bool) error {
	b.left = append(b.left, member)
	for _, q := range b.order {
		if q.source(member) == nil {
			q.gone++
			if err := b.match(q, owner); err != nil {
				return err
			}
		}
	}
	return nil
}

// park waits for a token in wake, the end of ctx, or the end of the job.
func park(ctx context.Context, wake chan struct{}, end context.Context) error {
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-end.Done():
		return context.Cause(end)
	}
}
