package worker

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/exam"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// Answers is the purpose of the communicator over which rollout workers sum the results of exams.
const Answers = "answers"

// A RolloutWorker generates answers to prompts with the actors' language model, and examines the model.
type RolloutWorker struct {
	*texts
	reader
	stateless // actors save the weights, and random numbers depend only on prompts
	m         *spmd.Member
	replica   *replica
	engine    *engine.Engine
	group     int  // the number of answers to each prompt
	logProbs  bool // send log-probs with answers
	out       *answerSender
	sums      *collectives.Reducer // sums results of exams over the replicas
	exam      *exam.Exam           // nil without evaluations
	grader    *answer.Grader       // the exam's grader; nil without evaluations
	shown     []exam.Shown         // answers of the last evaluation
	failure   error                // see EvaluationError
	ended     int                  // number of ended answers in the batch
	asked     int                  // number of answers in the batch
	mean      int                  // mean length of the answers in the last dealt batch; 0 if there is none yet
	progress  algo.Progress
}

// NewRolloutWorker returns the worker of member m, for loop.Launch.
func NewRolloutWorker(ctx context.Context, c *loop.Cluster, m *spmd.Member) (*RolloutWorker, error) {
	shared, model, err := lookUp(c, m)
	if err != nil {
		return nil, err
	}
	p := shared.plan
	w := &RolloutWorker{texts: newTexts(p), reader: shared.reader(m, model), m: m,
		group: p.Config.Algorithm.GroupSize, logProbs: p.Config.Rollout.ReturnLogprobs, out: newAnswerSender(m, p),
		progress: loop.ProgressOf(c, m)}
	if w.replica, err = newReplica(ctx, m, p, p.Config.Deals()); err != nil {
		return nil, err
	}
	if !w.replica.first {
		w.progress = nil // the first member reports for the replica
	}
	group, err := collectives.New(m.World(), member.Across(m, Answers), p.Collectives())
	if err != nil {
		return nil, err
	}
	w.sums = collectives.NewReducer(ctx, group, p.Config.Comm.BucketBytes)
	options := p.EngineOptions()
	options.Axis = w.replica.mesh.Layer
	if w.engine, err = engine.New(model, options); err != nil || p.Valid == nil {
		return w, err
	}
	if part, stayed := loop.PartOf[*readerPart](c, m); stayed {
		w.grader = part.grader
	} else if w.grader, err = p.NewGrader(shared.judge); err != nil {
		return nil, err
	}
	w.exam = p.NewExam(w.engine, w.grader)
	w.exam.Progress = w.progress
	return w, nil
}

// Part returns the worker's model and the grader of its exam: see reader.part.
func (w *RolloutWorker) Part() any { return w.part(w.plan, nil, w.grader) }

// Retire closes the engine. It also closes the grader, unless part passes the grader to a successor.
func (w *RolloutWorker) Retire(part any) error {
	if part == nil {
		return w.Close()
	}
	w.engine.Close()
	return nil
}

// Member returns the member of this worker.
func (w *RolloutWorker) Member() *spmd.Member { return w.m }

// Generate generates the answers to this replica's prompts of batch n of a step. step and n begin at 0. When all
// answers of a group have ended, the first member sends the group to the next stage, while other answers are generated.
// With cluster.auto_scheduler, package deal distributes the prompts. Random numbers depend only on the prompt's number
// in the run, the answer's number in its group, and the position of the token.
func (w *RolloutWorker) Generate(ctx context.Context, step int64, n int, out *spmd.Channel) error {
	if w.plan.Config.Deals() {
		return w.deal(ctx, step, n, out)
	}
	pipeline := &w.plan.Pipeline
	lo, hi := pipeline.Range(0, w.replica.index)
	w.ended, w.asked = 0, (hi-lo)*w.group
	w.progress.Report("generation", 0, w.asked)
	for round := range pipeline.Rounds {
		lo, hi := pipeline.Round(w.replica.index, round)
		if err := w.round(ctx, w.prompts(step, n, lo, hi), out); err != nil {
			return fmt.Errorf("prompts %d-%d: %w", lo, hi-1, err)
		}
	}
	return w.out.flush(ctx, out)
}

// Use returns the use of the engine since the last call, without evaluations. It returns zeros unless the worker is the
// first member of its replica.
func (w *RolloutWorker) Use() engine.Utilization {
	if !w.replica.first {
		return engine.Utilization{}
	}
	return w.engine.Use()
}

// round generates the answers to all prompts at the same time. It offers each complete group to the next stage.
func (w *RolloutWorker) round(ctx context.Context, prompts []prompt, out *spmd.Channel) error {
	defer w.m.Span("generate").Begin().End(0, 0)
	var requests []engine.Request
	for _, p := range prompts {
		for i := range w.group {
			requests = append(requests, engine.Request{Prompt: p.Prompt, Sampling: w.plan.Sampling,
				Key: uint64(p.Number) & 0xffffffff, Sample: uint64(i)})
		}
	}
	results := make([]engine.Result, len(requests))
	ended := make([]int, len(prompts)) // ended answers to each prompt
	_, err := w.engine.Generate(ctx, requests, engine.Watch{Done: func(i int, r *engine.Result) error {
		results[i] = *r
		w.ended++
		w.progress.Report("generation", w.ended, w.asked)
		if !w.replica.first {
			return nil
		}
		k := i / w.group
		if ended[k]++; ended[k] < w.group {
			return w.out.retry(ctx, out)
		}
		a := newAnswers(prompts[k], w.version, results[k*w.group:][:w.group], w.logProbs)
		return w.out.offer(ctx, out, w.plan.Pipeline.Receiver(1, a.group), a)
	}})
	return err
}

// Evaluate asks the model this replica's share of the validation questions. It returns exam.Metrics over all replicas.
// EvaluationError returns an error of this worker's model or rule.
func (w *RolloutWorker) Evaluate(ctx context.Context) (algo.Metrics, error) {
	defer w.m.Span("evaluate").Begin().End(0, 0)
	defer w.engine.Use()
	replicas, this := w.sums.Replicas()
	sums, shown, err := w.exam.Take(ctx, w.plan.ValidationQuestions(this, replicas), shownAnswers)
	if ctx.Err() != nil { // the job ends
		return algo.Metrics{}, err
	}
	w.shown, w.failure = shown, err
	if err := w.sums.Sum(sums); err != nil {
		return algo.Metrics{}, err
	}
	names, values := exam.Metrics(sums)
	return algo.Metrics{Names: names, Values: values}, nil
}

// EvaluationError returns the error with which the last evaluation of this worker failed, or nil.
func (w *RolloutWorker) EvaluationError() error { return w.failure }

// Shown returns some answers of the last evaluation. It returns nil unless the worker is member 0.
func (w *RolloutWorker) Shown() []exam.Shown {
	if w.m.Index() > 0 {
		return nil
	}
	return w.shown
}

// shownAnswers is the maximum number of answers that Shown returns.
const shownAnswers = 20

// Close ends the worker's threads and its grader.
func (w *RolloutWorker) Close() error {
	w.engine.Close()
	return w.grader.Close()
}
