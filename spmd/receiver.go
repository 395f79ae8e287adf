package spmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A Receiver gets the items of one key of a Channel, oldest first:
//
//	it, err := r.Get(ctx)       // waits for an item; ErrClosed if no more will come
//	use(it.Dict)                // in place
//	r.Release(it)               // gives the item back
//
// The item that was taken last counts as queued until the next call, even after its release. A consumer may
// hold many items without blocking the producers. All handles of a member belong to one goroutine at a time.
type Receiver struct {
	c      *Channel
	key    Key
	access keyAccess
	span   Span
	batch  []*Item
}

// A keyAccess is a consumer's access to a key. There are three kinds: ownKey for a key of this consumer,
// sharedKey for a shared key that this process owns, and remoteKey for a shared key of another process.
type keyAccess interface {
	// take takes the oldest item. It returns ErrClosed if no more items will come, and ErrEmpty if block is
	// false and there is no item. If limit >= 0 and the oldest item weighs more, it returns errHeavy.
	take(ctx context.Context, limit int, block bool) (*slab, error)
	// release frees a slab that take returned.
	release(sl *slab)
	// state returns the number of arrived items, and the oldest item.
	state(ctx context.Context) (n int, first Item, err error)
	// cancel cancels posted receives when the channel closes.
	cancel(ctx context.Context) error
}

var errHeavy = errors.New("the next item weighs too much")

