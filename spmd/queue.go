package spmd

import "slices"

// A queue holds the arrived items of one key and the credits of its producers. It lives in the process of the key's
// owner. It does no I/O and is not safe for concurrent use. Its inbox does the I/O and locks.
//
// Credits control the flow: a key has maxsize credits and one more for each producer. Sending an item uses up a credit.
// When a consumer takes the item, the credit goes to the producer that has the fewest credits. So every producer gets
// credits, and credits do not pile up at a slow producer. A remote producer has its first credit from the start: if it
// had to wait for the owner's message, two members that open keys to each other could deadlock.
type queue struct {
	name      string
	maxsize   int
	producers int // number of producers that may put items, joined or not
	gone      int // number of these producers that will put no more items

	sources []*source
	items   []*slab // arrived items, oldest first
	first   int
	pool    pool
	layouts []knownLayout
	demands []*demand // waiting consumers of a shared key
	polled  int       // items taken since the owner last polled for messages
}

// A source is one producer of a queue.
type source struct {
	queue  *queue
	member int // the producer's number
	owed   int // credits granted, but not yet sent to the producer
	out    int // credits owed, held by the producer, or used by items in transit
	queued int // items of this producer in the queue

	arrived uint64 // items arrived so far
	total   uint64 // items sent before the producer closed; valid if closing
	closing bool   // the producer has closed
	done    bool   // the producer has closed, and all its items have arrived

	wake chan struct{} // for a producer in this process: gets a token with each credit
	// The fields below are for a remote producer.
	remote bool
	first  bool // no receive is posted yet for the first credit, which the producer has from the start
	tag    int
	posted []*slab // slabs whose receives are posted, in this order
	decode decoder
}

// join adds a producer and grants it credits.
func (q *queue) join(s *source) {
	s.queue, s.decode.known = q, &q.layouts
	q.sources = append(q.sources, s)
	q.grant()
}

// grant distributes the free credits. Each credit goes to the source that has the fewest credits and queued items. Ties
// go to the source that joined first.
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

// arrive queues an item of source s.
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

// close records that s has closed after n items. Once all of these items have arrived, other sources get the unused
// credits of s.
func (q *queue) close(s *source, n uint64) {
	s.closing, s.total = true, n
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

// closed reports whether the queue is empty and no producer will put more.
func (q *queue) closed() bool { return q.len() == 0 && q.gone == q.producers }

func (q *queue) len() int { return len(q.items) - q.first }

// peek returns the oldest item, or nil if there is none.
func (q *queue) peek() *slab {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.first]
}

// state returns the number of items, and the oldest item. If there are none, first is the zero Item. The error is
// always nil.
func (q *queue) state() (n int, first Item, err error) {
	if head := q.peek(); head != nil {
		first = head.item
	}
	return q.len(), first, nil
}

// pop removes and returns the oldest item, and grants its credit again.
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

// source returns the source of a producer, or nil if the producer has not joined.
func (q *queue) source(member int) *source {
	if i := slices.IndexFunc(q.sources, func(s *source) bool { return s.member == member }); i >= 0 {
		return q.sources[i]
	}
	return nil
}

// signal puts a token into c unless c already holds one. The capacity of c is 1. signal ignores a nil c.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// needsOwner reports whether only the inbox's owner can serve q now: a remote producer is owed credits, or there is an
// outcome for a waiting remote consumer.
func (q *queue) needsOwner() bool {
	if len(q.demands) > 0 && q.demands[0].answer != nil && (q.len() > 0 || q.closed()) {
		return true
	}
	return slices.ContainsFunc(q.sources, func(s *source) bool { return s.remote && s.owed > 0 })
}
