package loop

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A vote is the message that a rank sends at a loop head.
type vote struct {
	step int64   // the next step of this rank
	path uint64  // hash of the group calls made so far; differs between ranks that took different branches
	stop int     // exit code with which this rank asks to end the job; 0 to go on
	save bool    // this rank asks for a checkpoint
	took float64 // seconds of the iteration before the step
}

// A decision is the next action of all ranks, computed from all votes.
type decision struct {
	stop int // the largest exit code in the votes
	save bool
	// hold is true if the trace must keep the iteration before the votes: it is the slowest so far in its block of 100
	// iterations.
	hold bool
	move bool // the members move to other ranks
}

// An agreement makes all ranks take the same branch of the loop, and sends their reports to rank 0. Ranks vote
// at a loop head, and learn the decision at the next loop head. So no rank waits for votes. No rank runs ahead of
// another by more than one step.
//
// Votes and reports go up a tree of ranks, and decisions go down. An inner rank of the tree forwards these messages in
// a goroutine while its workers compute. A world with at most 8 ranks (fan) has no inner ranks.
type agreement struct {
	world    *spmd.World
	comm     spmd.Comm
	parent   int       // the parent rank; -1 on rank 0
	below    []subtree // the subtrees below this rank, in the order of ranks
	passesOn bool      // this rank has ranks below it, and the tree has more than one level
	passed   chan error

	// Only one goroutine at a time uses the fields below. Between the calls of begin and end, this is the goroutine
	// that forwards the votes. At other times it is the caller.
	reqs    []spmd.Request
	votes   []byte // tallies of this rank's subtree and of each subtree below it, in tallySize bytes each
	down    []byte
	report  []byte   // the report of this rank, while it is sent
	bundle  []byte   // the reports of this rank's subtree in the order of ranks, each preceded by its length
	reports [][]byte // on rank 0: the reports in bundle
	decided decision
	pending bool
	span    spmd.Span   // records waits for the votes
	move    func() bool // on rank 0: reports whether a move is due; may be nil

	hundred int64   // on rank 0: the index of the votes' block of 100 iterations
	slowest float64 // on rank 0: seconds of the longest iteration in this block so far
}

// fan is the number of ranks in the smallest complete subtree: one rank and the fan - 1 leaves below it.
const fan = 8

// A subtree has a range of ranks. Its root is the first rank.
type subtree struct{ first, ranks int }

const (
	tallySize                       = 64
	lengthSize                      = 8 // bytes of the length before a report in a bundle
	decisionSize                    = 16
	voteTag, reportTag, decisionTag = 1, 2, 3
)

func newAgreement(w *spmd.World, comm spmd.Comm, alloc tensor.Allocator) (*agreement, error) {
	a := &agreement{world: w, comm: comm, passed: make(chan error, 1)}
	a.parent, a.below = position(comm.Rank(), comm.Size())
	a.passesOn = comm.Size() > fan && len(a.below) > 0
	n := (1 + len(a.below)) * tallySize
	var err error
	if a.votes, err = alloc(n); err != nil {
		return nil, err
	}
	if a.down, err = alloc(decisionSize); err != nil {
		return nil, err
	}
	a.votes, a.down = a.votes[:n], a.down[:decisionSize]
	return a, nil
}

// position returns the parent of a rank, and the subtrees below the rank. The parent of rank 0 is -1. If the number n
// of ranks per node is a power of fan, subtrees of at most n ranks lie within a node.
func position(rank, size int) (parent int, below []subtree) {
	parent = -1
	for step := 1; step < size; step *= fan {
		if digit := rank / step % fan; digit != 0 {
			return rank - digit*step, below
		}
		for first := rank + step; first < min(rank+fan*step, size); first += step {
			below = append(below, subtree{first, min(step, size-first)})
		}
	}
	return parent, below
}

