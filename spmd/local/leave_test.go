package local_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// If a rank waits for a rank whose main has returned, the wait ends after the stall timeout, with an error that names
// both ranks. In this bubble hours take no time.
func TestWaitForRankThatLeft(t *testing.T) {
	const stall = time.Minute
	for _, c := range []struct {
		name string
		wait func(ctx context.Context, w *spmd.World, c spmd.Comm, sh spmd.Shared, sig *spmd.Signal) error
		want string
	}{
		{"receive", func(ctx context.Context, _ *spmd.World, c spmd.Comm, _ spmd.Shared, _ *spmd.Signal) error {
			r, err := c.Irecv(make([]byte, 8), 1, 5)
			return errors.Join(err, c.Wait(ctx, []spmd.Request{{}, r}))
		}, `communicator "data", member 0: receive from member 1, tag 5: rank 1 \(host .+, pid \d+\) has left`},
		{"large send", func(ctx context.Context, _ *spmd.World, c spmd.Comm, _ spmd.Shared, _ *spmd.Signal) error {
			r, err := c.Isend(make([]byte, 1<<20), 1, 6)
			return errors.Join(err, c.Wait(ctx, []spmd.Request{r}))
		}, `communicator "data", member 0: send to member 1, tag 6: rank 1 .* has left`},
		{"any", func(ctx context.Context, _ *spmd.World, c spmd.Comm, _ spmd.Shared, _ *spmd.Signal) error {
			r, err := c.Irecv(make([]byte, 8), 1, 7)
			_, werr := c.WaitAny(ctx, []spmd.Request{r})
			return errors.Join(err, werr)
		}, `receive from member 1, tag 7: rank 1 .* has left`},
		{"long after it left", func(ctx context.Context, _ *spmd.World, c spmd.Comm, _ spmd.Shared,
			_ *spmd.Signal) error {
			time.Sleep(time.Hour)
			r, err := c.Irecv(make([]byte, 8), 1, 8)
			return errors.Join(err, c.Wait(ctx, []spmd.Request{r}))
		}, `receive from member 1, tag 8: rank 1 .* has left`},
		{"signal", func(ctx context.Context, _ *spmd.World, _ spmd.Comm, sh spmd.Shared, sig *spmd.Signal) error {
			return sh.Await(ctx, sig, 0, 1)
		}, `wait for a signal: rank 1 .* has left`},
		{"signal of any", func(ctx context.Context, _ *spmd.World, _ spmd.Comm, sh spmd.Shared,
			sig *spmd.Signal) error {
			return sh.Await(ctx, sig, 0, -1)
		}, `wait for a signal: all other ranks have left`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := spmd.Run(t.Context(), local.New(2), spmd.Options{StallTimeout: stall, Log: t.Output()},
					func(ctx context.Context, w *spmd.World) error {
						ends, err := w.NewComm([]int{0, 1}, "data")
						if err != nil || w.Rank() == 1 {
							return err
						}
						sh, _ := w.Shared()
						return c.wait(ctx, w, ends[0], sh, new(spmd.Signal))
					})
				if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
					t.Errorf("%v, want %s", err, c.want)
				}
				if took := time.Since(start); took < stall {
					t.Errorf("it waited for %v only", took)
				}
			})
		})
	}
}

// TestWaitForRankThatWorks: a rank may wait for hours for a rank that has not left, even if a third rank has left.
func TestWaitForRankThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := spmd.Run(t.Context(), local.New(3), spmd.Options{StallTimeout: time.Minute, Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				ends, err := w.NewComm([]int{0, 1, 2}, "data")
				if err != nil {
					return err
				}
				c := ends[0]
				switch w.Rank() {
				case 1: // leaves after sending a small message, which can still be received
					_, err := c.Isend([]byte{1}, 0, 0)
					return err
				case 2:
					w.Go("late", func() error { // main returns before this function
						time.Sleep(time.Hour)
						_, err := c.Isend([]byte{2}, 0, 0)
						return err
					})
					return nil
				}
				in := make([]byte, 3)
				var reqs [3]spmd.Request
				for i, from := range []int{1, 2, 1} { // the third message never comes
					if reqs[i], err = c.Irecv(in[i:i+1], from, 0); err != nil {
						return err
					}
				}
				for range 2 {
					if _, err := c.WaitAny(ctx, reqs[:]); err != nil {
						return err
					}
				}
				if in[0] != 1 || in[1] != 2 {
					t.Errorf("received %v", in)
				}
				return c.Cancel(&reqs[2])
			})
		test.Check(t, err)
	})
}

// A channel outlives the programs of its ranks: consumers that share a key get the item and the end of the key long
// after the producer has left.
func TestChannelOfRankThatLeft(t *testing.T) {
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	number := tensor.NewLayout(tensor.Field{Name: "n", DType: tensor.I64, Shape: []int{1}})
	key := spmd.Key{To: spmd.AnyMember, Name: "k"}
	synctest.Test(t, func(t *testing.T) {
		err := spmd.Run(t.Context(), local.New(3), spmd.Options{StallTimeout: time.Minute, Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				from, err := spmd.Launch(w, spmd.GroupSpec{Name: "from", Ranks: []int{2}}, self)
				if err != nil {
					return err
				}
				to, err := spmd.Launch(w, spmd.GroupSpec{Name: "to", Ranks: []int{0, 1}}, self)
				if err != nil {
					return err
				}
				ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "c", From: from.Spec(), To: to.Spec(),
					ItemBytes: number.Size(), Shared: true})
				if err != nil {
					return err
				}
				for _, m := range from.Here() {
					s, err := ch.Sender(m, key)
					if err != nil {
						return err
					}
					it, err := s.Take(ctx, number)
					if err != nil {
						return err
					}
					if err := errors.Join(s.Put(ctx, it), s.Close()); err != nil {
						return err
					}
				}
				for _, m := range to.Here() {
					time.Sleep(time.Duration(1+w.Rank()) * time.Hour)
					r, err := ch.Receiver(m, key)
					if err != nil {
						return err
					}
					it, err := r.Get(ctx)
					if w.Rank() == 1 {
						if !errors.Is(err, spmd.ErrClosed) {
							t.Errorf("the second consumer got %v, %v", it, err)
						}
						continue
					}
					if err != nil {
						return err
					}
					r.Release(it)
				}
				return nil
			})
		test.Check(t, err)
	})
}
