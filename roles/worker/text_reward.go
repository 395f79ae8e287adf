package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// A textPassage is the place of a worker on the way of answers: it gets groups from the hop before it, and
// sends them to the next.
type textPassage struct {
	m    *spmd.Member
	plan *job.TextPlan
	hop  int
	in   answerReceiver
	out  *answerSender // not used at the end of the way
}

func newTextPassage(m *spmd.Member, t *job.Tuning) *textPassage {
	return &textPassage{m: m, plan: &t.Plan, hop: t.Plan.Hop(m.Group()), in: answerReceiver{m: m, t: t},
		out: newAnswerSender(m, t)}
}

// each calls f with this worker's groups of an iteration, in the order in which they come through in,
// which is another one every time. With out it sends them on afterwards.
func (p *textPassage) each(ctx context.Context, in, out *spmd.Channel, f func(*answers) error) error {
	lo, hi := p.plan.Range(p.hop, p.m.Index())
	for range hi - lo {
		a, err := p.in.receive(ctx, in)
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
		if err := p.out.send(ctx, out, p.plan.Owner(p.hop+1, a.group), a); err != nil {
			return err
		}
	}
	return nil
}

// A Judge is the judging program of a rank, which its workers share.
type Judge = answer.Judge

// A TextRewardWorker says what answers are worth, while others are generated.
type TextRewardWorker struct {
	way    *textPassage
	tuning *job.Tuning
	grader *answer.Grader
	trace  *Tracer
}

// NewTextRewardWorker returns the worker of member m. Workers of its rank have the same judge.
func NewTextRewardWorker(m *spmd.Member, j *job.Job, judge *Judge) (*TextRewardWorker, error) {
	g, err := j.NewGrader(judge)
	return &TextRewardWorker{newTextPassage(m, j.Tuning), j.Tuning, g, newTracer(j, m)}, err
}

// Score gives rewards to the answers of an iteration, which come through in and leave through out.
func (w *TextRewardWorker) Score(ctx context.Context, in, out *spmd.Channel) error {
	return w.way.each(ctx, in, out, func(a *answers) error {
		start := w.trace.start()
		defer w.trace.done("score", start)
		return a.judge(w.grader, w.tuning)
	})
}

// judge fills in the rewards, and what the rule said.
func (a *answers) judge(g *answer.Grader, t *job.Tuning) error {
	responses, at := make([]answer.Response, len(a.lengths)), int32(0)
	for i, n := range a.lengths {
		responses[i] = t.Response(&a.question, i, a.tokens[at:at+n], a.ended[i] == 1)
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

// Tracer returns what this worker has noted; nil where no trace was asked for.
func (w *TextRewardWorker) Tracer() *Tracer { return w.trace }

// Save returns nothing: a reward depends on the answer alone.
func (w *TextRewardWorker) Save() []Share { return nil }

// Load has nothing to take.
func (w *TextRewardWorker) Load(State) error { return nil }

// Close ends the grader.
func (w *TextRewardWorker) Close() error { return w.grader.Close() }
