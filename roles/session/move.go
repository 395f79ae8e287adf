package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// A mover implements loop.Moves for a rank in one world.
type mover struct {
	*rank
	want *proposal    // on rank 0: the requested move; nil if there is none
	next *destination // the destination of the move under way
	to   loop.Places  // the places of the members in next
}

var _ loop.Moves = (*mover)(nil)

// A Scheduler decides on which ranks the members of a job run, from the times of its iterations.
type Scheduler interface {
	// Observe is called with the times of each iteration.
	Observe(advice.Iteration)
	// Decide returns a decision to move the members, or nil if they should stay. step is the number of iterations so
	// far, and remaining is the maximum number of iterations that follow.
	Decide(step, remaining int64) *advice.Decision
	// Moved is called after each move, including moves that a user requested. step is the number of iterations before
	// the move.
	Moved(to *spmd.Placement, step int64, seconds float64)
	// Refused is called if the job refuses the newest decision.
	Refused()
}

var _ Scheduler = (*advice.Scheduler)(nil)

// A proposal is a requested move.
type proposal struct {
	advice.Decision
	request *moves.Request // the user's request; nil if the scheduler made the proposal
}

// A transfer is a move under way, on rank 0.
type transfer struct {
	proposal
	moves.Move
	begun time.Time
}

// A destination is the plan of the job after a move, or the error that prevents the move.
type destination struct {
	from *spmd.Placement
	text string // the requested placement
	plan *task.Plan
	err  error
}

// Due reports whether a user or the scheduler requests a move. It refuses the request if the job cannot move.
func (m *mover) Due() bool {
	r, err := moves.Pending(m.folder.Load().Path())
	if err != nil && err.Error() != m.unread { // warn once of a request that cannot be read
		m.unread = err.Error()
		m.warn(m.unread)
	}
	switch s := m.scheduler; {
	case r != nil && r.ID != m.said: // skip an answered request whose file is still there
		m.want = &proposal{advice.Decision{Placement: r.Placement, Reason: "asked for by rlinf scale"}, r}
	case s != nil:
		if d := s.Decide(m.book.Step(), m.remaining()); d != nil {
			m.want = &proposal{*d, nil}
		}
	}
	if m.want == nil {
		return false
	}
	if why := m.immovable(); why != "" {
		m.refuse(errors.New(why))
		return false
	}
	return true
}

// remaining returns the maximum number of remaining iterations. If the run has a deadline, only iterations before the
// deadline count. Each is assumed to take as long as the last iteration.
func (m *mover) remaining() int64 {
	left := m.plan.MaxSteps - m.book.Step()
	if end := m.Asked.Deadline(); !end.IsZero() && m.took > 0 {
		left = min(left, int64(max(0, time.Until(end).Seconds()/m.took)))
	}
	return left
}

// immovable returns the reason why no member of this job can move, or "" if members can move.
func (m *mover) immovable() string {
	switch {
	case m.Own.Program != nil && !m.Own.Movable:
		return immovableProgram
	case m.plan.Config.Env.Train.DataCollection.Enabled || m.plan.Config.Env.Eval.DataCollection.Enabled:
		return "data_collection.enabled: the episodes are recorded where they are played"
	case m.w.Size() == 1:
		return "the job has one rank, so its members have no other place"
	}
	return ""
}

// immovableProgram is the reason why a job with a user's program cannot move.
const immovableProgram = "the program of this job has not said that it can move (roles.RunMovable)"

// refuse refuses the proposal m.want, on rank 0. It notifies the scheduler, or answers the user's request.
func (m *mover) refuse(why error) {
	w := m.want
	if m.want = nil; w == nil {
		return
	}
	m.transfer = nil
	m.warn(fmt.Sprintf("the job does not move to %s: %v", printable.Line(w.Placement), why))
	if w.request == nil {
		m.scheduler.Refused()
		return
	}
	m.answer(w, moves.Answer{Refused: why.Error()})
}

// answer answers the user's request. It only warns of an error, so that the run goes on.
func (m *mover) answer(w *proposal, a moves.Answer) {
	m.said = w.request.ID
	if err := moves.Reply(m.folder.Load().Path(), w.request, a); err != nil {
		m.warn(err.Error())
	}
}

// Next returns the new ranks of all members, or nil if no move is requested or the job refuses it. Every rank
// must call it.
func (m *mover) Next(ctx context.Context) (loop.Places, error) {
	var text []byte
	if m.w.Rank() == 0 && m.want != nil {
		m.transfer = &transfer{proposal: *m.want, begun: time.Now()}
		text = []byte(m.want.Placement)
	}
	text, err := loop.Broadcast(ctx, m.world, text, 0)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	m.next = m.find(string(text))
	if ok, err := m.agree(ctx, m.next.err); !ok {
		return nil, err
	}
	now, then := m.plan.Placement, m.next.plan.Placement
	m.to = loop.Places{}
	same := true
	for _, name := range now.Components() {
		m.to[name] = then.Ranks(name)
		same = same && slices.Equal(now.Ranks(name), then.Ranks(name))
	}
	if !same {
		return m.to, nil
	}
	if m.want != nil && m.want.request == nil { // the scheduler needs no answer
		m.want = nil
	}
	m.refuse(errors.New("the members are there already"))
	return nil, nil
}

