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

// A learner is the common part of workers that train on answers. It has a replica of the trained model, and the
// answers of an iteration.
type learner struct {
	*tuner
	queue     *stageQueue
	exchanges bool // groups are exchanged so that all replicas have about as many tokens
	groups    []*answers
	batch     algo.TextBatch
}

func newLearner(t *tuner) *learner {
	return &learner{tuner: t, queue: newStageQueue(t.m, t.plan, t.replica),
		exchanges: t.plan.ExchangesGroups(t.m.Group())}
}

// join connects the learner in another world, that of m.
func (w *learner) join(ctx context.Context, m *spmd.Member, p *plan.Plan) error {
	if err := w.tuner.join(ctx, m, p); err != nil {
		return err
	}
	w.queue = newStageQueue(m, p, w.replica)
	return nil
}

// receive receives this replica's answers of a step through in, and calls f with each group. Then it sends the group
// through out, unless out is nil. The answers must be of this step's weights. The grader g of the replica's first
// member grades answers that have no reward.
func (w *learner) receive(ctx context.Context, step int64, in, out *spmd.Channel, g *answer.Grader,
	f func(*answers) error) error {
	w.groups = w.groups[:0]
	check := func(a *answers) error {
		if a.version != step {
			return fmt.Errorf("answers of weights %d, expected %d", a.version, step)
		}
		if a.reward == nil {
			return a.judge(g, w.plan)
		}
		return nil
	}
	return w.queue.each(ctx, in, out, check, func(a *answers) error {
		w.groups = append(w.groups, a)
		return f(a)
	})
}

// joinGroups joins the groups into one batch, in their order.
func (w *learner) joinGroups() {
	slices.SortFunc(w.groups, func(a, b *answers) int { return a.group - b.group })
	w.batch, w.groups = joinAnswers(w.groups), w.groups[:0]
}

// Rewards returns the rewards of the batch on the first member of each replica, and nothing on the others.
func (w *learner) Rewards() []float32 {
	if !w.replica.first {
		return nil
	}
	return w.batch.Reward
}

// train calls update with the batch, and completes the metrics.
func (w *learner) train(ctx context.Context, update func(*algo.TextBatch) (algo.Metrics, error)) (algo.Metrics,
	error) {
	span := w.m.Span("train").Begin()
	m, err := update(&w.batch)
	span.End(0, 0)
	member.YieldToFirst(ctx, w.m, err)
	if err == nil {
		m.Names, m.Values = slices.Clone(m.Names), slices.Clone(m.Values)
		err = w.replicas.Trained(ctx, &m)
	}
	return m, err
}

// joinAnswers joins groups into one batch.
func joinAnswers(groups []*answers) algo.TextBatch {
	parts := make([]algo.TextBatch, len(groups))
	for i, a := range groups {
		parts[i] = a.batch()
	}
	return algo.JoinTexts(parts...)
}

// exchangeGroups exchanges groups among the replicas of a component, if the job does so. Afterwards all replicas have
// the same number of groups, and about the same number of tokens. A replica's groups follow from the lengths and
// numbers of all groups alone. Each member exchanges groups with those that have the same part of other replicas.
func (w *learner) exchangeGroups(ctx context.Context) error {
	if !w.exchanges {
		return nil
	}
	replicas, this := w.replicas.Count()
	tokens := make([]float64, w.plan.Pipeline.Groups)
	for _, a := range w.groups {
		tokens[a.group] = float64(a.total())
	}
	if err := w.replicas.Sum(tokens); err != nil {
		return err
	}
	to := plan.BalanceGroups(tokens, replicas)
	mine := map[int]*answers{}
	for _, a := range w.groups {
		mine[a.group] = a
	}
	// All replicas go through the pairs in the same order, so they cannot deadlock.
	for a := range replicas {
		for b := range replicas {
			if groups := w.leaving(to, a, b); a == b || len(groups) == 0 {
				continue
			} else if a == this {
				if err := w.sendGroups(ctx, b, groups, mine); err != nil {
					return err
				}
			} else if b == this {
				if err := w.receiveGroups(ctx, a, groups, mine); err != nil {
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

// leaving returns the groups that move from one replica to another.
func (w *learner) leaving(to []int, from, other int) (groups []int) {
	lo, hi := w.plan.Pipeline.Range(w.queue.stage, from)
	for g := lo; g < hi; g++ {
		if to[g] == other {
			groups = append(groups, g)
		}
	}
	return groups
}

// peer returns the member that has this one's part in another replica.
func (w *learner) peer(replica int) int {
	mesh := w.plan.Mesh(w.m.Group())
	return mesh.First(replica) + w.m.Index()%mesh.Members()
}

// sendGroups sends groups to another replica, and removes these groups from mine.
func (w *learner) sendGroups(ctx context.Context, replica int, groups []int, mine map[int]*answers) error {
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
	return w.m.SendTo(ctx, w.m.Group(), w.peer(replica), d)
}

// receiveGroups receives groups from another replica, and adds these groups to mine.
func (w *learner) receiveGroups(ctx context.Context, replica int, groups []int, mine map[int]*answers) error {
	d, err := w.m.RecvFrom(ctx, w.m.Group(), w.peer(replica), tensor.Dict{})
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
