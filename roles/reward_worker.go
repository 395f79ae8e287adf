package roles

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A RewardWorker tells the rollout workers of some lanes what the steps of their environments are
// worth.
type RewardWorker struct {
	m     *spmd.Member
	job   *job
	rule  reward.Rule
	lanes map[int]*rewardLane // by their first environment
	from  *spmd.Receiver      // of all lanes
	views []transitionView
	trace *tracer
}

// A rewardLane is a lane as its reward worker sees it.
type rewardLane struct {
	lane
	layout *tensor.Layout
	to     *spmd.Sender
}

// transitionsKey names the one queue of a reward worker: it takes what comes first.
const transitionsKey = "transitions"

// NewRewardWorker returns the worker of member m.
func NewRewardWorker(m *spmd.Member, j *job) (*RewardWorker, error) {
	w := &RewardWorker{m: m, job: j, lanes: map[int]*rewardLane{}, trace: newTracer(j, m)}
	rows := 0
	for _, l := range j.train.lanes {
		if j.rewardWorker(l) == m.Index() {
			w.lanes[l.lo] = &rewardLane{lane: l, layout: j.rewardLayout(l)}
			rows = max(rows, l.hi-l.lo)
		}
	}
	var err error
	w.rule, err = j.newRule(rows)
	return w, err
}

// Score answers what comes through ch.Transitions in an iteration, through ch.Rewards.
func (w *RewardWorker) Score(ctx context.Context, ch RewardChannels) error {
	if err := w.open(ch); err != nil {
		return err
	}
	for range len(w.lanes) * w.job.epochs * w.job.steps {
		item, err := w.from.Get(ctx)
		if err != nil {
			return err
		}
		l := w.lanes[item.Lo]
		if err := w.answer(ctx, l, item); err != nil {
			return fmt.Errorf("rewards of environments %d-%d: %w", l.lo, l.hi-1, err)
		}
	}
	return nil
}

// open makes the ends of the channels, once.
func (w *RewardWorker) open(ch RewardChannels) (err error) {
	if w.from != nil || len(w.lanes) == 0 {
		return nil
	}
	if w.from, err = ch.Transitions.Receiver(w.m, spmd.Key{To: w.m.Index(), Name: transitionsKey}); err != nil {
		return err
	}
	for _, l := range w.lanes {
		if l.to, err = ch.Rewards.Sender(w.m, spmd.Key{To: l.rollout, Name: l.name()}); err != nil {
			return err
		}
	}
	return nil
}

func (w *RewardWorker) answer(ctx context.Context, l *rewardLane, item *spmd.Item) error {
	defer w.from.Release(item)
	out, err := l.to.Take(ctx, l.layout)
	if err != nil {
		return err
	}
	start := w.trace.start()
	if err := w.rule(out.Dict.Must("reward").F32(), w.view(item)); err != nil {
		return err
	}
	w.trace.done("score", start)
	return l.to.Put(ctx, out)
}

// A transitionView is an item as a reward.Batch. Memory comes round again, for lanes of different
// lengths.
type transitionView struct {
	item  *spmd.Item
	rows  int
	batch reward.Batch
}

func (w *RewardWorker) view(item *spmd.Item) *reward.Batch {
	rows := item.Hi - item.Lo
	for i := range w.views {
		if v := &w.views[i]; v.item == item && v.rows == rows {
			return &v.batch
		}
	}
	d := item.Dict
	info, _ := d.Get("info")
	w.views = append(w.views, transitionView{item, rows, reward.Batch{
		Obs: d.Sub("observation"), Next: d.Sub("next_observation"), Action: d.Must("action"),
		Reward:     d.Must("reward").F32(),
		Terminated: d.Must("terminated").U8(), Truncated: d.Must("truncated").U8(), Info: info,
	}})
	return &w.views[len(w.views)-1].batch
}
