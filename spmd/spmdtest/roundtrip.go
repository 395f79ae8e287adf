package spmdtest

import (
	"context"
	"slices"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// RoundTrip measures n round trips of the given number of bytes between rank 0 and the last rank, first as
// bare messages of a communicator, and then as items of two channels. It returns the median times on
// rank 0, and zeros on other ranks. Every rank must call it.
func RoundTrip(ctx context.Context, w *spmd.World, bytes, n int) (bare, channel time.Duration, err error) {
	ends := []int{0, w.Size() - 1}
	if w.Rank() == ends[0] || w.Rank() == ends[1] {
		if bare, err = bareRoundTrip(ctx, w, ends, bytes, n); err != nil {
			return 0, 0, err
		}
	}
	item := tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.U8, Shape: []int{bytes}})
	there, err := stage(w, "round trip", site{"there", ends[:1], ends[1:]}, spmd.ChannelSpec{ItemBytes: item.Size()})
	if err != nil {
		return 0, 0, err
	}
	back, err := stage(w, "round trip", site{"back", ends[1:], ends[:1]}, spmd.ChannelSpec{ItemBytes: item.Size()})
	if err != nil {
		return 0, 0, err
	}
	var times []time.Duration
	err = playPair(ctx, there, back, func(ctx context.Context, snd *spmd.Sender, rcv *spmd.Receiver) error {
		for range n {
			start := time.Now()
			if err := send(ctx, snd, item); err != nil {
				return err
			}
			if err := receive(ctx, rcv); err != nil {
				return err
			}
			times = append(times, time.Since(start))
		}
		return nil
	}, func(ctx context.Context, rcv *spmd.Receiver, snd *spmd.Sender) error {
		for range n {
			if err := receive(ctx, rcv); err != nil {
				return err
			}
			if err := send(ctx, snd, item); err != nil {
				return err
			}
		}
		return nil
	}, spmd.Key{Name: "x"})
	return bare, median(times), err
}

func send(ctx context.Context, s *spmd.Sender, layout *tensor.Layout) error {
	it, err := s.Take(ctx, layout)
	if err != nil {
		return err
	}
	return s.Put(ctx, it)
}

func receive(ctx context.Context, r *spmd.Receiver) error {
	it, err := r.Get(ctx)
	if err != nil {
		return err
	}
	r.Release(it)
	return nil
}

func bareRoundTrip(ctx context.Context, w *spmd.World, ranks []int, bytes, n int) (time.Duration, error) {
	all, err := w.NewComm(ranks, "bare round trip")
	if err != nil {
		return 0, err
	}
	buf, err := w.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	if len(all) == 2 { // both ends are on this rank
		w.Go("echo", func() error { _, err := bounce(ctx, all[1], buf, n); return err })
	}
	times, err := bounce(ctx, all[0], slices.Clone(buf), n)
	if w.Rank() != 0 {
		return 0, err
	}
	return median(times), err
}

// bounce sends b back and forth between two members n times. Member 0 sends first.
func bounce(ctx context.Context, c spmd.Comm, b []byte, n int) (times []time.Duration, err error) {
	reqs := make([]spmd.Request, 1)
	for range n {
		start := time.Now()
		for turn := range 2 {
			if turn == c.Rank() {
				reqs[0], err = c.Isend(b, 1-c.Rank(), 0)
			} else {
				reqs[0], err = c.Irecv(b, 1-c.Rank(), 0)
			}
			if err == nil {
				err = c.Wait(ctx, reqs)
			}
			if err != nil {
				return nil, err
			}
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}
