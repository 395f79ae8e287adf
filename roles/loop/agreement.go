package loop

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A vote is one rank's message at a loop head: its step, and whether it wants to stop.
type vote struct {
	step int64  // the step that this rank is about to take
	path uint64 // hash of the group calls made so far, to find ranks that took another branch
	stop int    // exit code with which this rank wants to end the job; 0: go on
	save bool
	took float64 // seconds of the iteration before the step
}

// A decision is the next action of all ranks, computed from all votes.
type decision struct {
	stop int // the largest exit code in the votes
	save bool
	// hold says that the iteration before the votes is the slowest of its hundred so far.
	hold bool
}

// An agreement makes all ranks take the same branch of the loop, and sends their reports to rank 0. The votes of
// one loop head are decided at the next, so no rank waits for them. No rank runs ahead of another by more than one
// step.
type agreement struct {
	comm    spmd.Comm
	reqs    []spmd.Request
	votes   []byte // on rank 0 the votes of all ranks, voteSize bytes each; elsewhere this rank's
	down    []byte
	report  []byte // of this rank, while it is sent
	pending bool
	span    spmd.Span // of a wait for the votes

	hundred int64   // on rank 0: the hundred of iterations of the votes
	slowest float64 // the longest iteration of this hundred so far, in seconds
}

const (
	voteSize                        = 48
	decisionSize                    = 16
	voteTag, reportTag, decisionTag = 1, 2, 3
)

func newAgreement(comm spmd.Comm, alloc tensor.Allocator) (*agreement, error) {
	a := &agreement{comm: comm}
	n := voteSize
	if comm.Rank() == 0 {
		n *= comm.Size()
	}
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

// begin starts to send this rank's vote and report. The report must not change until end returns.
func (a *agreement) begin(v vote, report []byte) error {
	mine := a.votes[:voteSize]
	binary.LittleEndian.PutUint64(mine[0:], uint64(v.step))
	binary.LittleEndian.PutUint64(mine[8:], v.path)
	binary.LittleEndian.PutUint64(mine[16:], uint64(v.stop))
	binary.LittleEndian.PutUint64(mine[24:], 0)
	if v.save {
		mine[24] = 1
	}
	binary.LittleEndian.PutUint64(mine[32:], uint64(len(report)))
	binary.LittleEndian.PutUint64(mine[40:], math.Float64bits(v.took))
	a.report, a.pending = report, true
	if a.comm.Rank() == 0 {
		for r := 1; r < a.comm.Size(); r++ {
			if err := a.post(a.comm.Irecv(a.votes[r*voteSize:(r+1)*voteSize], r, voteTag)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := a.post(a.comm.Isend(mine, 0, voteTag)); err != nil {
		return err
	}
	if err := a.post(a.comm.Isend(report, 0, reportTag)); err != nil {
		return err
	}
	return a.post(a.comm.Irecv(a.down, 0, decisionTag))
}

// end waits for the votes of the last begin. It returns the decision, and on rank 0 also the reports of all ranks.
// Without an earlier begin the decision is to go on.
func (a *agreement) end(ctx context.Context) (decision, [][]byte, error) {
	if !a.pending {
		return decision{}, nil, nil
	}
	a.pending = false
	a.span.Begin()
	defer a.span.End(0, 0)
	if err := a.wait(ctx); err != nil {
		return decision{}, nil, err
	}
	if a.comm.Rank() != 0 {
		return decision{stop: int(binary.LittleEndian.Uint64(a.down)), save: a.down[8] != 0, hold: a.down[9] != 0}, nil,
			nil
	}
	reports := make([][]byte, a.comm.Size())
	reports[0] = a.report
	for r := 1; r < a.comm.Size(); r++ {
		reports[r] = make([]byte, binary.LittleEndian.Uint64(a.votes[r*voteSize+32:]))
		if err := a.post(a.comm.Irecv(reports[r], r, reportTag)); err != nil {
			return decision{}, nil, err
		}
	}
	if err := a.wait(ctx); err != nil {
		return decision{}, nil, err
	}
	d, err := a.decide()
	if err != nil {
		return d, nil, err
	}
	binary.LittleEndian.PutUint64(a.down, uint64(d.stop))
	a.down[8], a.down[9] = 0, 0
	if d.save {
		a.down[8] = 1
	}
	if d.hold {
		a.down[9] = 1
	}
	for r := 1; r < a.comm.Size(); r++ {
		if err := a.post(a.comm.Isend(a.down, r, decisionTag)); err != nil {
			return d, nil, err
		}
	}
	return d, reports, a.wait(ctx)
}

// decide computes the decision. If a rank made other group calls than rank 0, it returns an error that names the
// first such rank.
func (a *agreement) decide() (decision, error) {
	var d decision
	longest := 0.0
	for r := range a.comm.Size() {
		v, first := a.votes[r*voteSize:(r+1)*voteSize], a.votes[:voteSize]
		if binary.LittleEndian.Uint64(v) != binary.LittleEndian.Uint64(first) ||
			binary.LittleEndian.Uint64(v[8:]) != binary.LittleEndian.Uint64(first[8:]) {
			return d, fmt.Errorf("rank %d is at step %d and has made other calls than rank 0, at step %d: ranks must "+
				"decide alike",
				r, binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(first))
		}
		d.stop = max(d.stop, int(binary.LittleEndian.Uint64(v[16:])))
		d.save = d.save || v[24] != 0
		longest = max(longest, math.Float64frombits(binary.LittleEndian.Uint64(v[40:])))
	}
	if hundred := (int64(binary.LittleEndian.Uint64(a.votes)) - 1) / 100; hundred != a.hundred {
		a.hundred, a.slowest = hundred, 0
	}
	if longest > a.slowest {
		a.slowest, d.hold = longest, true
	}
	return d, nil
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
