package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/reward/verify"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningWorker holds one replica of a language model. It answers its share of the prompts with
// it, and trains it on the answers.
type ReasoningWorker struct {
	*tuner
	algo      *algo.TextPPO
	engine    *engine.Engine
	grader    *answer.Grader
	exam      *play.Exam
	shown     []play.Shown // of the last evaluation
	group     int          // answers to each prompt
	questions []job.Question
	batch     algo.TextBatch
}

// NewReasoningWorker returns the worker of member m, which trains model.
func NewReasoningWorker(ctx context.Context, m *spmd.Member, j *job.Job, model *lm.Model) (*ReasoningWorker, error) {
	t, err := newTuner(ctx, m, j, model)
	if err != nil {
		return nil, err
	}
	setup := j.TextSetup(j.Tuning)
	setup.Model, setup.Replicas, setup.Alloc = model, t.replicas, m.World().Alloc
	w := &ReasoningWorker{tuner: t, group: j.Config.Algorithm.GroupSize}
	if w.algo, err = algo.NewTextPPO(setup); err != nil {
		return nil, err
	}
	if w.grader, err = j.NewGrader(); err != nil {
		return nil, err
	}
	if w.engine, err = engine.New(model, j.Tuning.EngineOptions()); err != nil {
		return nil, err
	}
	w.exam = j.NewExam(w.engine, w.grader)
	return w, nil
}

// Generate answers this actor's prompts of step number step, from 0 on. The answers are in the order
// of the prompts. Random numbers belong to the prompt's number in the run, the answer's in its group
// and the token's position alone.
func (w *ReasoningWorker) Generate(ctx context.Context, step int64) error {
	start := w.trace.start()
	defer w.trace.done("generate", start)
	number := w.at(step)
	w.questions = w.tuning.Questions(w.order, number, step*w.tuning.StepPrompts(), w.m.Index())
	results, err := w.answer(ctx, w.questions, w.group, w.tuning.Sampling)
	if err != nil {
		return err
	}
	w.batch = algo.TextBatch{}
	for i, r := range results {
		q := &w.questions[i/w.group]
		learn := make([]bool, len(q.Prompt)+len(r.Tokens))
		for t := range r.Tokens {
			learn[len(q.Prompt)+t] = true
		}
		b := &w.batch
		b.Texts = append(b.Texts, algo.Sequence{IDs: slices.Concat(q.Prompt, r.Tokens), Learn: learn})
		b.LogProb = append(b.LogProb, r.LogProbs...)
		b.Group, b.Ended = append(b.Group, q.Number), append(b.Ended, r.Stopped)
	}
	return nil
}

// answer draws so many answers to each question.
func (w *ReasoningWorker) answer(ctx context.Context, questions []job.Question, each int, s engine.Sampling) (
	[]engine.Result, error) {
	var all []engine.Request
	for _, q := range questions {
		for i := range each {
			all = append(all, engine.Request{Prompt: q.Prompt, Sampling: s, Key: uint64(q.Number) & 0xffffffff,
				Sample: uint64(i)})
		}
	}
	return w.engine.Generate(ctx, all, nil)
}

// Reward grades the answers.
func (w *ReasoningWorker) Reward(context.Context) error {
	start := w.trace.start()
	defer w.trace.done("reward", start)
	b := &w.batch
	responses := make([]answer.Response, len(b.Texts))
	for i, s := range b.Texts {
		q := &w.questions[i/w.group]
		responses[i] = w.tuning.Response(q, i%w.group, s.IDs[len(q.Prompt):], b.Ended[i])
	}
	grades := make([]answer.Grade, len(responses))
	if err := w.grader.Grade(grades, responses); err != nil {
		return fmt.Errorf("reward: %w", err)
	}
	for _, g := range grades {
		b.Reward = append(b.Reward, g.Reward)
		b.Right = append(b.Right, g.Outcome == verify.Right)
		b.Unparsable = append(b.Unparsable, g.Outcome == verify.Unparsable)
	}
	return nil
}

// ComputeAdvantages prepares the answers for training.
func (w *ReasoningWorker) ComputeAdvantages(context.Context) error { return w.algo.Prepare(&w.batch) }

// RunTraining trains on the answers.
func (w *ReasoningWorker) RunTraining(ctx context.Context) (algo.Metrics, error) {
	start := w.trace.start()
	m, err := w.algo.Update(&w.batch)
	w.trace.done("train", start)
	yieldToFirst(ctx, w.m, err)
	if err == nil {
		m.Names, m.Values = slices.Clone(m.Names), slices.Clone(m.Values)
		err = w.replicas.trained(ctx, &m)
	}
	return m, err
}

// Evaluate asks this actor's share of the questions of validation. The metrics are those of
// play.ExamMetrics, over all actors.
func (w *ReasoningWorker) Evaluate(ctx context.Context) (algo.Metrics, error) {
	start := w.trace.start()
	defer w.trace.done("evaluate", start)
	group := w.replicas.group
	sums, shown, err := w.exam.Take(ctx, w.tuning.ValidationQuestions(w.m.Index(), group.Size()), shownAnswers)
	if err != nil {
		return algo.Metrics{}, err
	}
	w.shown = shown
	if err := w.replicas.Sum(sums); err != nil {
		return algo.Metrics{}, err
	}
	names, values := play.ExamMetrics(sums)
	return algo.Metrics{Names: names, Values: values}, nil
}

// Shown returns some answers of the last evaluation, on the first actor alone.
func (w *ReasoningWorker) Shown() []play.Shown {
	if w.m.Index() > 0 {
		return nil
	}
	return w.shown
}

// shownAnswers is how many answers of an evaluation a person can read.
const shownAnswers = 20

// Close ends the worker's threads, and the program that grades.
func (w *ReasoningWorker) Close() {
	w.algo.Close()
	w.grader.Close()
}

// Save returns the state, not copied: the first actor's is everyone's.
func (w *ReasoningWorker) Save() []Share { return w.save(w.algo.Save()) }

// Load takes st, which may be weights alone.
func (w *ReasoningWorker) Load(st State) error {
	if whole, err := w.load(st); err != nil || !whole {
		return err
	}
	return w.algo.Load(st.Trainer)
}