// find returns the destination for the placement in text. All ranks of this process share one destination.
func (m *mover) find(text string) *destination {
	m.destinations.Lock()
	defer m.destinations.Unlock()
	now := m.plan
	if r := m.destinations.newest; r != nil && r.text == text && r.from == now.Placement {
		return r
	}
	r := &destination{text: text, from: now.Placement}
	m.destinations.newest = r
	cfg := *placed(now.Job)
	nodes := m.w.Nodes()
	moved, err := cfg.Moved(m.reg, text)
	if err != nil {
		r.err = err
		return r
	}
	moved.KeepMembers(r.from, nodes)
	cfg.Cluster = moved.Cluster // the other sections lack the simulators' answers
	r.plan, r.err = task.Move(now, m.Tasks.Of(&cfg).Draft(&cfg, m.reg, nodes))
	return r
}

// placed returns the configuration of j with a placement that names the rank of every member, even in a pool.
func placed(j *job.Job) *config.Config {
	if j.Config.Deals() {
		return j.Config.At(j.Placement)
	}
	return j.Config
}

// agree reports whether err is nil on all ranks. If not, rank 0 refuses the move, because of the error of the lowest
// failing rank.
func (m *mover) agree(ctx context.Context, err error) (bool, error) {
	agreed, _, wrong, err := agree(ctx, m.world, 0, err)
	if wrong != nil { // on rank 0
		m.refuse(wrong)
	}
	return agreed, err
}

// Accept reports whether the job accepts the move. It refuses if any rank reports a failure, or lacks files or memory.
// received and copied are numbers of bytes, by rank.
func (m *mover) Accept(ctx context.Context, received, copied []float64, failure error) (bool, error) {
	nodes, here := m.w.Nodes(), m.w.Node()
	if failure == nil {
		failure = m.next.plan.CheckFiles(m.w.Rank())
	}
	if m.w.LocalRank() == 0 && failure == nil {
		failure = m.checkRoom(nodes, here, received, copied)
	}
	if ok, err := m.agree(ctx, failure); !ok {
		return false, err
	}
	if t := m.transfer; t != nil {
		m.want = nil
		now := m.plan.Job
		t.Before, t.After = placed(now).PlacementText(), m.next.plan.Config.PlacementText()
		for _, n := range received {
			t.Bytes += int64(n)
		}
		for name, ranks := range m.to {
			for i, r := range now.Placement.Ranks(name) {
				if ranks[i] != r {
					t.Members++
				}
			}
		}
	}
	m.plan = m.next.plan
	return true, nil
}

// checkRoom returns an error unless a node has enough memory for the move. Until the present world ends, the node holds
// this world and the bytes that it receives and copies. After that, it holds the next world and these bytes.
func (m *mover) checkRoom(nodes []int, node int, received, copied []float64) error {
	var comes, now int64
	for r, at := range nodes {
		if at == node {
			comes += int64(received[r] + copied[r])
			now += m.plan.MemoryOf(r).Sum()
		}
	}
	have := job.AvailableOn(nodes, node)
	if comes > have.Free {
		return fmt.Errorf("node %d receives and copies %s, and %v", node, figures.MiB(comes), have)
	}
	have.Free = min(have.Free+now, m.room) - comes // the present world may not have used all of its memory yet
	if err := m.next.plan.CheckMemory(nodes, node, have); err != nil {
		return fmt.Errorf("with what the present world frees, %w", err)
	}
	return nil
}

// arrived records the move that led to this world, answers its request, and returns true. It returns false if no move
// led to this world. Rank 0 calls it when the workers of the world are ready.
func (m *mover) arrived() bool {
	t := m.transfer
	if m.transfer = nil; t == nil {
		return false
	}
	t.Step, t.Seconds = m.book.Step(), time.Since(t.begun).Seconds()
	t.Reason, t.Iteration, t.Predicted = t.proposal.Reason, t.Now, t.Then
	t.Time = time.Now().UTC().Truncate(time.Millisecond)
	m.book.Set("time/replan", t.Seconds)
	m.book.Set("schedule/members_moved", float64(t.Members))
	m.book.Set("schedule/bytes_moved", float64(t.Bytes))
	if s := m.scheduler; s != nil {
		s.Moved(m.plan.Placement, t.Step, t.Seconds)
	}
	path := m.folder.Load().Path()
	if err := moves.Append(path, t.Move); err != nil {
		m.warn(err.Error())
	}
	if t.request != nil {
		m.answer(&t.proposal, moves.Answer{Move: &t.Move})
	}
	m.progress.Print(fmt.Sprintf("moved to %s in %.0f ms (%s)\n", printable.Line(t.After), 1000*t.Seconds,
		printable.Line(t.proposal.Reason)))
	return true
}