func (c *Channel) newReceiver(m *Member, key Key) (*Receiver, error) {
	member := m.Index()
	r := &Receiver{c: c, key: key, span: NewSpan(m.recorder, c.site(OpGet, key, c.spec.From))}
	p := c.consumers[member]
	owner, box := c.ownerOf(key)
	if box == nil {
		here := len(c.spec.From.Ranks) + member
		tag, err := c.tag(here, owner, 2)
		if err != nil {
			return nil, err
		}
		e := &remoteKey{c: c, name: key.Name, port: p, owner: owner, tag: tag}
		e.decode.known = &e.layouts
		r.access = e
		return r, nil
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	q := box.queue([]byte(key.Name))
	if key.To == AnyMember {
		r.access = &sharedKey{localQueue: localQueue{box, q}, port: p, demand: demand{wake: make(chan struct{}, 1)}}
	} else {
		r.access = &ownKey{localQueue{box, q}}
	}
	return r, nil
}

// Get waits for an item and takes it. It returns ErrClosed once all producers have closed and
// nothing is left.
func (r *Receiver) Get(ctx context.Context) (*Item, error) { return r.get(ctx, -1, true) }

// TryGet is like Get, but returns ErrEmpty if no item has arrived. If another process owns the key, TryGet
// waits for the reply of that process.
func (r *Receiver) TryGet(ctx context.Context) (*Item, error) { return r.get(ctx, -1, false) }

func (r *Receiver) get(ctx context.Context, limit int, block bool) (*Item, error) {
	sl, err := r.take(ctx, limit, block)
	if err == ErrEmpty || err == errHeavy {
		return nil, err
	}
	if err != nil {
		return nil, r.errorf("get", err)
	}
	return &sl.item, nil
}

// take takes an item and records the waiting time. If another process owns the key, the whole call counts as waiting.
func (r *Receiver) take(ctx context.Context, limit int, block bool) (*slab, error) {
	_, asks := r.access.(*remoteKey)
	if !asks {
		if sl, err := r.access.take(ctx, limit, false); err != ErrEmpty || !block {
			if err == nil {
				r.span.Pass(int64(sl.item.From), sl.item.number)
			}
			return sl, err
		}
	}
	r.span.Begin()
	sl, err := r.access.take(ctx, limit, block)
	if err == nil {
		r.span.End(int64(sl.item.From), sl.item.number)
	} else {
		r.span.End(-1, 0)
	}
	return sl, err
}

// GetBatch waits for items and takes them until their total weight reaches the target. It stops earlier if the next
// item would make the total exceed the target, or if no more items will come. The first item may have any weight. If no
// item will come, GetBatch returns ErrClosed. The slice is valid until the next GetBatch. With an error, GetBatch also
// returns the items that it took before the error.
func (r *Receiver) GetBatch(ctx context.Context, target int) ([]*Item, error) {
	r.batch = r.batch[:0]
	for sum := 0; len(r.batch) == 0 || sum < target; {
		limit := target - sum
		if len(r.batch) == 0 {
			limit = -1
		}
		it, err := r.get(ctx, limit, true)
		if err == errHeavy || errors.Is(err, ErrClosed) && len(r.batch) > 0 {
			break
		}
		if err != nil {
			return r.batch, err
		}
		r.batch = append(r.batch, it)
		sum += it.Weight
	}
	return r.batch, nil
}

// Release frees an item. Neither the item nor its tensors may be used afterwards. It panics if the
// item is not held.
func (r *Receiver) Release(it *Item) {
	sl := it.slab
	if sl == nil || sl.phase != held {
		panic(fmt.Sprintf("spmd: channel %q: key %v: release of an item that is not held", r.c.spec.Name, r.key))
	}
	r.access.release(sl)
}

// Len returns the number of arrived items.
func (r *Receiver) Len(ctx context.Context) (int, error) {
	n, _, err := r.state(ctx)
	return n, err
}

// Empty reports whether no item has arrived.
func (r *Receiver) Empty(ctx context.Context) (bool, error) {
	n, _, err := r.state(ctx)
	return n == 0, err
}

// Full reports whether MaxSize items have arrived.
func (r *Receiver) Full(ctx context.Context) (bool, error) {
	n, _, err := r.state(ctx)
	return n >= r.c.spec.MaxSize, err
}

// Peek returns the oldest item without taking it, or ErrEmpty. The item's Dict is empty if the key is
// shared. Otherwise the Dict is valid until the next Get.
func (r *Receiver) Peek(ctx context.Context) (Item, error) {
	n, it, err := r.state(ctx)
	if err == nil && n == 0 {
		err = r.errorf("peek", ErrEmpty)
	}
	return it, err
}

func (r *Receiver) state(ctx context.Context) (int, Item, error) {
	n, it, err := r.access.state(ctx)
	if err != nil {
		return 0, Item{}, r.errorf("state", err)
	}
	it.slab = nil
	if r.key.To == AnyMember {
		it.Dict = tensor.Dict{}
	}
	return n, it, nil
}

func (r *Receiver) errorf(op string, cause error) error {
	return fmt.Errorf("channel %q: key %v: %s: %w", r.c.spec.Name, r.key, op, cause)
}

// localQueue is a consumer's access to a queue in this process.
type localQueue struct {
	box   *inbox
	queue *queue
}

func (n *localQueue) release(sl *slab) {
	n.box.mu.Lock()
	defer n.box.mu.Unlock()
	n.box.recycle(sl)
}

func (n *localQueue) state(context.Context) (int, Item, error) {
	n.box.mu.Lock()
	defer n.box.mu.Unlock()
	return n.queue.state()
}

func (n *localQueue) cancel(context.Context) error { return nil } // the inbox cancels the receives

// ownKey is the access of a key's only consumer, which owns the inbox. It returns an item's credit to the producer in
// the next call, so that the send does not delay the consumer's work on the item.
type ownKey struct{ localQueue }

func (o *ownKey) take(ctx context.Context, limit int, block bool) (*slab, error) {
	b, q := o.box, o.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.sendCredits(q); err != nil {
		return nil, err
	}
	if q.polled > q.maxsize+len(q.sources) { // poll for messages even while items are queued
		if err := b.poll(q); err != nil {
			return nil, err
		}
	}
	for q.len() == 0 {
		if q.closed() {
			return nil, ErrClosed
		}
		if block {
			if err := b.wait(ctx, q); err != nil {
				return nil, err
			}
			continue
		}
		if err := b.poll(q); err != nil {
			return nil, err
		}
		if q.len() == 0 && !q.closed() {
			return nil, ErrEmpty
		}
	}
	if limit >= 0 && q.peek().item.Weight > limit {
		return nil, errHeavy
	}
	return q.pop(), nil
}

func (o *ownKey) state(context.Context) (int, Item, error) {
	o.box.mu.Lock()
	defer o.box.mu.Unlock()
	if err := o.box.sendCredits(o.queue); err != nil {
		return 0, Item{}, err
	}
	if err := o.box.poll(o.queue); err != nil {
		return 0, Item{}, err
	}
	return o.queue.state()
}

// sharedKey is a consumer's access to a shared key that this process owns.
type sharedKey struct {
	localQueue
	port   *port
	demand demand
}

func (m *sharedKey) take(ctx context.Context, limit int, block bool) (*slab, error) {
	sl, ring, err := m.next(ctx, limit, block)
	if ring {
		if err := m.box.ring(m.port); err != nil {
			return nil, err
		}
	}
	return sl, err
}

func (m *sharedKey) next(ctx context.Context, limit int, block bool) (sl *slab, ring bool, err error) {
	b, q, d := m.box, m.queue, &m.demand
	b.mu.Lock()
	defer b.mu.Unlock()
	if head := q.peek(); head != nil {
		if limit >= 0 && head.item.Weight > limit {
			return nil, false, errHeavy
		}
		sl := q.pop()
		return sl, b.markChanged(q), nil
	}
	if q.closed() {
		return nil, false, ErrClosed
	}
	if !block {
		return nil, false, ErrEmpty
	}
	d.limit, d.kind, d.slab = limit, 0, nil
	q.demands = append(q.demands, d)
	for d.kind == 0 {
		b.mu.Unlock()
		err := park(ctx, d.wake, b.c.w.job.end)
		b.mu.Lock()
		if err != nil && d.kind == 0 {
			q.demands = slices.DeleteFunc(q.demands, func(o *demand) bool { return o == d })
			return nil, false, err
		}
	}
	switch d.kind {
	case isClosed:
		return nil, false, ErrClosed
	case isHeavy:
		return nil, false, errHeavy
	}
	return d.slab, b.markChanged(q), nil
}
