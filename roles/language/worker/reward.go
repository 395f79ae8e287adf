package worker

import (
	"context"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// A RewardWorker grades answers while other answers are generated.
type RewardWorker struct {
	*stageQueue
	stateless
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
		w.stageQueue, w.plan = newStageQueue(m, p, w.replica), p
		return w, w.replica.join(ctx, m, p, true)
	}
	r, err := newReplica(ctx, m, p, true)
	if err != nil {
		return nil, err
	}
	g, err := p.NewGrader(shared.judge)
	return &RewardWorker{stageQueue: newStageQueue(m, p, r), plan: p, grader: g}, err
}

// Score receives this worker's answers of an iteration, grades them, and sends them to the next stage.
func (w *RewardWorker) Score(ctx context.Context, in, out *spmd.Channel) error {
	return w.forEach(ctx, in, out, nil, func(a *answers) error {
		defer w.m.Span("score").Begin().End(0, 0)
		return a.judge(w.grader, w.plan)
	})
}

// judge grades the answers: it sets their rewards and outcomes. A reward that is not finite is an error.
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

// Part returns the worker itself, which stays on its rank in a move.
func (w *RewardWorker) Part() any { return w }

// Retire closes the grader, unless part is the worker itself.
func (w *RewardWorker) Retire(part any) error { return retire(w, part) }

// Close closes the grader.
func (w *RewardWorker) Close() error { return w.grader.Close() }
