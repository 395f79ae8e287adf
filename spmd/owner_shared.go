package spmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A demand is a waiting request for an item of a shared key.
type demand struct {
	limit  int           // largest weight accepted; a negative limit accepts any weight
	wake   chan struct{} // set for a consumer in this process
	answer *answer       // set for a remote consumer

	kind uint32 // outcome, set before wake gets its token
	slab *slab  // the item, if kind is isItem
}

// A requester is a remote consumer of the inbox's shared keys.
type requester struct {
	member int
	note   [noteBytes]byte
	req    Request
	keys   map[string]*answer
}

// An answer holds the state of a requester for one key. A requester has at most one demand for a
// key.
type answer struct {
	demand demand
	to     int
	tag    int            // tag of items; state replies use tag+1
	layout *tensor.Layout // the last layout sent to the consumer
	short  [2]*slab       // buffers for replies without an item, on tag and on tag+1
}

func (b *inbox) awaitRequest(a *requester) (err error) {
	a.req, err = b.port.comm.Irecv(a.note[:], a.member, tagRequest)
	return err
}

// serve runs the owner of shared keys until ctx ends.
func (b *inbox) serve(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if err := b.wait(ctx, nil); err != nil {
			return err
		}
	}
}

// request handles a consumer's request.
func (b *inbox) request(a *requester) error {
	n, name, err := readNote(a.note[:a.req.N])
	if err != nil {
		return err
	}
	q := b.queue(name)
	ans := a.keys[string(name)]
	if ans == nil {
		ans = &answer{to: a.member, tag: n.tag}
		for i := range ans.short {
			ans.short[i] = &slab{mem: make([]byte, headerBytes)}
		}
		a.keys[q.name] = ans
	}
	switch n.op {
	case opGet, opTryGet:
		if err := b.match(q, true); err != nil {
			return err
		}
		if n.op == opTryGet && q.len() == 0 && !q.closed() {
			return b.reply(ans, 0, header{kind: isEmpty})
		}
		ans.demand = demand{limit: n.count, answer: ans}
		q.demands = append(q.demands, &ans.demand)
		if err := b.match(q, true); err != nil {
			return err
		}
		return b.sendCredits(q)
	case opState:
		ans.short[1].item = Item{}
		if head := q.peek(); head != nil {
			ans.short[1].item = head.item
		}
		return b.reply(ans, 1, header{kind: isState, count: q.len()})
	}
	return fmt.Errorf("a request with op %d", n.op)
}

// match serves the consumers that wait for items of q, in the order of their requests. Only the
// owner can serve remote consumers. Other callers leave the demands of remote consumers to the
// owner.
func (b *inbox) match(q *queue, owner bool) error {
	for len(q.demands) > 0 {
		d, head := q.demands[0], q.peek()
		switch {
		case head == nil && !q.closed(), d.answer != nil && !owner:
			return nil
		case head == nil:
			d.kind = isClosed
		case d.limit >= 0 && head.item.Weight > d.limit:
			d.kind = isHeavy
		default:
			d.kind, d.slab = isItem, q.pop()
		}
		q.demands = slices.Delete(q.demands, 0, 1)
		if d.answer == nil {
			signal(d.wake)
		} else if err := b.deliver(d); err != nil {
			return err
		}
	}
	return nil
}

// deliver delivers the outcome of a demand to its consumer.
func (b *inbox) deliver(d *demand) error {
	ans, sl := d.answer, d.slab
	if d.kind != isItem {
		return b.reply(ans, 0, header{kind: d.kind})
	}
	d.slab = nil
	msg, err := sl.pack(ans.layout != sl.layout)
	if err != nil {
		return err
	}
	ans.layout = sl.layout
	if sl.req, err = b.port.comm.Isend(msg, ans.to, ans.tag); err != nil {
		return err
	}
	if sl.req.Handle == 0 {
		b.recycle(sl)
	} else {
		b.replies = append(b.replies, sl)
	}
	return nil
}

// reply sends a header without an item. The buffer is free, because the consumer sends a request only after
// it has received the last reply.
func (b *inbox) reply(ans *answer, line int, h header) error {
	sl := ans.short[line]
	sl.writeHeader(h)
	return b.port.post(sl.mem, ans.to, ans.tag+line)
}
