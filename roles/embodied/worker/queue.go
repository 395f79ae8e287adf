package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A queue keeps the unused rollouts of a shard during a move in an asynchronous run. The actor uses these rollouts
// before the rollouts in the channel.
type queue struct {
	received int64        // rollouts received through channels in the whole run
	waiting  []*spmd.Item // copies of unused rollouts
	own      []*spmd.Item // copies of rollouts in use
}

// get returns the next rollout. If there is none and wait is true, get waits for one. If wait is false, it returns
// spmd.ErrEmpty instead.
func (in *input) get(ctx context.Context, wait bool) (item *spmd.Item, err error) {
	if len(in.waiting) > 0 {
		item, in.waiting = in.waiting[0], in.waiting[1:]
		in.own = append(in.own, item)
		return item, nil
	}
	if wait {
		item, err = in.from.Get(ctx)
	} else {
		item, err = in.from.TryGet(ctx)
	}
	if err == nil {
		in.received++
	}
	return item, err
}

// release ends the use of an item. If the item came from a channel, release returns the item's memory to the sender.
func (in *input) release(item *spmd.Item) {
	if i := slices.Index(in.own, item); i >= 0 {
		in.own = slices.Delete(in.own, i, i+1)
		return
	}
	in.from.Release(item)
}

// settle receives the rollouts that are still under way, and copies all unused rollouts to the queue. total is the
// number of rollouts that were made for the shard in the whole run.
func (in *input) settle(ctx context.Context, total int64) error {
	if next := in.next; next != nil {
		in.waiting = append([]*spmd.Item{cloned(next)}, in.waiting...)
		in.release(next)
		in.next = nil
	}
	for in.received < total {
		item, err := in.from.Get(ctx)
		if err != nil {
			return fmt.Errorf("trajectories of %s: %w", in.Name(), err)
		}
		in.received++
		in.waiting = append(in.waiting, cloned(item))
		in.from.Release(item)
	}
	return nil
}

// cloned returns a copy of an item, with copies of its tensors.
func cloned(item *spmd.Item) *spmd.Item {
	return &spmd.Item{Dict: item.Dict.Clone(), From: item.From, Lo: item.Lo, Hi: item.Hi, Version: item.Version,
		Weight: item.Weight}
}

// Settle receives the rollouts that are still under way to this actor. The run must be asynchronous. finished[i] is the
// number of rollouts that were finished on route i in the whole run.
func (a *ActorWorker) Settle(ctx context.Context, out *spmd.Channel, finished []float64) error {
	if err := a.listen(out); err != nil {
		return err
	}
	for _, in := range a.inputs {
		for _, l := range a.plan.Train.Routes {
			if l.Lo <= in.Lo && in.Hi <= l.Hi {
				if err := in.settle(ctx, int64(finished[l.ID])); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// packQueues returns the waiting rollouts.
func (a *ActorWorker) packQueues() (d tensor.Dict, err error) {
	for i, in := range a.inputs {
		d.Set(fmt.Sprintf("%d.numbers", i), tensor.FromI64([]int64{in.received, int64(len(in.waiting))}, 2))
		for k, item := range in.waiting {
			d.Set(fmt.Sprintf("%d.version%d", i, k), tensor.FromI64([]int64{item.Version}, 1))
			merge(&d, fmt.Sprintf("%d.item%d.", i, k), item.Dict)
		}
	}
	return d, nil
}

// unpackQueues restores the waiting rollouts from d.
func (a *ActorWorker) unpackQueues(d tensor.Dict) error {
	for i, in := range a.inputs {
		numbers := d.Must(fmt.Sprintf("%d.numbers", i)).I64()
		in.received = numbers[0]
		for k := range numbers[1] {
			in.waiting = append(in.waiting, &spmd.Item{Dict: d.Sub(fmt.Sprintf("%d.item%d", i, k)), Lo: in.Lo,
				Hi: in.Hi, Version: d.Must(fmt.Sprintf("%d.version%d", i, k)).I64()[0]})
		}
	}
	return nil
}
