package spmd

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/tensor"
)

// An inbox holds queues: those of one consumer, which owns the inbox, or those that the consumers of
// a channel share, which a goroutine of the process owns. Members in the process use it directly,
// under mu. Only the owner talks to remote members, over port.
type inbox struct {
	c      *Channel
	member int   // of the channel's communicator
	port   *port // nil: all peers are in this process
	shared bool

	mu      sync.Mutex
	queues  map[string]*queue
	order   []*queue      // in the order they were made
	senders []int         // producers that may put here
	left    []int         // those of them that closed their side
	changed []*queue      // by others than the owner, which has to see to them before it sleeps
	asleep  bool          // the owner waits for messages, and a bell would wake it
	bell    chan struct{} // what wakes it where there is no port

	// The owner's alone.
	links   []*link
	askers  []*asker
	bells   []*caller
	replies []*slab
	events  []event
	reqs    []Request // of events
	turn    int
}

// A link is the control line of a producer elsewhere.
type link struct {
	member int
	note   [noteBytes]byte
	req    Request
	tags   map[int]*source
}

// A caller is a member of this process that may ring the bell.
type caller struct {
	member int
	req    Request
}

// newInbox makes the inbox of a member of the communicator, with receives posted for what may come.
// askers are the members that share it, nil for the inbox of one.
func newInbox(c *Channel, member int, members []int, p *port, senders, askers []int) (*inbox, error) {
	b := &inbox{c: c, member: member, shared: askers != nil, queues: make(map[string]*queue), senders: senders,
		bell: make(chan struct{}, 1)}
	here := func(m int) bool { return members[m] == c.w.Rank() }
	if !slices.ContainsFunc(slices.Concat(senders, askers), func(m int) bool { return !here(m) }) {
		return b, nil
	}
	b.port = p
	for _, m := range senders {
		if here(m) {
			b.bells = append(b.bells, &caller{member: m})
			continue
		}
		l := &link{member: m, tags: make(map[int]*source)}
		if err := b.listen(l); err != nil {
			return nil, err
		}
		b.links = append(b.links, l)
	}
	for _, m := range askers {
		if here(m) {
			b.bells = append(b.bells, &caller{member: m})
			continue
		}
		a := &asker{member: m, keys: make(map[string]*answer)}
		if err := b.attend(a); err != nil {
			return nil, err
		}
		b.askers = append(b.askers, a)
	}
	for _, l := range b.bells {
		if err := b.hear(l); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *inbox) listen(l *link) (err error) {
	l.req, err = b.port.comm.Irecv(l.note[:], l.member, tagControl)
	return err
}

func (b *inbox) hear(l *caller) (err error) {
	l.req, err = b.port.comm.Irecv(nil, l.member, tagBell)
	return err
}

// queue returns the queue of a key, new at its first use.
func (b *inbox) queue(name []byte) *queue {
	if q := b.queues[string(name)]; q != nil {
		return q
	}
	q := &queue{name: string(name), maxsize: b.c.spec.MaxSize, producers: len(b.senders), gone: len(b.left)}
	b.queues[q.name] = q
	b.order = append(b.order, q)
	return q
}

// slab returns one from the pool of q.
func (b *inbox) slab(q *queue) (*slab, error) {
	if n := len(q.pool); n > 0 {
		sl := q.pool[n-1]
		q.pool = q.pool[:n-1]
		if b.c.w.job.opts.Debug && !sl.spoiled() {
			return nil, fmt.Errorf("key %q: an item was written after its release", q.name)
		}
		return sl, nil
	}
	sl, err := newSlab(b.c.w.Alloc, b.c.spec.ItemBytes)
	if err != nil {
		return nil, err
	}
	sl.queue = q
	return sl, nil
}

// recycle puts a slab back.
func (b *inbox) recycle(sl *slab) {
	if b.c.w.job.opts.Debug {
		sl.spoil()
	}
	sl.phase, sl.src, sl.item.Dict = free, nil, tensor.Dict{}
	sl.queue.pool = append(sl.queue.pool, sl)
}

// rouse handles a change of q by a caller that is not the owner, with mu held. It reports whether
// the owner sleeps and must be woken by ring.
func (b *inbox) rouse(q *queue) bool {
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

// ring wakes the owner through p, the caller's port. Called without mu.
func (b *inbox) ring(p *port) error { return p.post(nil, b.member, tagBell) }

// leave notes that a producer has closed its side: queues that it never joined wait for it no
// longer. With mu held.
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

// park waits for a token of wake.
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
