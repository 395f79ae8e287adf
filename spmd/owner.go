package spmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// This file holds the code of an inbox's owner, which waits for messages and handles them. All its functions
// need inbox.mu to be locked. The method wait unlocks mu while the owner sleeps.

// An event is a pending request of the owner.
type event struct {
	kind   eventKind
	req    *Request
	source *source
	index  int
}

type eventKind uint8

const (
	itemCame    eventKind = iota // an item arrived from source
	controlCame                  // a control message arrived from links[index]
	bellRang                     // bells[index] woke the owner
	requestCame                  // a request arrived from requesters[index]
	replyLeft                    // the send of replies[index] is done
)

// sendCredits sends remote producers the credits that q owes them. For each credit it first posts a receive.
func (b *inbox) sendCredits(q *queue) error {
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
			if s.first {
				s.first = false // the producer has had this credit since it opened the key
				continue
			}
			if err := b.port.post(nil, s.member, s.tag); err != nil {
				return err
			}
		}
	}
	return nil
}

var errNoPeers = errors.New("nobody is left to wait for")

// wait sleeps until a message for q arrives, and handles it. If q is nil, wait handles a message for any queue.
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
		if err := b.sendCredits(q); err != nil {
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
		return errNoPeers
	}
	*b.events[i].req = b.reqs[i]
	return b.handle(b.events[i])
}

// poll handles all messages for q that have arrived.
func (b *inbox) poll(q *queue) error {
	q.polled = 0
	if b.port == nil {
		return nil
	}
	for {
		b.gather(q)
		i, err := b.findDone()
		if i < 0 || err != nil {
			return err
		}
		if err := b.handle(b.events[i]); err != nil { // handle may change the list of events
			return err
		}
	}
}

// findDone returns the index of a completed event, or -1 if there is none.
func (b *inbox) findDone() (int, error) {
	for i, e := range b.events {
		if ok, err := b.port.comm.Test(e.req); ok || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// gather lists the requests to wait for. The order rotates from call to call, so that no source
// starves.
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
		b.expect(event{kind: controlCame, req: &l.req, index: i})
	}
	for i, l := range b.bells {
		b.expect(event{kind: bellRang, req: &l.req, index: i})
	}
	for i, a := range b.requesters {
		b.expect(event{kind: requestCame, req: &a.req, index: i})
	}
	for i, sl := range b.replies {
		b.expect(event{kind: replyLeft, req: &sl.req, index: i})
	}
}

func (b *inbox) expect(e event) {
	if e.req.Handle == 0 {
		return
	}
	b.events = append(b.events, e)
	b.reqs = append(b.reqs, *e.req)
}

func (b *inbox) handle(e event) error {
	switch e.kind {
	case itemCame:
		return b.accept(e.source)
	case controlCame:
		l := b.links[e.index]
		if err := b.control(l); err != nil {
			return fmt.Errorf("from producer %d: %w", l.member, err)
		}
		return b.awaitControl(l)
	case bellRang:
		return b.awaitBell(b.bells[e.index])
	case requestCame:
		a := b.requesters[e.index]
		if err := b.request(a); err != nil {
			return fmt.Errorf("from consumer %d: %w", a.member-len(b.c.spec.From.Ranks), err)
		}
		return b.awaitRequest(a)
	case replyLeft:
		b.recycle(b.replies[e.index])
		b.replies = slices.Delete(b.replies, e.index, e.index+1)
	}
	return nil
}

// accept queues the item that arrived from s.
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

// settle serves waiting consumers after a change of s. If s has ended, it also cancels the receives
// posted for s.
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
	return b.sendCredits(s.queue)
}

// control handles a producer's control message.
func (b *inbox) control(l *link) error {
	n, name, err := readNote(l.note[:l.req.N])
	if err != nil {
		return err
	}
	switch n.op {
	case opOpen:
		s := &source{member: l.member, remote: true, first: true, tag: n.tag}
		l.tags[n.tag] = s
		b.queue(name).join(s)
		return b.sendCredits(s.queue)
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

// drain waits until the sends of all replies are done.
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

// cancel cancels all receives of the owner, when the channel closes.
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
