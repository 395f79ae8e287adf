package member

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Activations is the purpose of the communicator over which the stages of a pipeline send their results to each other.
const Activations = "activations"

// A StageGroup connects a member with the other members on the stage axis. It is an AxisGroup on this axis, and can
// also send messages to another stage. Messages from one stage to another arrive in order. The receiver must know their
// lengths.
type StageGroup struct {
	*AxisGroup
	comm    spmd.Comm
	alloc   func(n int) ([]byte, error)
	members []int     // for each stage, the index of its member in the component
	sent    []message // the last message to each stage
	coming  [1]spmd.Request
	room    spmd.Span // records waits for the receipt of an earlier message
	receive spmd.Span
}

// A message has been sent. Perhaps it has not arrived yet. The sender owns its memory.
type message struct {
	mem  []byte
	reqs [1]spmd.Request
}

// NewStageGroup returns the StageGroup of m. The component of m must have communicators for Layers and Activations.
func NewStageGroup(ctx context.Context, m *spmd.Member, j *job.Job) (*StageGroup, error) {
	line, err := NewAxisGroup(ctx, m, j, mesh.Stage)
	if err != nil {
		return nil, err
	}
	span := func(op spmd.SiteOp) spmd.Span {
		return spmd.NewSpan(m.Recorder(), spmd.Site{Op: op, Name: Activations, Peer: m.Group()})
	}
	return &StageGroup{
		AxisGroup: line, comm: m.AxisComm(mesh.Stage, Activations), alloc: m.World().Alloc, members: m.Line(mesh.Stage),
		sent: make([]message, line.Size()), room: span(spmd.OpRoom), receive: span(spmd.OpReceive),
	}, nil
}

// Join connects s with the other stages in the world of m. Existing users of s use the new connections. No message may
// be under way.
func (s *StageGroup) Join(ctx context.Context, m *spmd.Member, j *job.Job) error {
	joined, err := NewStageGroup(ctx, m, j)
	if err == nil {
		*s = *joined
	}
	return err
}

// Send sends a copy of x to another stage. It first waits until that stage has received the previous message. So at
// most one message is under way in each direction.
func (s *StageGroup) Send(to int, x []float32) error {
	if err := s.send(to, tensor.FromF32(x, len(x)).Bytes()); err != nil {
		return fmt.Errorf("send %d values from stage %d to stage %d: %w", len(x), s.Index(), to, err)
	}
	return nil
}

func (s *StageGroup) send(to int, b []byte) error {
	if err := s.check(to); err != nil {
		return err
	}
	if err := s.settle(to); err != nil {
		return err
	}
	m := &s.sent[to]
	if len(m.mem) < len(b) { // a world never frees memory, so m.mem grows in large steps
		mem, err := s.alloc(max(len(b), 2*len(m.mem)))
		if err != nil {
			return err
		}
		m.mem = mem
	}
	r, err := s.comm.Isend(m.mem[:copy(m.mem, b)], to, 0)
	m.reqs[0] = r
	return err
}

// Recv waits for the next message from another stage, and writes it to x. The message must have len(x) values.
func (s *StageGroup) Recv(from int, x []float32) error {
	if err := s.recv(from, tensor.FromF32(x, len(x)).Bytes()); err != nil {
		return fmt.Errorf("receive %d values at stage %d from stage %d: %w", len(x), s.Index(), from, err)
	}
	return nil
}

func (s *StageGroup) recv(from int, b []byte) error {
	if err := s.check(from); err != nil {
		return err
	}
	r, err := s.comm.Irecv(b, from, 0)
	if err != nil {
		return err
	}
	s.coming[0] = r
	s.receive.Begin()
	err = s.comm.Wait(s.ctx, s.coming[:])
	s.receive.End(int64(s.members[from]), 0)
	if n := s.coming[0].N; err == nil && n != len(b) {
		return fmt.Errorf("%d values arrived", n/4)
	}
	return err
}

// Flush waits until all messages of this stage were received. A sender calls Flush before the job ends.
func (s *StageGroup) Flush() error {
	for to := range s.sent {
		if err := s.settle(to); err != nil {
			return fmt.Errorf("stage %d: wait until stage %d has received: %w", s.Index(), to, err)
		}
	}
	return nil
}

// settle waits until the last message to a stage was received.
func (s *StageGroup) settle(to int) error {
	m := &s.sent[to]
	if m.reqs[0].Handle == 0 {
		return nil
	}
	s.room.Begin()
	err := s.comm.Wait(s.ctx, m.reqs[:])
	s.room.End(int64(s.members[to]), 0)
	return err
}

// check returns an error unless peer is another stage.
func (s *StageGroup) check(peer int) error {
	if peer < 0 || peer >= s.Size() || peer == s.Index() {
		return fmt.Errorf("expected another stage of 0..%d", s.Size()-1)
	}
	return nil
}
