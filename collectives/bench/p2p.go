package bench

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Operations of the benchmark p2p.
const (
	Latency      = "latency"      // half of a round trip of one message
	Bandwidth    = "bandwidth"    // a window of messages in one direction, then an empty answer
	BiBandwidth  = "bibandwidth"  // a window in each direction at the same time
	MessageRate  = "message_rate" // like bandwidth, from each rank of the first half to a rank of the second half
	SignalWakeUp = "signal"       // half of a round trip of signals in shared memory, without any data
)

// PairOps returns the operations of the benchmark p2p.
func PairOps() []string { return []string{Latency, Bandwidth, BiBandwidth, MessageRate, SignalWakeUp} }

// messages measures messages between ranks. It is collective over the world.
func (r *Run) messages(ctx context.Context, p *Suite) error {
	err := r.Columns(fmt.Sprintf("dissemination barrier, then the exchange; messages of communication memory, windows "+
		"of %d; latencies are half of a round trip", p.Window),
		[]string{"op", "n", "size"}, []string{"bw_gbs", "msgs_s"})
	if err != nil {
		return err
	}
	most, limit := 1, r.budget.window()
	for _, size := range p.Sizes {
		most = max(most, p.window(size, limit)*size)
	}
	m := messages{reqs: make([]spmd.Request, 0, 2*p.Window)}
	if m.out, err = newRegion(r.w.Alloc, max(1, slices.Max(p.Sizes))); err != nil {
		return err
	}
	if m.in, err = newRegion(r.w.Alloc, most); err != nil {
		return err
	}
	nodes := r.w.Nodes()
	for _, op := range p.Ops {
		ranks, sizes := p.Pair[:], p.Sizes
		switch op {
		case MessageRate:
			ranks = r.w.Ranks()[:r.w.Size()/2*2]
		case SignalWakeUp:
			if _, ok := r.w.Shared(); !ok || nodes[ranks[0]] != nodes[ranks[1]] {
				r.note("signal between ranks %v: not measured, they have no memory in common", ranks)
				continue
			}
			sizes = []int{0}
		}
		t, err := r.newTeam(ranks, "bench "+op)
		for i := 0; i < len(sizes) && err == nil; i++ {
			m.size, m.window = sizes[i], p.window(sizes[i], limit)
			err = r.measure(ctx, t, false, func() ([]*arm, func(), error) {
				if op == SignalWakeUp {
					a, err := r.signalArm(ctx, t, ranks)
					return []*arm{a}, func() {}, err
				}
				a := m.arm(t.Comm, op, p.Check)
				return []*arm{a}, func() { rates(&a.row, m.window, len(ranks)/2) }, nil
			})
		}
		if err != nil {
			return fmt.Errorf("%s between ranks %v: %w", op, ranks, err)
		}
	}
	return nil
}

// window returns the number of messages of p2p in flight. Each message arrives in a buffer of its own. Together the
// buffers take at most limit bytes, unless one message is larger.
func (p *Suite) window(size, limit int) int { return max(1, min(p.Window, limit/max(1, size))) }

// rates adds the bandwidth and the message rate to a row.
func rates(row *report.Measurement, window, pairs int) {
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

// messages makes the exchanges of a member with its peer. The first half of the members has its peers in the second
// half.
type messages struct {
	pattern
	comm    spmd.Comm
	peer    int
	size    int
	window  int
	out, in region
	// ways lists the directions of an exchange. true means that this rank sends messages, and false that it receives
	// messages. back lists, in the same way, the directions of the empty messages that answer a window.
	ways, back []bool
	reqs       []spmd.Request // memory for the requests of a window in each direction
}

// arm returns the arm of an operation among the members of comm.
func (m *messages) arm(comm spmd.Comm, op string, check bool) *arm {
	me, n := comm.Rank(), comm.Size()
	first := me < n/2
	m.comm, m.peer, m.pattern = comm, (me+n/2)%n, pattern{dtype: tensor.U8, members: n}
	a := &arm{call: m.stream, row: report.Measurement{Op: op, Ranks: m.members, Size: int64(m.size), Memory: "arena"}}
	arriving := m.window
	switch op {
	case Latency:
		a.call, a.parts, arriving, m.ways = m.pingPong, 2, 1, []bool{first, !first}
	case BiBandwidth:
		m.ways, m.back = []bool{false, true}, []bool{false, true}
	default:
		if m.ways, m.back = []bool{first}, []bool{!first}; first {
			arriving = 0
		}
	}
	if check && m.size > 0 {
		a.check = func(ctx context.Context) (int64, error) {
			m.salt++
			m.fill(m.out.guarded(0, m.size), me, 0)
			got := m.in.guarded(0, arriving*m.size)
			poisonAll(got)
			if err := a.call(ctx, 0); err != nil {
				return 0, err
			}
			wrong := int64(0)
			for at := 0; at < len(got); at += m.size {
				wrong += m.wrong(got[at:at+m.size], m.peer, 0)
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

// pingPong sends a message to the peer and receives a message, or receives first and then sends.
func (m *messages) pingPong(ctx context.Context, _ int) error {
	if err := m.move(ctx, m.ways[:1], 1, m.size, tagData); err != nil {
		return err
	}
	return m.move(ctx, m.ways[1:], 1, m.size, tagData)
}

// stream exchanges a window of messages and then the empty messages that confirm their arrival.
func (m *messages) stream(ctx context.Context, _ int) error {
	if err := m.move(ctx, m.ways, m.window, m.size, tagData); err != nil {
		return err
	}
	return m.move(ctx, m.back, 1, 0, tagAnswer)
}

// move sends n messages for each true in ways, and receives n messages for each false. It waits for all messages.
func (m *messages) move(ctx context.Context, ways []bool, n, size, tag int) error {
	reqs, out := m.reqs[:0], m.out.buffer(0, size)
	for i := range n {
		for _, send := range ways {
			var r spmd.Request
			var err error
			if send {
				r, err = m.comm.Isend(out, m.peer, tag)
			} else {
				r, err = m.comm.Irecv(m.in.buffer(i*size, size), m.peer, tag)
			}
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
	}
	return m.comm.Wait(ctx, reqs)
}

// signalArm returns the arm of SignalWakeUp. The memory of the first rank has two signals, one for each rank to wait
// for. In a call each rank wakes the other once.
func (r *Run) signalArm(ctx context.Context, t *team, ranks []int) (*arm, error) {
	shared, _ := r.w.Shared()
	at := []float64{0}
	const size = 2 * int(unsafe.Sizeof(spmd.Signal{}))
	mem, err := r.w.Alloc(size)
	if err != nil {
		return nil, err
	}
	if t.Rank() == 0 {
		place, ok := shared.Locate(mem)
		if !ok {
			return nil, fmt.Errorf("memory of rank %d cannot be located", ranks[0])
		}
		at[0] = float64(place)
	}
	if err := t.max(ctx, at); err != nil {
		return nil, err
	}
	if t.Rank() != 0 {
		if mem, err = shared.View(ranks[0], int64(at[0]), size); err != nil {
			return nil, err
		}
	}
	signals := (*[2]spmd.Signal)(unsafe.Pointer(unsafe.SliceData(mem)))
	mine, theirs, peer := &signals[t.Rank()], &signals[1-t.Rank()], ranks[1-t.Rank()]
	first, n := t.Rank() == 0, uint32(0)
	a := &arm{row: report.Measurement{Op: SignalWakeUp, Ranks: 2}, parts: 2}
	a.call = func(ctx context.Context, _ int) error {
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
	}
	return a, nil
}
