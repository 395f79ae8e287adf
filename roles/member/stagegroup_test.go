package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// batch returns the message of a stage for a micro-batch. Lengths differ, and most are larger than the largest message
// of a transport.
func batch(from, to, number int) []float32 {
	x := make([]float32, number%3*5000+1)
	for i := range x {
		x[i] = float32(i + 10*number + 1000*from + 3000*to)
	}
	return x
}

// Stages exchange activations and derivatives in the order of a pipeline that alternates forward and backward passes.
// Messages are copied, so senders reuse their memory at once.
func TestStagesExchangeMessages(t *testing.T) {
	const batches = 9
	j := newJob(t)
	pass := func(s *member.StageGroup, from, to, number int) error {
		if from >= 0 && from < s.Size() {
			want := batch(from, s.Index(), number)
			x := make([]float32, len(want))
			if err := s.Recv(from, x); err != nil {
				return err
			}
			if !slices.Equal(x, want) {
				return fmt.Errorf("stage %d: another message came than micro-batch %d of stage %d", s.Index(), number,
					from)
			}
		}
		if to < 0 || to >= s.Size() {
			return nil
		}
		x := batch(s.Index(), to, number)
		err := s.Send(to, x)
		clear(x)
		return err
	}
	test.OK(t, onMesh(t, axes(2, 4, 2), func(ctx context.Context, m *spmd.Member) error {
		s, err := member.NewStageGroup(ctx, m, j)
		if err != nil {
			return err
		}
		me := s.Index()
		early := s.Size() - 1 - me
		for k := range batches + early {
			if k < batches {
				if err := pass(s, me-1, me+1, k); err != nil {
					return err
				}
			}
			if k >= early {
				if err := pass(s, me+1, me-1, k-early); err != nil {
					return err
				}
			}
		}
		return s.Flush()
	}))
}

// A stage continues after a Send whose message nobody has received.
func TestSendDoesNotWait(t *testing.T) {
	j, gone := newJob(t), make(chan struct{})
	test.OK(t, onMesh(t, axes(1, 2, 1), func(ctx context.Context, m *spmd.Member) error {
		s, err := member.NewStageGroup(ctx, m, j)
		if err != nil {
			return err
		}
		x := make([]float32, 100_000)
		if s.Index() == 0 {
			err := s.Send(1, x)
			close(gone)
			return errors.Join(err, s.Flush())
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return s.Recv(0, x)
	}))
}

func TestStageNamesMistakes(t *testing.T) {
	j := newJob(t)
	send := func(to int) func(*member.StageGroup) error {
		return func(s *member.StageGroup) error { return s.Send(to, make([]float32, 1)) }
	}
	recv := func(from, n int) func(*member.StageGroup) error {
		return func(s *member.StageGroup) error { return s.Recv(from, make([]float32, n)) }
	}
	for want, use := range map[string]func(s *member.StageGroup) error{
		"send 1 values from stage 0 to stage 0: expected another stage of 0..1":     send(0),
		"send 1 values from stage 0 to stage 2: expected another stage of 0..1":     send(2),
		"receive 1 values at stage 0 from stage -1: expected another stage of 0..1": recv(-1, 1),
		"receive 3 values at stage 0 from stage 1: 2 values arrived":                recv(1, 3),
		"receive 1 values at stage 0 from stage 1: ":                                recv(1, 1),
	} {
		err := onMesh(t, axes(1, 2, 1), func(ctx context.Context, m *spmd.Member) error {
			s, err := member.NewStageGroup(ctx, m, j)
			if err == nil && s.Index() == 0 {
				return use(s)
			}
			return errors.Join(err, s.Send(0, make([]float32, 2)))
		})
		test.Fails(t, err, want)
	}
}

// A stage whose peer does not send ends with the job.
func TestStageEndsWithTheJob(t *testing.T) {
	j, boom := newJob(t), errors.New("boom")
	err := onMesh(t, axes(1, 2, 1), func(ctx context.Context, m *spmd.Member) error {
		s, err := member.NewStageGroup(ctx, m, j)
		if err != nil {
			return err
		}
		if s.Index() == 0 {
			return boom
		}
		return s.Recv(0, make([]float32, 1))
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want that of the other stage", err)
	}
}