// A tally combines the votes of a subtree in one message.
type tally struct {
	vote            // the first rank's step and path; the maxima of stop, save and took
	bytes     int   // size of the reports
	other     int   // the lowest rank whose step or path differs from the first rank's; 0 if none differs
	otherStep int64 // the step of that rank
}

func (t *tally) put(b []byte) {
	binary.LittleEndian.PutUint64(b[0:], uint64(t.step))
	binary.LittleEndian.PutUint64(b[8:], t.path)
	binary.LittleEndian.PutUint64(b[16:], uint64(t.stop))
	binary.LittleEndian.PutUint64(b[24:], 0)
	if t.save {
		b[24] = 1
	}
	binary.LittleEndian.PutUint64(b[32:], math.Float64bits(t.took))
	binary.LittleEndian.PutUint64(b[40:], uint64(t.bytes))
	binary.LittleEndian.PutUint64(b[48:], uint64(t.other))
	binary.LittleEndian.PutUint64(b[56:], uint64(t.otherStep))
}

func (t *tally) get(b []byte) {
	t.step = int64(binary.LittleEndian.Uint64(b[0:]))
	t.path = binary.LittleEndian.Uint64(b[8:])
	t.stop = int(binary.LittleEndian.Uint64(b[16:]))
	t.save = b[24] != 0
	t.took = math.Float64frombits(binary.LittleEndian.Uint64(b[32:]))
	t.bytes = int(binary.LittleEndian.Uint64(b[40:]))
	t.other = int(binary.LittleEndian.Uint64(b[48:]))
	t.otherStep = int64(binary.LittleEndian.Uint64(b[56:]))
}

// add adds the votes of the next subtree.
func (t *tally) add(first int, u *tally) {
	switch {
	case t.other != 0: // an earlier rank differs already
	case u.step != t.step || u.path != t.path:
		t.other, t.otherStep = first, u.step
	default:
		t.other, t.otherStep = u.other, u.otherStep
	}
	t.stop, t.save, t.took = max(t.stop, u.stop), t.save || u.save, max(t.took, u.took)
}

// begin starts to send this rank's vote and report. The report must not change until end returns.
func (a *agreement) begin(ctx context.Context, v vote, report []byte) error {
	mine := tally{vote: v, bytes: len(report)}
	mine.put(a.votes)
	a.report, a.pending = report, true
	for i, s := range a.below {
		if err := a.post(a.comm.Irecv(a.votes[(1+i)*tallySize:(2+i)*tallySize], s.first, voteTag)); err != nil {
			return err
		}
	}
	switch {
	case a.passesOn:
		a.world.Go("votes", func() error {
			a.passed <- a.passOn(ctx)
			return nil
		})
	case a.parent >= 0: // a leaf, which waits for no votes
		return a.sendUp(report)
	}
	return nil
}

