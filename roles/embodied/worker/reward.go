package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A RewardWorker computes the rewards of some routes.
type RewardWorker struct {
	base
	rule    reward.Rule
	routes  map[int]*rewardRoute // by the number of their first environment
	from    *spmd.Receiver       // receives the transitions of all routes
	batches views[reward.Batch]
}

// A rewardRoute is a route, with the reward worker's sender.
type rewardRoute struct {
	plan.Route
	layout *tensor.Layout
	to     *spmd.Sender
}

// transitionsKey is the key of a reward worker's single queue. The worker answers in the order of arrival.
const transitionsKey = "transitions"

// NewRewardWorker returns the worker of member m, for loop.Launch.
func NewRewardWorker(_ context.Context, c *loop.Cluster, m *spmd.Member) (*RewardWorker, error) {
	b, _, err := newBase(c, m)
	if err != nil {
		return nil, err
	}
	p := b.plan
	w := &RewardWorker{base: b, routes: map[int]*rewardRoute{}}
	if p.Rewards == 0 { // env workers score
		return w, nil
	}
	rows := 0
	for _, l := range p.Train.Routes {
		if p.RewardWorker(l) == m.Index() {
			w.routes[l.Lo] = &rewardRoute{Route: l, layout: p.RewardLayout(l)}
			rows = max(rows, l.Hi-l.Lo)
		}
	}
	if rule, stayed := loop.PartOf[reward.Rule](c, m); stayed {
		w.rule = rule
		return w, nil
	}
	w.rule, err = p.NewRule(rows)
	return w, err
}

// Part returns the rule, with the reward network and memory for a batch.
func (w *RewardWorker) Part() any { return w.rule }

// Score receives the transitions of an iteration through ch.Transitions, and sends their rewards through ch.Rewards.
func (w *RewardWorker) Score(ctx context.Context, ch RewardChannels) error {
	if err := w.open(ch); err != nil {
		return err
	}
	for range len(w.routes) * w.plan.Epochs * w.plan.Steps {
		item, err := w.from.Get(ctx)
		if err != nil {
			return err
		}
		l := w.routes[item.Lo]
		if err := w.answer(ctx, l, item); err != nil {
			return fmt.Errorf("rewards of environments %d-%d: %w", l.Lo, l.Hi-1, err)
		}
	}
	return nil
}

// open opens the senders and receivers of the channels. Later calls do nothing.
func (w *RewardWorker) open(ch RewardChannels) (err error) {
	if w.from != nil || len(w.routes) == 0 {
		return nil
	}
	if w.from, err = ch.Transitions.Receiver(w.m, spmd.Key{To: w.m.Index(), Name: transitionsKey}); err != nil {
		return err
	}
	for _, l := range w.routes {
		if l.to, err = ch.Rewards.Sender(w.m, spmd.Key{To: l.Rollout, Name: l.Name()}); err != nil {
			return err
		}
	}
	return nil
}

func (w *RewardWorker) answer(ctx context.Context, l *rewardRoute, item *spmd.Item) error {
	defer w.from.Release(item)
	out, err := l.to.Take(ctx, l.layout)
	if err != nil {
		return err
	}
	span := w.m.Span("score").Begin()
	err = w.rule(out.Dict.Must(algo.FieldReward).F32(), w.batches.viewOf(item, plan.Transitions))
	span.End(0, 0)
	if err != nil {
		return err
	}
	return l.to.Put(ctx, out)
}
