package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Pair is what P2P measures; the same on every rank.
type Pair struct {
	Ranks [2]int // the two that latency and bandwidth are between
	Ops   []string
	Sizes []int // bytes
	// messages under way at a time, for bandwidths and the message rate; fewer where they are more
	// than 64 MiB together, or than the memory of the host allows its ranks
	Window int
	Check  bool
}

// What P2P can measure.
const (
	Latency      = "latency"      // half of a round trip of one message
	Bandwidth    = "bandwidth"    // a window of messages one way, then an empty answer
	BiBandwidth  = "bibandwidth"  // a window each way at the same time
	MessageRate  = "message_rate" // the same as bandwidth, between all ranks at once: the first half to the second
	SignalWakeUp = "signal"       // half of a round trip of a word in shared memory, without any data
)

// PairOps are what P2P can measure.
func PairOps() []string { return []string{Latency, Bandwidth, BiBandwidth, MessageRate, SignalWakeUp} }

// P2P measures messages between ranks. Collective over the world.
func (r *Run) P2P(ctx context.Context, p Pair) error {
	err := r.begin(fmt.Sprintf("dissemination barrier, then the exchange; messages of communication memory, windows "+
		"of %d; latencies are half of a round trip", p.Window),
		[]string{"op", "n", "size"}, []string{"bw_gbs", "msgs_s"})
	if err != nil {
		return err
	}
	most, room := 1, r.room.window()
	for _, size := range p.Sizes {
		most = max(most, p.window(size, room)*size)
	}
	data, err := newRegion(r.w.Alloc, max(1, slices.Max(p.Sizes)))
	if err != nil {
		return err
	}
	here, err := newRegion(r.w.Alloc, most)
	if err != nil {
		return err
	}
	all := make([]int, r.w.Size()/2*2)
	for i := range all {
		all[i] = i
	}
	pair := p.Ranks[:]
	for _, op := range p.Ops {
		ranks := pair
		if op == MessageRate {
			ranks = all
		}
		t, err := r.newTeam(ranks, "bench "+op)
		if err != nil {
			return err
		}
		if op == SignalWakeUp {
			err = r.signal(ctx, t, ranks)
		} else {
			for _, size := range p.Sizes {
				var arms []*arm
				if t != nil {
					m := &messages{comm: t.comm, window: p.window(size, room), out: data, in: here, size: size,
						pairs:   len(ranks) / 2,
						pattern: pattern{dtype: tensor.U8, members: len(ranks)}, reqs: make([]spmd.Request, 2*p.Window)}
					arms = []*arm{m.arm(op, p.Check)}
				}
				if err = r.measure(ctx, t, ranks[0], arms, false,
					func() { rates(arms[0], p.window(size, room), len(ranks)/2) }); err != nil || r.stopped {
					break
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%s between ranks %v: %w", op, ranks, err)
		}
	}
	return nil
}

// window returns how many messages of a size are under way at a time: each arrives in memory of its
// own, of which there are room bytes.
func (p *Pair) window(size, room int) int { return max(1, min(p.Window, room/max(1, size))) }

// rates fills in what follows from the time of an exchange.
func rates(a *arm, window, pairs int) {
	row := &a.row
	count := float64(window)
	switch row.Op {
	case Latency:
		count = 1
	case BiBandwidth:
		count *= 2
	case MessageRate:
		count *= float64(pairs)
	}
	row.SetFigure("bw_gbs", gbs(count*float64(row.Size), row.Median))
	row.SetFigure("msgs_s", 1e6*count/row.Median)
}

// messages are the exchanges between a member of the lower half and its peer in the upper half.
type messages struct {
	pattern
	comm    spmd.Comm
	window  int
	pairs   int
	size    int
	out, in region
	reqs    []spmd.Request
}

func (m *messages) arm(op string, check bool) *arm {
	a := &arm{}
	a.row.Op, a.row.Ranks, a.row.Size, a.row.Memory = op, m.comm.Size(), int64(m.size), "arena"
	first := m.comm.Rank() < m.pairs
	peer := (m.comm.Rank() + m.pairs) % (2 * m.pairs)
	switch op {
	case Latency:
		a.call = func(ctx context.Context, _ int) error { return m.pingPong(ctx, peer, first) }
		a.parts = 2
	case Bandwidth, MessageRate:
		a.call = func(ctx context.Context, _ int) error { return m.stream(ctx, peer, first, !first) }
	case BiBandwidth:
		a.call = func(ctx context.Context, _ int) error { return m.stream(ctx, peer, true, true) }
	}
	if check && m.size > 0 {
		a.check = func(ctx context.Context) (int64, error) {
			m.salt++
			m.fill(m.out.bytes(0, m.size), m.comm.Rank(), 0)
			count := m.window
			switch {
			case op == Latency:
				count = 1
			case op != BiBandwidth && first:
				count = 0 // it only sends
			}
			got := m.in.bytes(0, count*m.size)
			poisonAll(got)
			if err := a.call(ctx, 0); err != nil {
				return 0, err
			}
			wrong := int64(0)
			for at := 0; at < len(got); at += m.size {
				wrong += m.wrong(got[at:at+m.size], peer, 0)
			}
			if !m.in.intact(0, len(got)) {
				wrong++
			}
			return wrong, nil
		}
	}
	return a
}

// Tags of an exchange.
const (
	tagData = iota
	tagAnswer
)

// pingPong sends one message to the peer and gets one back, or the other way round.
func (m *messages) pingPong(ctx context.Context, peer int, first bool) error {
	out, in := m.out.whole[guard:guard+m.size], m.in.whole[guard:guard+m.size]
	for _, send := range [2]bool{first, !first} {
		var err error
		if send {
			m.reqs[0], err = m.comm.Isend(out, peer, tagData)
		} else {
			m.reqs[0], err = m.comm.Irecv(in, peer, tagData)
		}
		if err != nil {
			return err
		}
		if err := m.comm.Wait(ctx, m.reqs[:1]); err != nil {
			return err
		}
	}
	return nil
}

// stream moves a window of messages, and ends when the other side has them.
func (m *messages) stream(ctx context.Context, peer int, sends, receives bool) error {
	out := m.out.whole[guard : guard+m.size]
	reqs := m.reqs[:0]
	for i := range m.window {
		if receives {
			r, err := m.comm.Irecv(m.in.whole[guard+i*m.size:guard+(i+1)*m.size], peer, tagData)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		if sends {
			r, err := m.comm.Isend(out, peer, tagData)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
	}
	if err := m.comm.Wait(ctx, reqs); err != nil {
		return err
	}
	reqs = reqs[:0]
	if sends {
		r, err := m.comm.Irecv(nil, peer, tagAnswer)
		if err != nil {
			return err
		}
		reqs = append(reqs, r)
	}
	if receives {
		r, err := m.comm.Isend(nil, peer, tagAnswer)
		if err != nil {
			return err
		}
		reqs = append(reqs, r)
	}
	return m.comm.Wait(ctx, reqs)
}

// signal measures the wake-up by a word in shared memory, where both ranks reach it.
func (r *Run) signal(ctx context.Context, t *team, ranks []int) error {
	nodes := r.w.Nodes()
	shared, ok := r.w.Shared()
	if !ok || nodes[ranks[0]] != nodes[ranks[1]] {
		r.note("signal between ranks %v: not measured, they have no memory in common", ranks)
		return nil
	}
	var arms []*arm
	if t != nil {
		a, err := r.signalArm(ctx, t, ranks, shared)
		if err != nil {
			return err
		}
		arms = []*arm{a}
	}
	return r.measure(ctx, t, ranks[0], arms, false, nil)
}

// signalArm makes two words in the memory of the first rank, one that each side waits for.
func (r *Run) signalArm(ctx context.Context, t *team, ranks []int, shared spmd.Shared) (*arm, error) {
	at := []float64{0}
	mem, err := r.w.Alloc(2 * signalSize)
	if err != nil {
		return nil, err
	}
	if t.rank() == 0 {
		place, ok := shared.Locate(mem)
		if !ok {
			return nil, fmt.Errorf("memory of rank %d cannot be located", ranks[0])
		}
		at[0] = float64(place)
	}
	if err := t.max(ctx, at); err != nil {
		return nil, err
	}
	if t.rank() != 0 {
		if mem, err = shared.View(ranks[0], int64(at[0]), 2*signalSize); err != nil {
			return nil, err
		}
	}
	signals := signalsIn(mem)
	mine, theirs, peer := &signals[t.rank()], &signals[1-t.rank()], ranks[1-t.rank()]
	first, n := t.rank() == 0, uint32(0)
	a := &arm{parts: 2, call: func(ctx context.Context, _ int) error {
		n++
		if first {
			shared.Post(theirs, n)
		}
		if err := shared.Await(ctx, mine, n-1, peer); err != nil {
			return err
		}
		if !first {
			shared.Post(theirs, n)
		}
		return nil
	}}
	a.row.Op, a.row.Ranks = SignalWakeUp, 2
	return a, nil
}
