package spmd

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// An away end is that of a consumer who shares a key whose home is another process: each item is
// asked for.
type away struct {
	c    *Channel
	name string
	port *port
	home int
	tag  int // of items; tag+1 is for the state

	note    [noteBytes]byte
	asked   [1]Request // send of note
	posted  *slab      // its receive waits for the answer to the last request; nil where there is none
	waits   bool       // that request was a Get: the answer may take its time
	limit   int        // of that request
	ready   *slab      // an item that came when it was not wanted any more
	pool    []*slab
	brief   *slab // for the state
	reqs    [1]Request
	layouts []knownLayout
	decode  decoder
}

func (a *away) take(ctx context.Context, limit int, block bool) (*slab, error) {
	for {
		if sl := a.ready; sl != nil {
			if limit >= 0 && sl.item.Weight > limit {
				return nil, errHeavy
			}
			a.ready, sl.phase = nil, held
			return sl, nil
		}
		if a.posted == nil {
			if err := a.request(ctx, limit, block); err != nil {
				return nil, err
			}
		}
		switch kind, err := a.answer(ctx, block || !a.waits); {
		case err != nil:
			return nil, err
		case kind == isItem:
		case kind == isClosed:
			return nil, ErrClosed
		case kind == isEmpty && !block:
			return nil, ErrEmpty
		case kind == isHeavy && a.limit == limit:
			return nil, errHeavy
		} // else it answered a request that was given up: ask again
	}
}

// request asks for an item, with a slab posted for it.
func (a *away) request(ctx context.Context, limit int, block bool) error {
	sl, err := a.slab()
	if err != nil {
		return err
	}
	if sl.req, err = a.port.comm.Irecv(sl.mem, a.home, a.tag); err != nil {
		return err
	}
	sl.phase = busy
	a.posted, a.waits, a.limit = sl, block, limit
	op := opTryGet
	if block {
		op = opGet
	}
	return a.ask(ctx, note{op: op, tag: a.tag, count: limit, name: a.name})
}

// answer waits, if it may, for the answer to the request; an item becomes ready.
func (a *away) answer(ctx context.Context, block bool) (kind uint32, err error) {
	sl := a.posted
	if block {
		a.reqs[0] = sl.req
		if err := a.port.comm.Wait(ctx, a.reqs[:]); err != nil {
			return 0, err
		}
		sl.req = a.reqs[0]
	} else if ok, err := a.port.comm.Test(&sl.req); err != nil {
		return 0, err
	} else if !ok {
		return isEmpty, nil
	}
	a.posted = nil
	h, err := a.decode.unpack(sl, sl.req.N)
	if err != nil {
		return 0, err
	}
	if h.kind == isItem {
		a.ready = sl
	} else {
		a.release(sl)
	}
	return h.kind, nil
}

func (a *away) ask(ctx context.Context, n note) error {
	if err := a.port.comm.Wait(ctx, a.asked[:]); err != nil { // the note before has been answered, so it has left
		return err
	}
	var err error
	a.asked[0], err = a.port.comm.Isend(n.write(a.note[:]), a.home, tagRequest)
	return err
}

func (a *away) slab() (*slab, error) {
	if n := len(a.pool); n > 0 {
		sl := a.pool[n-1]
		a.pool = a.pool[:n-1]
		if a.c.w.job.opts.Debug && !sl.spoiled() {
			return nil, fmt.Errorf("an item was written after its release")
		}
		return sl, nil
	}
	return newSlab(a.c.w.Alloc, a.c.spec.ItemBytes)
}

func (a *away) release(sl *slab) {
	if a.c.w.job.opts.Debug {
		sl.spoil()
	}
	sl.phase, sl.item.Dict = free, tensor.Dict{}
	a.pool = append(a.pool, sl)
}

func (a *away) state(ctx context.Context) (int, Item, error) {
	if a.brief == nil {
		a.brief = &slab{mem: make([]byte, headerBytes)}
	}
	var err error
	if a.reqs[0], err = a.port.comm.Irecv(a.brief.mem, a.home, a.tag+1); err != nil {
		return 0, Item{}, err
	}
	if err := a.ask(ctx, note{op: opState, tag: a.tag, name: a.name}); err != nil {
		return 0, Item{}, err
	}
	if err := a.port.comm.Wait(ctx, a.reqs[:]); err != nil {
		return 0, Item{}, err
	}
	h, err := a.brief.readHeader(a.reqs[0].N)
	if err != nil {
		return 0, Item{}, err
	}
	if a.ready != nil {
		return h.count + 1, a.ready.item, nil
	}
	return h.count, a.brief.item, nil
}

func (a *away) cancel(ctx context.Context) error {
	if a.posted != nil {
		if err := a.port.cancel(ctx, &a.posted.req); err != nil {
			return err
		}
	}
	return a.port.comm.Wait(ctx, a.asked[:])
}
