package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A ChannelPlan says what Channel measures. It is the same on every rank.
type ChannelPlan struct {
	Ranks   [2]int // where the producer is, and the consumer
	Sizes   []int  // bytes of an item's tensor
	Depth   int    // items that a queue holds
	Window  int    // items of a stream
	Consume time.Duration
	Check   bool
}

// The things that Channel measures.
const (
	RoundTrip    = "round_trip"    // an item there and another back
	Stream       = "stream"        // a window of items one way, then an answer
	BackPressure = "back_pressure" // the same to a consumer that computes for a while on each
)

// Channel measures a channel from a worker on one rank to a worker on another, and one back. Items
// are passed on unchanged, so the time does not include filling and reading them. Channel is
// collective over the world.
func (r *Run) Channel(ctx context.Context, p ChannelPlan) error {
	err := r.Columns(fmt.Sprintf("dissemination barrier, then: an item there and one back; %d items one way and an "+
		"answer; the same to a consumer that computes %v on each; queues hold %d",
		p.Window, p.Consume, p.Depth), []string{"op", "n", "size"}, []string{"items_s", "bw_gbs", "blocked_pct",
		"lag_x"})
	if err != nil {
		return err
	}
	t, err := r.newTeam(p.Ranks[:], "bench channel")
	if err != nil {
		return err
	}
	work := max(1, int(float64(p.Consume)*calibrate()))
	for i, size := range p.Sizes {
		if r.stopped {
			break
		}
		b, err := r.newTwoWay(p, i, size)
		if err != nil {
			return fmt.Errorf("channel for items of %d bytes: %w", size, err)
		}
		for _, op := range []string{RoundTrip, Stream, BackPressure} {
			b.work = 0
			if op == BackPressure {
				b.work = work
			}
			if err := r.items(ctx, t, p, b, op); err != nil {
				return fmt.Errorf("channel, %s of %d bytes: %w", op, size, err)
			}
		}
	}
	return nil
}

// items measures one operation on a channel.
func (r *Run) items(ctx context.Context, t *team, p ChannelPlan, b *twoWay, op string) error {
	return r.measure(ctx, t, true, func() ([]*arm, func(), error) {
		consumed := &arm{call: func(context.Context, int) error { burn(b.work); return nil }, hidden: true}
		a := b.arm(op, p.Check)
		arms := []*arm{a}
		if b.work > 0 {
			arms = []*arm{consumed, a}
		}
		return arms, func() {
			row := &a.row
			items := float64(p.Window)
			if op == RoundTrip {
				items = 2
			}
			row.SetFigure("items_s", 1e6*items/row.Median)
			row.SetFigure("bw_gbs", gbs(items*float64(row.Size), row.Median))
			if b.work > 0 {
				row.SetFigure("blocked_pct", 100*b.blocked.Seconds()/max(1e-9, b.produced.Seconds()))
				row.SetFigure("lag_x", row.Median/(items*consumed.row.Median))
			}
		}, nil
	})
}

// A twoWay is a channel there and one back, with this rank's ends.
type twoWay struct {
	producer    bool
	there, back struct {
		s *spmd.Sender
		r *spmd.Receiver
	}
	layout            *tensor.Layout
	size, window      int
	work              int // rounds of burn per item of the consumer
	seq               int // items taken so far, the same on both sides
	pattern           pattern
	blocked, produced time.Duration // of the producer: waiting for room, altogether
}

// newTwoWay launches the two workers and makes their channels. It is collective over the world.
func (r *Run) newTwoWay(p ChannelPlan, i, size int) (*twoWay, error) {
	from := spmd.GroupSpec{Name: fmt.Sprintf("producer %d", i), Ranks: []int{p.Ranks[0]}}
	to := spmd.GroupSpec{Name: fmt.Sprintf("consumer %d", i), Ranks: []int{p.Ranks[1]}}
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	producer, err := spmd.Launch(r.w, from, self)
	if err != nil {
		return nil, err
	}
	consumer, err := spmd.Launch(r.w, to, self)
	if err != nil {
		return nil, err
	}
	b := &twoWay{layout: tensor.NewLayout(tensor.Field{Name: "data", DType: tensor.U8, Shape: []int{size}}), size: size,
		window: p.Window, pattern: pattern{dtype: tensor.U8, members: 2}}
	spec := spmd.ChannelSpec{Name: fmt.Sprintf("there %d", i), From: from, To: to, MaxSize: p.Depth,
		ItemBytes: b.layout.Size()}
	there, err := spmd.NewChannel(r.w, spec)
	if err != nil {
		return nil, err
	}
	spec.Name, spec.From, spec.To = fmt.Sprintf("back %d", i), to, from
	back, err := spmd.NewChannel(r.w, spec)
	if err != nil {
		return nil, err
	}
	var errs [4]error
	key := spmd.Key{To: 0}
	if here := producer.Here(); len(here) > 0 {
		b.producer = true
		b.there.s, errs[0] = there.Sender(here[0], key)
		b.back.r, errs[1] = back.Receiver(here[0], key)
	}
	if here := consumer.Here(); len(here) > 0 {
		b.there.r, errs[2] = there.Receiver(here[0], key)
		b.back.s, errs[3] = back.Sender(here[0], key)
	}
	return b, errors.Join(errs[:]...)
}

func (b *twoWay) arm(op string, check bool) *arm {
	a := &arm{}
	a.row.Op, a.row.Ranks, a.row.Size = op, 2, int64(b.size)
	b.blocked, b.produced = 0, 0
	items := b.window
	if op == RoundTrip {
		items = 1
	}
	a.call = func(ctx context.Context, _ int) error { _, err := b.run(ctx, items, false); return err }
	if check {
		a.check = func(ctx context.Context) (int64, error) { return b.run(ctx, items, true) }
	}
	return a
}

// run moves items from the producer to the consumer, and one item back. With check it fills the
// items, and returns how many of their bytes and numbers are wrong.
func (b *twoWay) run(ctx context.Context, items int, check bool) (wrong int64, err error) {
	if !b.producer {
		for range items {
			bad, err := b.get(ctx, b.there.r, 0, check)
			if err != nil {
				return 0, err
			}
			wrong += bad
			burn(b.work)
		}
		return wrong, b.put(ctx, b.back.s, 1, check)
	}
	start := time.Now()
	for range items {
		if err := b.put(ctx, b.there.s, 0, check); err != nil {
			return 0, err
		}
	}
	b.produced += time.Since(start)
	return b.get(ctx, b.back.r, 1, check)
}

func (b *twoWay) put(ctx context.Context, s *spmd.Sender, member int, fill bool) error {
	start := time.Now()
	it, err := s.Take(ctx, b.layout)
	if err != nil {
		return err
	}
	b.blocked += time.Since(start)
	b.seq++
	it.Lo = b.seq
	if fill {
		b.pattern.salt = uint64(b.seq)
		b.pattern.fill(it.Dict.Must("data").Bytes(), member, 0)
	}
	return s.Put(ctx, it)
}

func (b *twoWay) get(ctx context.Context, r *spmd.Receiver, member int, check bool) (wrong int64, err error) {
	it, err := r.Get(ctx)
	if err != nil {
		return 0, err
	}
	b.seq++
	if it.Lo != b.seq {
		wrong++ // out of turn
	}
	if check {
		b.pattern.salt = uint64(b.seq)
		wrong += b.pattern.wrong(it.Dict.Must("data").Bytes(), member, 0)
	}
	r.Release(it)
	return wrong, nil
}