// end waits for the decision on the votes that begin has sent, and returns the decision. On rank 0 it also returns the
// reports of all ranks. The reports are valid until the next call of begin. If begin was not called, the decision is to
// go on.
func (a *agreement) end(ctx context.Context) (decision, [][]byte, error) {
	if !a.pending {
		return decision{}, nil, nil
	}
	a.pending = false
	a.span.Begin()
	defer a.span.End(0, 0)
	var err error
	if a.passesOn {
		select {
		case err = <-a.passed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	} else {
		err = a.passOn(ctx)
	}
	if err != nil {
		return decision{}, nil, err
	}
	return a.decided, a.reports, nil
}

// passOn sends the votes and reports of this rank's subtree up, and the decision down. On rank 0 it decides.
func (a *agreement) passOn(ctx context.Context) error {
	if len(a.below) > 0 || a.parent < 0 {
		if err := a.gather(ctx); err != nil {
			return err
		}
	}
	if a.parent < 0 {
		if err := a.decide(); err != nil {
			return err
		}
	} else if err := a.wait(ctx); err != nil {
		return err
	}
	a.decided = decision{stop: int(binary.LittleEndian.Uint64(a.down)), save: a.down[8] != 0, hold: a.down[9] != 0,
		move: a.down[10] != 0}
	for _, s := range a.below {
		if err := a.post(a.comm.Isend(a.down, s.first, decisionTag)); err != nil {
			return err
		}
	}
	return a.wait(ctx)
}

// gather receives the votes and the reports of the subtrees below. It adds this rank's vote and report, and starts to
// send all of them to the parent.
func (a *agreement) gather(ctx context.Context) error {
	if err := a.wait(ctx); err != nil {
		return err
	}
	var all, t tally
	all.get(a.votes)
	a.bundle = append(binary.LittleEndian.AppendUint64(a.bundle[:0], uint64(len(a.report))), a.report...)
	for i, s := range a.below {
		t.get(a.votes[(1+i)*tallySize:])
		all.add(s.first, &t)
		if s.ranks == 1 { // a leaf sends its report without the length
			a.bundle = binary.LittleEndian.AppendUint64(a.bundle, uint64(t.bytes))
		}
		a.bundle = extend(a.bundle, t.bytes)
	}
	all.bytes = len(a.bundle)
	rest := a.bundle[lengthSize+len(a.report):]
	for i, s := range a.below {
		t.get(a.votes[(1+i)*tallySize:])
		if s.ranks == 1 {
			rest = rest[lengthSize:]
		}
		if err := a.post(a.comm.Irecv(rest[:t.bytes], s.first, reportTag)); err != nil {
			return err
		}
		rest = rest[t.bytes:]
	}
	all.put(a.votes)
	if err := a.wait(ctx); err != nil || a.parent < 0 {
		return err
	}
	return a.sendUp(a.bundle)
}

// sendUp starts to send this rank's tally and the reports of its subtree to the parent, and to receive the decision.
func (a *agreement) sendUp(reports []byte) error {
	if err := a.post(a.comm.Isend(a.votes[:tallySize], a.parent, voteTag)); err != nil {
		return err
	}
	if err := a.post(a.comm.Isend(reports, a.parent, reportTag)); err != nil {
		return err
	}
	return a.post(a.comm.Irecv(a.down, a.parent, decisionTag))
}

// extend makes b longer by n bytes, whose content is arbitrary.
func extend(b []byte, n int) []byte {
	for cap(b)-len(b) < n {
		b = append(b[:cap(b)], 0)[:len(b)]
	}
	return b[:len(b)+n]
}

// decide computes the decision and finds the reports in the bundle. If the group calls of any rank differ from those of
// rank 0, decide returns an error that names the first such rank.
func (a *agreement) decide() error {
	var all tally
	all.get(a.votes)
	if all.other != 0 {
		return fmt.Errorf("rank %d is at step %d and has made other group calls than rank 0, at step %d: expected "+
			"the same calls on all ranks", all.other, all.otherStep, all.step)
	}
	a.reports = a.reports[:0]
	for rest := a.bundle; len(rest) > 0; {
		n := binary.LittleEndian.Uint64(rest)
		rest = rest[lengthSize:]
		a.reports = append(a.reports, rest[:n:n])
		rest = rest[n:]
	}
	hold := false
	if hundred := (all.step - 1) / 100; hundred != a.hundred {
		a.hundred, a.slowest = hundred, 0
	}
	if all.took > a.slowest {
		a.slowest, hold = all.took, true
	}
	binary.LittleEndian.PutUint64(a.down, uint64(all.stop))
	for i, yes := range [...]bool{all.save, hold, a.move != nil && a.move()} {
		if a.down[8+i] = 0; yes {
			a.down[8+i] = 1
		}
	}
	return nil
}

func (a *agreement) post(r spmd.Request, err error) error {
	a.reqs = append(a.reqs, r)
	return err
}

func (a *agreement) wait(ctx context.Context) error {
	err := a.comm.Wait(ctx, a.reqs)
	a.reqs = a.reqs[:0]
	return err
}
