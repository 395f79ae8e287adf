package spmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/tensor"
)

// An inbox is the home of queues: those of one consumer, which owns it, or those that the consumers of a channel share, which a goroutine
// of its process owns. Who is in the process uses it directly, under mu; the owner alone talks to the others, over port.
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

// An event is something that an owner waits for.
type event struct {
	kind   eventKind
	req    *Request
	source *source
	at     int
}

type eventKind uint8

const (
	itemCame    eventKind = iota // of source
	controlCame                  // of links[at]
	bellRang                     // of bells[at]
	requestCame                  // of askers[at]
	replyLeft                    // replies[at]
)

// newInbox makes the inbox of a member of the communicator, with receives posted for what may come. askers are the members that share it, nil for
// the inbox of one.
func newInbox(c *Channel, member int, members []int, p *port, senders, askers []int) (*inbox, error) {
	b := &inbox{c: c, member: member, shared: askers != nil, queues: make(map[string]*queue), senders: senders, bell: make(chan struct{}, 1)}
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

// rouse is called after a change of q by someone who is not the owner, with mu held: it reports whether the owner sleeps and is to be rung for.
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

// ring wakes the owner through p, the port of who changed something. Called without mu.
func (b *inbox) ring(p *port) error { return p.post(nil, b.member, tagBell) }

// pay posts the receives for the credits of q that are owed to producers elsewhere, and tells these. For the owner, with mu held.
func (b *inbox) pay(q *queue) error {
	for _, s := range q.sources {
		for s.remote && s.owed > 0 {
			sl, err := b.slab(q)
			if err != nil {
				return err
			}
			if sl.req, err = b.port.comm.Irecv(sl.mem, s.member, s.tag); err != nil {
				return err
			}
			sl.phase = busy
			s.posted = append(s.posted, sl)
			s.owed--
			if err := b.port.post(nil, s.member, s.tag); err != nil {
				return err
			}
		}
	}
	return nil
}

var errDeaf = errors.New("nobody is left to wait for")

// wait lets the owner sleep until something happens that may concern q, or any queue if q is nil, and deals with it. mu is held before and after.
func (b *inbox) wait(ctx context.Context, q *queue) error {
	if b.port == nil {
		b.mu.Unlock()
		defer b.mu.Lock()
		return park(ctx, b.bell, b.c.w.job.end)
	}
	for _, q := range b.changed {
		if err := b.match(q, true); err != nil {
			return err
		}
		if err := b.pay(q); err != nil {
			return err
		}
	}
	b.changed = b.changed[:0]
	b.gather(q)
	b.asleep = true
	b.mu.Unlock()
	i, err := b.port.comm.WaitAny(ctx, b.reqs)
	b.mu.Lock()
	b.asleep = false
	if err != nil {
		return err
	}
	if i < 0 {
		return errDeaf
	}
	*b.events[i].req = b.reqs[i]
	return b.handle(b.events[i])
}

// poll deals with all that has happened to q already. For the owner, with mu held.
func (b *inbox) poll(q *queue) error {
	q.polled = 0
	if b.port == nil {
		return nil
	}
	for {
		b.gather(q)
		i, err := b.done()
		if i < 0 || err != nil {
			return err
		}
		if err := b.handle(b.events[i]); err != nil { // which may change what there is to wait for
			return err
		}
	}
}

// done returns the first of events that has happened, -1 if none has.
func (b *inbox) done() (int, error) {
	for i, e := range b.events {
		if ok, err := b.port.comm.Test(e.req); ok || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// gather lists what to wait for. The sources take turns in being first, so that none is always overtaken.
func (b *inbox) gather(q *queue) {
	b.events, b.reqs = b.events[:0], b.reqs[:0]
	b.turn++
	if b.turn%2 == 0 {
		b.gatherLines()
	}
	if q != nil {
		b.gatherItems(q)
	} else {
		for i := range b.order {
			b.gatherItems(b.order[(i+b.turn)%len(b.order)])
		}
	}
	if b.turn%2 == 1 {
		b.gatherLines()
	}
}

func (b *inbox) gatherItems(q *queue) {
	for i := range q.sources {
		s := q.sources[(i+b.turn)%len(q.sources)]
		if len(s.posted) > 0 {
			b.expect(event{kind: itemCame, req: &s.posted[0].req, source: s})
		}
	}
}

func (b *inbox) gatherLines() {
	for i, l := range b.links {
		b.expect(event{kind: controlCame, req: &l.req, at: i})
	}
	for i, l := range b.bells {
		b.expect(event{kind: bellRang, req: &l.req, at: i})
	}
	for i, a := range b.askers {
		b.expect(event{kind: requestCame, req: &a.req, at: i})
	}
	for i, sl := range b.replies {
		b.expect(event{kind: replyLeft, req: &sl.req, at: i})
	}
}

func (b *inbox) expect(e event) {
	if e.req.Handle == 0 {
		return
	}
	b.events = append(b.events, e)
	b.reqs = append(b.reqs, *e.req)
}

// handle deals with an event whose request is done.
func (b *inbox) handle(e event) error {
	switch e.kind {
	case itemCame:
		return b.accept(e.source)
	case controlCame:
		l := b.links[e.at]
		if err := b.control(l); err != nil {
			return fmt.Errorf("from producer %d: %w", l.member, err)
		}
		return b.listen(l)
	case bellRang:
		return b.hear(b.bells[e.at])
	case requestCame:
		a := b.askers[e.at]
		if err := b.request(a); err != nil {
			return fmt.Errorf("from consumer %d: %w", a.member-len(b.c.spec.From.Ranks), err)
		}
		return b.attend(a)
	case replyLeft:
		b.recycle(b.replies[e.at])
		b.replies = slices.Delete(b.replies, e.at, e.at+1)
	}
	return nil
}

// accept queues the item that came from s.
func (b *inbox) accept(s *source) error {
	sl := s.posted[0]
	s.posted = s.posted[:copy(s.posted, s.posted[1:])]
	h, err := s.decode.unpack(sl, sl.req.N)
	if err == nil && h.kind != isItem {
		err = fmt.Errorf("a message of kind %d", h.kind)
	}
	if err != nil {
		return fmt.Errorf("key %q: from producer %d: %w", s.queue.name, s.member, err)
	}
	sl.item.From = s.member
	s.queue.arrive(s, sl)
	return b.settle(s)
}

// settle follows up on a change of s: what waits is served, and when s has ended its receives are taken back.
func (b *inbox) settle(s *source) error {
	if s.done {
		for _, sl := range s.posted {
			if err := b.port.cancel(b.c.w.job.end, &sl.req); err != nil {
				return err
			}
			b.recycle(sl)
		}
		s.posted = s.posted[:0]
	}
	if err := b.match(s.queue, true); err != nil {
		return err
	}
	return b.pay(s.queue)
}

// control does what a producer's note says.
func (b *inbox) control(l *link) error {
	n, name, err := readNote(l.note[:l.req.N])
	if err != nil {
		return err
	}
	switch n.op {
	case opOpen:
		s := &source{member: l.member, remote: true, tag: n.tag}
		l.tags[n.tag] = s
		b.queue(name).join(s)
		return b.pay(s.queue)
	case opClose:
		s := l.tags[n.tag]
		if s == nil {
			return fmt.Errorf("a close of tag %d, which is not open", n.tag)
		}
		s.queue.close(s, uint64(n.count))
		return b.settle(s)
	case opLeave:
		return b.leave(l.member, true)
	}
	return fmt.Errorf("a note with op %d", n.op)
}

// leave notes that a producer has closed its side: queues that it never joined wait for it no longer. With mu held.
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

// drain waits for the replies under way.
func (b *inbox) drain(ctx context.Context) error {
	for _, sl := range b.replies {
		b.reqs = append(b.reqs[:0], sl.req)
		if err := b.port.comm.Wait(ctx, b.reqs); err != nil {
			return err
		}
		sl.req = Request{}
	}
	return b.port.drain(ctx)
}

// cancel takes back all receives.
func (b *inbox) cancel(ctx context.Context) error {
	if b.port == nil {
		return nil
	}
	b.events = b.events[:0]
	b.gather(nil)
	for _, e := range b.events {
		if e.kind == itemCame {
			continue
		}
		if err := b.port.cancel(ctx, e.req); err != nil {
			return err
		}
	}
	for _, q := range b.order {
		for _, s := range q.sources {
			for _, sl := range s.posted {
				if err := b.port.cancel(ctx, &sl.req); err != nil {
					return err
				}
			}
		}
	}
	return b.port.drain(ctx)
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
