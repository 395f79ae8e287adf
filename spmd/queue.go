package spmd

import "slices"

// A queue is one key of a channel, at its owner. It holds the items that have arrived, and the
// credits of each producer. It does no I/O and is not safe for concurrent use; its inbox handles
// both.
//
// Credits: the key has maxsize + 1 for each producer. A producer needs one to send; it comes back
// when the item is taken from the queue, and goes to the producer that has the fewest, so that each
// always has one and a slow one does not hoard them. A remote producer starts with its first credit.
// If it had to wait for the owner's message, two members that open keys to each other could deadlock.
type queue struct {
	name      string
	maxsize   int
	producers int // that may ever put, joined or not
	gone      int // of these, the ones that will put no more

	sources []*source
	items   []*slab // arrived, oldest at first
	first   int
	pool    []*slab // slabs that hold nothing
	layouts []knownLayout
	demands []*demand // consumers that wait, where several share the key
	polled  int       // items popped since the inbox looked at its messages
}

// A source is a producer of a key, as the key's owner sees it.
type source struct {
	queue  *queue
	member int // among the producers
	owed   int // credits granted that it has not been given yet
	out    int // credits it has or is owed, whose items are not here
	queued int // its items in the queue

	arrived uint64 // items so far
	total   uint64 // items it sent before it closed
	closing bool   // total is known
	done    bool   // and all of them are here

	wake chan struct{} // of a producer in this process: it has credit, or the end has come
	// Of a producer elsewhere:
	remote bool
	first  bool // its first credit has not been granted yet: it has it already
	tag    int
	posted []*slab // their receives are under way, in this order
	decode decoder
}

// join adds a producer and grants it its credits.
func (q *queue) join(s *source) {
	s.queue, s.decode.known = q, &q.layouts
	q.sources = append(q.sources, s)
	q.grant()
}

// grant deals the free credits, each to the source that has the fewest, the one that joined first
// among equals.
func (q *queue) grant() {
	free := q.maxsize
	for _, s := range q.sources {
		free -= s.out + s.queued
		if !s.closing || s.out+s.queued > 0 {
			free++
		}
	}
	for ; free > 0; free-- {
		var to *source
		for _, s := range q.sources {
			if s.closing {
				continue
			}
			if to == nil || s.out+s.queued < to.out+to.queued {
				to = s
			}
		}
		if to == nil {
			return
		}
		to.owed++
		to.out++
		signal(to.wake)
	}
}

// arrive appends an item of s.
func (q *queue) arrive(s *source, sl *slab) {
	s.out--
	s.queued++
	s.arrived++
	sl.src, sl.phase = s, busy
	q.push(sl)
	if s.closing && s.arrived == s.total {
		q.end(s)
	}
}

// close notes that s sends total items in all. Its unused credits go to the others once these are
// here.
func (q *queue) close(s *source, total uint64) {
	s.closing, s.total = true, total
	if s.arrived == s.total {
		q.end(s)
	}
}

func (q *queue) end(s *source) {
	s.done = true
	s.out, s.owed = 0, 0
	q.gone++
	q.grant()
}

// closed reports that nothing will arrive any more and nothing is left.
func (q *queue) closed() bool { return q.len() == 0 && q.gone == q.producers }

func (q *queue) len() int { return len(q.items) - q.first }

// peek returns the oldest item, nil when there is none.
func (q *queue) peek() *slab {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.first]
}

// pop takes the oldest item and grants its credit anew.
func (q *queue) pop() *slab {
	sl := q.items[q.first]
	q.items[q.first] = nil
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	sl.phase = held
	sl.src.queued--
	q.polled++
	q.grant()
	return sl
}

func (q *queue) push(sl *slab) {
	if len(q.items) == cap(q.items) && q.first > 0 { // reuse the front
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, sl)
}

// source returns the source of a producer, nil if it has not joined.
func (q *queue) source(member int) *source {
	if i := slices.IndexFunc(q.sources, func(s *source) bool { return s.member == member }); i >= 0 {
		return q.sources[i]
	}
	return nil
}

// signal leaves a token in a channel of capacity 1; nil is nobody.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// needsOwner reports whether the shared queue has something to do that only the owner of its inbox
// can: credits to send, or items.
func (q *queue) needsOwner() bool {
	if len(q.demands) > 0 && q.demands[0].answer != nil && (q.len() > 0 || q.closed()) {
		return true
	}
	return slices.ContainsFunc(q.sources, func(s *source) bool { return s.remote && s.owed > 0 })
}
