package worker

import (
	"context"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// A stageQueue connects a worker with the pipeline of answers. It receives groups from the previous stage, and sends
// them to the next stage.
type stageQueue struct {
	m        *spmd.Member
	replica  *replica
	pipeline *plan.Pipeline
	stage    int
	in       answerReceiver
	out      *answerSender // unused in the last stage
}

func newStageQueue(m *spmd.Member, p *plan.Plan, r *replica) *stageQueue {
	return &stageQueue{m: m, replica: r, pipeline: &p.Pipeline, stage: p.Pipeline.Stage(m.Group()),
		in: answerReceiver{m: m, plan: p}, out: newAnswerSender(m, p)}
}

// each calls f with the groups of an iteration of this worker's replica, in the order of arrival, which varies. Then it
// sends each group through out, unless out is nil. The first member of the replica receives the groups, calls once with
// each, unless once is nil, and hands it to the others. It also sends the groups.
func (q *stageQueue) each(ctx context.Context, in, out *spmd.Channel, once, f func(*answers) error) error {
	lo, hi := q.pipeline.Range(q.stage, q.replica.index)
	for range hi - lo {
		var a *answers
		var err error
		if q.replica.first {
			a, err = q.receive(ctx, in, lo, hi, once)
		}
		if err == nil {
			a, err = q.replica.share(ctx, a)
		}
		if err != nil {
			return err
		}
		if err := f(a); err != nil {
			return fmt.Errorf("group %d: %w", a.group, err)
		}
		if out == nil || !q.replica.first {
			continue
		}
		if err := q.out.send(ctx, out, q.pipeline.Receiver(q.stage+1, a.group), a); err != nil {
			return err
		}
	}
	return nil
}

// receive returns the next group, which must be one of [lo, hi), after a call of once.
func (q *stageQueue) receive(ctx context.Context, in *spmd.Channel, lo, hi int, once func(*answers) error) (*answers,
	error) {
	a, err := q.in.receive(ctx, in)
	if err != nil {
		return nil, err
	}
	if a.group < lo || a.group >= hi {
		return nil, fmt.Errorf("group %d has come, expected %d to %d", a.group, lo, hi-1)
	}
	if once != nil {
		if err := once(a); err != nil {
			return nil, fmt.Errorf("group %d: %w", a.group, err)
		}
	}
	return a, nil
}

// A RewardWorker grades answers while other answers are generated.
type RewardWorker struct {
	queue  *stageQueue
	plan   *plan.Plan
	grader *answer.Grader
}

// NewRewardWorker returns the worker of member m, for loop.Launch.
func NewRewardWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*RewardWorker, error) {
	shared, err := SharedOf(c)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	if w, stayed := loop.PartOf[*RewardWorker](c, m); stayed {
		r := w.queue.replica
		w.queue, w.plan = newStageQueue(m, p, r), p
		return w, r.join(ctx, m, p, true)
	}
	r, err := newReplica(ctx, m, p, true)
	if err != nil {
		return nil, err
	}
	g, err := p.NewGrader(shared.judge)
	return &RewardWorker{newStageQueue(m, p, r), p, g}, err
}

// Score receives this worker's answers of an iteration through in, grades them, and sends them through out.
func (w *RewardWorker) Score(ctx context.Context, in, out *spmd.Channel) error {
	return w.queue.each(ctx, in, out, nil, func(a *answers) error {
		defer w.queue.m.Span("score").Begin().End(0, 0)
		return a.judge(w.grader, w.plan)
	})
}

// judge grades a's answers: it sets the rewards, which must be finite, and the outcomes.
func (a *answers) judge(g *answer.Grader, p *plan.Plan) error {
	responses, at := make([]answer.Response, len(a.lengths)), int32(0)
	for i, n := range a.lengths {
		responses[i] = p.Response(&a.question, i, a.tokens[at:at+n], a.ended[i] == 1)
		at += n
	}
	grades := make([]answer.Grade, len(responses))
	if err := g.Grade(grades, responses); err != nil {
		return fmt.Errorf("reward: %w", err)
	}
	for i, v := range grades {
		if x := float64(v.Reward); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("reward: answer %d has %v, expected a finite number", i, x)
		}
		a.reward, a.outcome = append(a.reward, v.Reward), append(a.outcome, uint8(v.Outcome))
	}
	return nil
}

// Part returns the worker with its judge, which stays as it is.
func (w *RewardWorker) Part() any { return w }

// Member returns the member of this worker.
func (w *RewardWorker) Member() *spmd.Member { return w.queue.m }

// Save returns nothing, because grading has no state.
func (w *RewardWorker) Save() []member.Part { return nil }

// Load returns nothing.
func (w *RewardWorker) Load(bool) []member.Part { return nil }

// Close ends the grader.
func (w *RewardWorker) Close() error { return w.grader.Close() }
