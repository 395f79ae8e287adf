package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Operations of the benchmark channel.
const (
	RoundTrip    = "round_trip"    // one item to the consumer and one item back
	Stream       = "stream"        // a window of items one way, then an answer
	BackPressure = "back_pressure" // a stream to a consumer that computes on each item
)

// channels measures two channels between workers on two ranks, one in each direction. Items are passed on unchanged, so
// the time does not include filling and reading them. channels is collective over the world.
func (r *Run) channels(ctx context.Context, p *Suite) error {
	err := r.Columns(fmt.Sprintf("dissemination barrier, then: an item there and one back; %d items one way and an "+
		"answer; the same to a consumer that computes %v on each; queues hold %d",
		p.Window, p.Consume, p.Depth), []string{"op", "n", "size"}, []string{"items_s", "bw_gbs", "blocked_pct",
		"lag_x"})
	if err != nil {
		return err
	}
	t, err := r.newTeam(p.Pair[:], "bench channel")
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

// items measures the operation op on the two channels.
func (r *Run) items(ctx context.Context, t *team, p *Suite, b *twoWay, op string) error {
	there, moved := p.Window, float64(p.Window) // number of items to the consumer; number of items that rates count
	if op == RoundTrip {
		there, moved = 1, 2
	}
	return r.measure(ctx, t, true, func() ([]*arm, func(), error) {
		b.blocked, b.produced = 0, 0
		a := &arm{row: report.Measurement{Op: op, Ranks: 2, Size: int64(b.size)}}
		a.call = func(ctx context.Context, _ int) error {
			_, err := b.run(ctx, there, false)
			return err
		}
		if p.Check {
			a.check = func(ctx context.Context) (int64, error) { return b.run(ctx, there, true) }
		}
		arms, row := []*arm{a}, &a.row
		consumed := &arm{call: func(context.Context, int) error { burn(b.work); return nil }, hidden: true}
		if b.work > 0 {
			arms = []*arm{consumed, a}
		}
		return arms, func() {
			row.SetFigure("items_s", 1e6*moved/row.Median)
			row.SetFigure("bw_gbs", gbs(moved*float64(row.Size), row.Median))
			if b.work > 0 {
				row.SetFigure("blocked_pct", 100*b.blocked.Seconds()/max(1e-9, b.produced.Seconds()))
				row.SetFigure("lag_x", row.Median/(moved*consumed.row.Median))
			}
		}, nil
	})
}

// A twoWay holds what this rank needs to use the two channels: a Sender of one channel and a Receiver of the other.
type twoWay struct {
	me                int // 0: the producer, 1: the consumer
	out               *spmd.Sender
	in                *spmd.Receiver
	size              int // bytes of an item's tensor
	layout            *tensor.Layout
	work              int // rounds of burn per item of the consumer
	seq               int // items put and taken so far, the same on both sides
	pattern           pattern
	blocked, produced time.Duration // the producer's time waiting for room in the queue, and its total time
}

// newTwoWay launches the two workers and makes their channels. The number i distinguishes their names from those of
// other calls. It is collective over the world.
func (r *Run) newTwoWay(p *Suite, i, size int) (*twoWay, error) {
	b := &twoWay{size: size, pattern: pattern{dtype: tensor.U8, members: 2},
		layout: tensor.NewLayout(tensor.Field{Name: "data", DType: tensor.U8, Shape: []int{size}})}
	var sides [2]spmd.GroupSpec
	var worker *spmd.Member // the worker on this rank; nil if there is none
	for side, name := range []string{"producer", "consumer"} {
		sides[side] = spmd.GroupSpec{Name: fmt.Sprintf("%s %d", name, i), Ranks: p.Pair[side : side+1]}
		g, err := spmd.Launch(r.w, sides[side], func(m *spmd.Member) (*spmd.Member, error) { return m, nil })
		if err != nil {
			return nil, err
		}
		if here := g.Here(); len(here) > 0 {
			b.me, worker = side, here[0]
		}
	}
	var channels [2]*spmd.Channel // indexed by the sending side
	for side, name := range []string{"there", "back"} {
		var err error
		if channels[side], err = spmd.NewChannel(r.w, spmd.ChannelSpec{Name: fmt.Sprintf("%s %d", name, i),
			From: sides[side], To: sides[1-side], MaxSize: p.Depth, ItemBytes: b.layout.Size()}); err != nil {
			return nil, err
		}
	}
	if worker == nil {
		return b, nil
	}
	var err, err2 error
	b.out, err = channels[b.me].Sender(worker, spmd.Key{To: 0})
	b.in, err2 = channels[1-b.me].Receiver(worker, spmd.Key{To: 0})
	return b, errors.Join(err, err2)
}

// run sends items from the producer to the consumer, and one item back. If check is true, it fills the items, and
// returns the number of wrong bytes. An item out of order counts as one more wrong byte.
func (b *twoWay) run(ctx context.Context, items int, check bool) (wrong int64, err error) {
	if b.me == 1 {
		for range items {
			bad, err := b.get(ctx, check)
			if err != nil {
				return 0, err
			}
			wrong += bad
			burn(b.work)
		}
		return wrong, b.put(ctx, check)
	}
	start := time.Now()
	for range items {
		if err := b.put(ctx, check); err != nil {
			return 0, err
		}
	}
	b.produced += time.Since(start)
	return b.get(ctx, check)
}

func (b *twoWay) put(ctx context.Context, fill bool) error {
	start := time.Now()
	it, err := b.out.Take(ctx, b.layout)
	if err != nil {
		return err
	}
	b.blocked += time.Since(start)
	b.seq++
	it.Lo = b.seq
	if fill {
		b.pattern.salt = uint64(b.seq)
		b.pattern.fill(it.Dict.Must("data").Bytes(), b.me, 0)
	}
	return b.out.Put(ctx, it)
}

func (b *twoWay) get(ctx context.Context, check bool) (wrong int64, err error) {
	it, err := b.in.Get(ctx)
	if err != nil {
		return 0, err
	}
	b.seq++
	if it.Lo != b.seq {
		wrong++ // the item is out of order
	}
	if check {
		b.pattern.salt = uint64(b.seq)
		wrong += b.pattern.wrong(it.Dict.Must("data").Bytes(), 1-b.me, 0)
	}
	b.in.Release(it)
	return wrong, nil
}
