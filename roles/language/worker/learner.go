package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A learner is what workers have in common that learn from answers: a replica of what they train, and
// the answers of an iteration.
type learner struct {
	*tuner
	queue     *stageQueue
	exchanges bool // groups are dealt by their lengths
	groups    []*answers
	batch     algo.TextBatch
}

func newLearner(t *tuner) *learner {
	return &learner{tuner: t, queue: newStageQueue(t.m, t.plan), exchanges: t.plan.ExchangesGroups(t.m.Group())}
}

// receive takes this worker's answers of step number step from in, calls f with each group, and sends
// them on through out, if it is not nil. They must have been made by the weights of that step. Those
// without a reward get one by g.
func (w *learner) receive(ctx context.Context, step int64, in, out *spmd.Channel, g *answer.Grader,
	f func(*answers) error) error {
	w.groups = w.groups[:0]
	return w.queue.each(ctx, in, out, func(a *answers) error {
		if a.version != step {
			return fmt.Errorf("answers of weights %d, expected %d", a.version, step)
		}
		if a.reward == nil {
			if err := a.judge(g, w.plan); err != nil {
				return err
			}
		}
		w.groups = append(w.groups, a)
		return f(a)
	})
}

// join makes the answers one batch, in the order of their groups.
func (w *learner) join() {
	slices.SortFunc(w.groups, func(a, b *answers) int { return a.group - b.group })
	w.batch, w.groups = joinAnswers(w.groups), w.groups[:0]
}

// train updates what is trained on the answers.
func (w *learner) train(ctx context.Context, update func(*algo.TextBatch) (algo.Metrics, error)) (algo.Metrics,
	error) {
	start := w.trace.Start()
	m, err := update(&w.batch)
	w.trace.Done("train", start)
	member.YieldToFirst(ctx, w.m, err)
	if err == nil {
		m.Names, m.Values = slices.Clone(m.Names), slices.Clone(m.Values)
		err = w.replicas.Trained(ctx, &m)
	}
	return m, err
}

// joinAnswers makes groups one batch.
func joinAnswers(groups []*answers) algo.TextBatch {
	parts := make([]algo.TextBatch, len(groups))
	for i, a := range groups {
		parts[i] = a.batch()
	}
	return algo.JoinTexts(parts...)
}

// exchangeGroups gives all workers of a component about as many tokens and as many groups, where that is wanted.
// The groups of each worker follow from their lengths and numbers alone.
func (w *learner) exchangeGroups(ctx context.Context) error {
	if !w.exchanges {
		return nil
	}
	workers, this := w.replicas.Count()
	tokens := make([]float64, w.plan.Pipeline.Groups)
	for _, a := range w.groups {
		tokens[a.group] = float64(a.total())
	}
	if err := w.replicas.Sum(tokens); err != nil {
		return err
	}
	to := plan.BalanceGroups(tokens, workers)
	mine := map[int]*answers{}
	for _, a := range w.groups {
		mine[a.group] = a
	}
	// All workers go through the pairs in one order, so that none waits for one that waits for it.
	for a := range workers {
		for b := range workers {
			if groups := w.leaving(to, a, b); a == b || len(groups) == 0 {
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

// leaving returns the groups that go from one worker to another.
func (w *learner) leaving(to []int, from, other int) (groups []int) {
	lo, hi := w.plan.Pipeline.Range(w.queue.stage, from)
	for g := lo; g < hi; g++ {
		if to[g] == other {
			groups = append(groups, g)
		}
	}
	return groups
}

// give sends groups to another worker, and forgets them.
func (w *learner) give(ctx context.Context, worker int, groups []int, mine map[int]*answers) error {
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
	return w.m.SendTo(ctx, w.m.Group(), worker, d)
}

// take receives groups from another worker.
func (w *learner) take(ctx context.Context, worker int, groups []int, mine map[int]*answers) error {
	d, err := w.m.RecvFrom(ctx, w.m.Group(), worker, tensor.Dict{})
	if err != nil {
		return err
	}
	packed, from := d.Must("packed").U8(), int64(0)
	for i, end := range d.Must("ends").I64() {
		one, err := tensor.Decode(packed[from:end])
		if err != nil {
			return fmt.Errorf("group %d: %w", groups[i], err)
		}
		mine[groups[i]] = readAnswers(one, w.plan)
		mine[groups[i]].group = groups[i]
		from = end
	}
	return nil
}
