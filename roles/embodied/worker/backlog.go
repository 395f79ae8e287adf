package worker

import (
	"bytes"
	"context"
	"runtime"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A backlog has the finished rollouts of robots that wait for room in the channels to the actors, so that a robot never
// waits for the learner. If there are too many, the oldest rollout without an intervention is dropped, or the oldest
// rollout if people intervened in all.
type backlog struct {
	waiting []*finished
	spare   []*finished // memory for further rollouts
	making  *finished   // the rollout that is being made; nil between two rollouts
	dropped int64       // rollouts dropped in this run
	lost    int         // rollouts dropped just before the one that is being made
}

// A finished rollout has the trajectories of each shard.
type finished struct {
	dicts   []tensor.Dict
	version int64
	guided  bool // a person intervened
	lost    int  // rollouts dropped just before this one
}

// newBacklog returns the backlog of a route. It returns nil unless its environments are robots: see plan.Plan.Backlog.
func newBacklog(p *plan.Plan, layouts []*tensor.Layout) *backlog {
	if p.Backlog() == 0 {
		return nil
	}
	b := &backlog{}
	// A goroutine that has observations waits for no other, whatever the actors compute.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	for range p.Backlog() + 1 {
		f := &finished{}
		for _, l := range layouts {
			f.dicts = append(f.dicts, l.Bind(tensor.New(tensor.U8, l.Size()).Bytes()))
		}
		b.spare = append(b.spare, f)
	}
	return b
}

// begin returns memory for the trajectories of the next rollout. If there is none, it drops a waiting rollout.
func (b *backlog) begin() []tensor.Dict {
	if b.making == nil && len(b.spare) == 0 {
		i := max(0, slices.IndexFunc(b.waiting, func(f *finished) bool { return !f.guided }))
		old, lost := b.waiting[i], &b.lost
		if i+1 < len(b.waiting) {
			lost = &b.waiting[i+1].lost
		}
		*lost += old.lost + 1
		b.spare, b.waiting = append(b.spare, old), slices.Delete(b.waiting, i, i+1)
		b.dropped++
	}
	if b.making == nil {
		last := len(b.spare) - 1
		b.making, b.spare = b.spare[last], b.spare[:last]
	}
	return b.making.dicts
}

// end adds the rollout that was made with this version of the weights.
func (b *backlog) end(version int64) {
	b.making.version, b.making.guided = version, false
	b.making.lost, b.lost = b.lost, 0
	for _, d := range b.making.dicts {
		if t, ok := d.Get(algo.FieldIntervened); ok && bytes.IndexByte(t.U8(), 1) >= 0 {
			b.making.guided = true
		}
	}
	b.waiting, b.making = append(b.waiting, b.making), nil
}

// flush sends waiting rollouts to the actors, as long as the channels have room. Without a backlog it does nothing.
func (l *asyncRoute) flush(ctx context.Context) error {
	for b := l.backlog; b != nil && len(b.waiting) > 0; {
		for ; l.taken < len(l.Shards); l.taken++ {
			item, err := l.out[l.taken].TryTake(l.layouts[l.taken])
			if err == spmd.ErrFull {
				return nil
			}
			if err != nil {
				return err
			}
			l.items[l.taken] = item
		}
		f := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		for i, item := range l.items {
			item.Dict.CopyFrom(f.dicts[i])
			item.Weight = 0
		}
		l.items[0].Weight = f.lost
		l.taken, b.spare = 0, append(b.spare, f)
		if err := l.deliver(ctx, f.version); err != nil {
			return err
		}
	}
	return nil
}
