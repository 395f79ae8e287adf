package local

// queues hold the unmatched ops of one comm in the order of their arrival, hashed by sender and tag.
type queues [buckets]struct{ head, tail *op }

// buckets is the number of hash buckets in queues. Many buckets keep searches short.
const buckets = 32

type link struct{ prev, next *op }

func bucket(from, tag int) int { return (from*7 + tag) & (buckets - 1) }

func (q *queues) put(o *op) {
	l := &q[bucket(o.from, o.tag)]
	o.link = link{prev: l.tail}
	if l.tail != nil {
		l.tail.link.next = o
	} else {
		l.head = o
	}
	l.tail = o
}

// take removes and returns the oldest op of a sender and tag, or nil if there is none.
func (q *queues) take(from, tag int) *op {
	for o := q[bucket(from, tag)].head; o != nil; o = o.link.next {
		if o.from == from && o.tag == tag {
			q.remove(o)
			return o
		}
	}
	return nil
}

func (q *queues) remove(o *op) {
	l := &q[bucket(o.from, o.tag)]
	if o.link.prev != nil {
		o.link.prev.link.next = o.link.next
	} else {
		l.head = o.link.next
	}
	if o.link.next != nil {
		o.link.next.link.prev = o.link.prev
	} else {
		l.tail = o.link.prev
	}
	o.link = link{}
}
