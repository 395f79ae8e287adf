package worker

import (
	"context"
	"fmt"

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
	pipeline *plan.Pipeline
	stage    int
	in       answerReceiver
	out      *answerSender // unused in the last stage
}

func newStageQueue(m *spmd.Member, p *plan.Plan) *stageQueue {
	return &stageQueue{m: m, pipeline: &p.Pipeline, stage: p.Pipeline.Stage(m.Group()),
		in: answerReceiver{m: m, plan: p}, out: newAnswerSender(m, p)}
}

// each calls f with this worker's groups of an iteration, in the order of arrival, which varies. Then it sends each
// group through out, unless out is nil.
func (q *stageQueue) each(ctx context.Context, in, out *spmd.Channel, f func(*answers) error) error {
	lo, hi := q.pipeline.Range(q.stage, q.m.Index())
	for range hi - lo {
		a, err := q.in.receive(ctx, in)
		if err != nil {
			return err
		}
		if a.group < lo || a.group >= hi {
			return fmt.Errorf("group %d has come, expected %d to %d", a.group, lo, hi-1)
		}
		if err := f(a); err != nil {
			return fmt.Errorf("group %d: %w", a.group, err)
		}
		if out == nil {
			continue
		}
		if err := q.out.send(ctx, out, q.pipeline.Owner(q.stage+1, a.group), a); err != nil {
			return err
		}
	}
	return nil
}

// A RewardWorker grades answers while other answers are generated.
type RewardWorker struct {
	queue  *stageQueue
	plan   *plan.Plan
	grader *answer.Grader
}

// NewRewardWorker returns the worker of member m, for loop.Launch.
func NewRewardWorker(_ context.Context, c *loop.Cluster, m *spmd.Member) (*RewardWorker, error) {
	shared, err := SharedOf(c)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	g, err := p.NewGrader(&shared.judge)
	return &RewardWorker{newStageQueue(m, p), p, g}, err
}

// Score receives this worker's answers of an iteration through in, grades them, and sends them through out.
func (w *RewardWorker) Score(ctx context.Context, in, out *spmd.Channel) error {
	return w.queue.each(ctx, in, out, func(a *answers) error {
		defer w.queue.m.Span("score").Begin().End(0, 0)
		return a.judge(w.grader, w.plan)
	})
}

// judge grades a's answers: it sets the rewards and the outcomes.
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
	for _, v := range grades {
		a.reward, a.outcome = append(a.reward, v.Reward), append(a.outcome, uint8(v.Outcome))
	}
	return nil
}

// Save returns nothing, because grading has no state.
func (w *RewardWorker) Save() []member.Part { return nil }

// Load returns nothing.
func (w *RewardWorker) Load(bool) []member.Part { return nil }

// Close ends the grader.
func (w *RewardWorker) Close() error { return w.grader.Close() }
