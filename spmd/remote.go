package spmd

import "context"

// remoteKey is a consumer's access to a shared key that another process owns. It requests each item
// from the owner.
type remoteKey struct {
	c     *Channel
	name  string
	port  *port
	owner int // the owner's number in the communicator
	tag   int // tag of items; state replies use tag+1

	note       [noteBytes]byte
	noteSend   [1]Request // send of note, in progress
	posted     *slab      // receives the reply to the last request; nil if no reply is due
	waits      bool       // the last request was for a Get, whose reply may take long
	limit      int        // limit of the last request
	ready      *slab      // an arrived item that no call has taken yet
	pool       pool
	stateReply *slab // receives state replies
	reqs       [1]Request
	layouts    []knownLayout
	decode     decoder
}

func (r *remoteKey) take(ctx context.Context, limit int, block bool) (*slab, error) {
	for {
		if sl := r.ready; sl != nil {
			if limit >= 0 && sl.item.Weight > limit {
				return nil, errHeavy
			}
			r.ready, sl.phase = nil, held
			return sl, nil
		}
		if r.posted == nil {
			if err := r.request(ctx, limit, block); err != nil {
				return nil, err
			}
		}
		switch kind, err := r.answer(ctx, block || !r.waits); {
		case err != nil:
			return nil, err
		case kind == isItem:
		case kind == isClosed:
			return nil, ErrClosed
		case kind == isEmpty && !block:
			return nil, ErrEmpty
		case kind == isHeavy && r.limit == limit:
			return nil, errHeavy
		} // the reply was for an abandoned request: send a new request
	}
}

// request requests an item from the owner and posts a receive for the reply.
func (r *remoteKey) request(ctx context.Context, limit int, block bool) error {
	sl, err := r.pool.get(r.c)
	if err != nil {
		return err
	}
	if sl.req, err = r.port.comm.Irecv(sl.mem, r.owner, r.tag); err != nil {
		return err
	}
	sl.phase = busy
	r.posted, r.waits, r.limit = sl, block, limit
	op := opTryGet
	if block {
		op = opGet
	}
	return r.ask(ctx, note{op: op, tag: r.tag, count: limit, name: r.name})
}

// answer receives the reply to the last request and returns its kind. If the reply has an item, answer stores
// the item in ready. If block is false and no reply has arrived, it returns isEmpty.
func (r *remoteKey) answer(ctx context.Context, block bool) (kind uint32, err error) {
	sl := r.posted
	if block {
		r.reqs[0] = sl.req
		if err := r.port.comm.Wait(ctx, r.reqs[:]); err != nil {
			return 0, err
		}
		sl.req = r.reqs[0]
	} else if ok, err := r.port.comm.Test(&sl.req); err != nil {
		return 0, err
	} else if !ok {
		return isEmpty, nil
	}
	r.posted = nil
	h, err := r.decode.unpack(sl, sl.req.N)
	if err != nil {
		return 0, err
	}
	if h.kind == isItem {
		r.ready = sl
	} else {
		r.release(sl)
	}
	return h.kind, nil
}

func (r *remoteKey) ask(ctx context.Context, n note) error {
	if err := r.port.comm.Wait(ctx, r.noteSend[:]); err != nil { // the last note was answered, so its send is done
		return err
	}
	var err error
	r.noteSend[0], err = r.port.comm.Isend(n.write(r.note[:]), r.owner, tagRequest)
	return err
}

func (r *remoteKey) release(sl *slab) { r.pool.put(r.c, sl) }

func (r *remoteKey) state(ctx context.Context) (int, Item, error) {
	if r.stateReply == nil {
		r.stateReply = &slab{mem: make([]byte, headerBytes)}
	}
	var err error
	if r.reqs[0], err = r.port.comm.Irecv(r.stateReply.mem, r.owner, r.tag+1); err != nil {
		return 0, Item{}, err
	}
	if err := r.ask(ctx, note{op: opState, tag: r.tag, name: r.name}); err != nil {
		return 0, Item{}, err
	}
	if err := r.port.comm.Wait(ctx, r.reqs[:]); err != nil {
		return 0, Item{}, err
	}
	h, err := r.stateReply.readHeader(r.reqs[0].N)
	if err != nil {
		return 0, Item{}, err
	}
	if r.ready != nil {
		return h.count + 1, r.ready.item, nil
	}
	return h.count, r.stateReply.item, nil
}

func (r *remoteKey) cancel(ctx context.Context) error {
	if r.posted != nil {
		if err := r.port.cancel(ctx, &r.posted.req); err != nil {
			return err
		}
	}
	return r.port.comm.Wait(ctx, r.noteSend[:])
}
