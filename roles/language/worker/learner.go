package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A learner is the common part of workers that train on answers. It has a replica of the trained model, the algorithm,
// and the answers of an iteration.
type learner[A textAlgorithm] struct {
	*tuner
	algo      A
	queue     *stageQueue
	grader    *answer.Grader // nil if other workers grade answers
	exchanges bool           // replicas exchange groups to balance their numbers of tokens
	groups    []*answers
	batch     algo.TextBatch
}

// A textAlgorithm trains the policy or the critic on answers.
type textAlgorithm interface {
	Prepare(*algo.TextBatch) error
	Update(*algo.TextBatch) (algo.Metrics, error)
	Close()
}

// newLearner returns a learner without its algorithm.
func newLearner[A textAlgorithm](t *tuner, judge *answer.JudgeProgram) (w *learner[A], err error) {
	w = &learner[A]{tuner: t, queue: newStageQueue(t.m, t.plan, t.replica),
		exchanges: t.plan.ExchangesGroups(t.m.Group())}
	if t.plan.RewardComponent() == t.m.Group() && t.replica.first {
		w.grader, err = t.plan.NewGrader(judge)
	}
	return w, err
}

// join makes the learner's connections in the world of m.
func (w *learner[A]) join(ctx context.Context, m *spmd.Member, p *plan.Plan) error {
	if err := w.tuner.join(ctx, m, p); err != nil {
		return err
	}
	w.queue = newStageQueue(m, p, w.replica)
	return nil
}

// receive receives this replica's answers of a step, and calls f with each group. Then it sends the group to the next
// stage, unless sink is nil. The answers must come from the weights of this step. The first member grades answers that
// have no reward.
func (w *learner[A]) receive(ctx context.Context, step int64, source, sink *spmd.Channel,
	f func(*answers) error) error {
	w.groups = w.groups[:0]
	check := func(a *answers) error {
		if a.version != step {
			return fmt.Errorf("answers of weights %d, expected %d", a.version, step)
		}
		if a.reward == nil {
			return a.judge(w.grader, w.plan)
		}
		return nil
	}
	return w.queue.forEach(ctx, source, sink, check, func(a *answers) error {
		w.groups = append(w.groups, a)
		return f(a)
	})
}

// joinGroups joins the groups into one batch, in the order of their numbers.
func (w *learner[A]) joinGroups() {
	slices.SortFunc(w.groups, func(a, b *answers) int { return a.group - b.group })
	w.batch, w.groups = joinAnswers(w.groups), w.groups[:0]
}

// Rewards returns the rewards of the batch on the first member of each replica, and nothing on the other members.
func (w *learner[A]) Rewards() []float32 {
	if !w.replica.first {
		return nil
	}
	return w.batch.Reward
}

// RunTraining trains on the answers.
func (w *learner[A]) RunTraining(ctx context.Context) (algo.Metrics, error) {
	return w.train(ctx, func() (algo.Metrics, error) { return w.algo.Update(&w.batch) })
}

// Close ends the worker's threads and its grader.
func (w *learner[A]) Close() error {
	w.algo.Close()
	return w.grader.Close()
}

// joinAnswers joins groups into one batch.
func joinAnswers(groups []*answers) algo.TextBatch {
	parts := make([]algo.TextBatch, len(groups))
	for i, a := range groups {
		parts[i] = a.batch()
	}
	return algo.JoinTexts(parts...)
}

// exchangeGroups exchanges groups among the replicas of a component, unless Plan.ExchangesGroups is false. Afterwards
// all replicas have the same number of groups, and about the same number of tokens. Each member exchanges groups with
// its peers in other replicas. Every member of the component must call exchangeGroups.
func (w *learner[A]) exchangeGroups(ctx context.Context) error {
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
	owners := plan.BalanceGroups(tokens, replicas)
	mine := map[int]*answers{}
	for _, a := range w.groups {
		mine[a.group] = a
	}
	// All replicas go through the pairs in the same order, so they cannot deadlock.
	for a := range replicas {
		for b := range replicas {
			if groups := w.groupsToSend(owners, a, b); a == b || len(groups) == 0 {
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
	for g := range owners {
		if a := mine[g]; a != nil {
			w.groups = append(w.groups, a)
		}
	}
	return nil
}

// groupsToSend returns the groups that one replica sends to another. owners[g] is the replica that gets group g.
func (w *learner[A]) groupsToSend(owners []int, sender, receiver int) (groups []int) {
	lo, hi := w.plan.Pipeline.Range(w.queue.stage, sender)
	for g := lo; g < hi; g++ {
		if owners[g] == receiver {
			groups = append(groups, g)
		}
	}
	return groups
}

// peer returns a member of another replica: the one with the same part of the model as this member.
func (w *learner[A]) peer(replica int) int {
	mesh := w.plan.Mesh(w.m.Group())
	return mesh.First(replica) + w.m.Index()%mesh.Members()
}

// sendGroups sends groups to another replica, and deletes them from byNumber.
func (w *learner[A]) sendGroups(ctx context.Context, replica int, groups []int, byNumber map[int]*answers) error {
	var packed []byte
	ends := make([]int64, len(groups))
	for i, g := range groups {
		packed = tensor.Encode(packed, byNumber[g].dict())
		ends[i] = int64(len(packed))
		delete(byNumber, g)
	}
	var d tensor.Dict
	d.Set("ends", tensor.FromI64(ends, len(ends)))
	d.Set("packed", tensor.FromU8(packed, len(packed)))
	return w.m.SendTo(ctx, w.m.Group(), w.peer(replica), d)
}

// receiveGroups receives groups from another replica, and adds them to byNumber.
func (w *learner[A]) receiveGroups(ctx context.Context, replica int, groups []int, byNumber map[int]*answers) error {
	d, err := w.m.RecvFrom(ctx, w.m.Group(), w.peer(replica), tensor.Dict{})
	if err != nil {
		return err
	}
	packed, from := d.Must("packed").U8(), int64(0)
	for i, end := range d.Must("ends").I64() {
		if byNumber[groups[i]], err = readAnswers(packed[from:end], groups[i], w.plan); err != nil {
			return err
		}
		from = end
	}
	return nil
}
