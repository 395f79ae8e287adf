package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// trade lets actors exchange groups, so that all have about as many tokens and as many groups. Who gets
// which follows from the groups' lengths and numbers alone.
func (w *ReasoningWorker) trade(ctx context.Context) error {
	actors, this := w.replicas.Count()
	tokens := make([]float64, w.way.plan.Groups)
	for _, a := range w.groups {
		tokens[a.group] = float64(a.total())
	}
	if err := w.replicas.Sum(tokens); err != nil {
		return err
	}
	to := job.LevelGroups(tokens, actors)
	mine := map[int]*answers{}
	for _, a := range w.groups {
		mine[a.group] = a
	}
	// All actors go through the pairs in one order, so that none waits for one that waits for it.
	for a := range actors {
		for b := range actors {
			if groups := w.traded(to, a, b); a == b || len(groups) == 0 {
				continue
			} else if a == this {
				if err := w.give(ctx, b, groups, mine); err != nil {
					return err
				}
			} else if b == this {
				if err := w.take(ctx, a, groups, mine); err != nil {
					return err
				}
			}
		}
	}
	w.groups = w.groups[:0]
	for g := range to {
		if a := mine[g]; a != nil {
			w.groups = append(w.groups, a)
		}
	}
	return nil
}

// traded returns the groups that go from one actor to another.
func (w *ReasoningWorker) traded(to []int, from, other int) (groups []int) {
	lo, hi := w.way.plan.Range(w.way.hop, from)
	for g := lo; g < hi; g++ {
		if to[g] == other {
			groups = append(groups, g)
		}
	}
	return groups
}

// give sends groups to another actor, and forgets them.
func (w *ReasoningWorker) give(ctx context.Context, actor int, groups []int, mine map[int]*answers) error {
	var packed []byte
	ends := make([]int64, len(groups))
	for i, g := range groups {
		packed = tensor.Encode(packed, mine[g].dict())
		ends[i] = int64(len(packed))
		delete(mine, g)
	}
	var d tensor.Dict
	d.Set("ends", tensor.FromI64(ends, len(ends)))
	d.Set("packed", tensor.FromU8(packed, len(packed)))
	return w.m.SendTo(ctx, w.m.Group(), actor, d)
}

// take receives groups from another actor.
func (w *ReasoningWorker) take(ctx context.Context, actor int, groups []int, mine map[int]*answers) error {
	d, err := w.m.RecvFrom(ctx, w.m.Group(), actor, tensor.Dict{})
	if err != nil {
		return err
	}
	packed, from := d.Must("packed").U8(), int64(0)
	for i, end := range d.Must("ends").I64() {
		one, err := tensor.Decode(packed[from:end])
		if err != nil {
			return fmt.Errorf("group %d: %w", groups[i], err)
		}
		mine[groups[i]] = readAnswers(one, w.tuning)
		mine[groups[i]].group = groups[i]
		from = end
	}
	return nil
}
