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
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningWorker holds one replica of a language model. It answers its share of the prompts with
// it, and trains it on the answers.
type ReasoningWorker struct {
	*tuner
	algo      *algo.TextPPO
	engine    *engine.Engine
	grader    *answer.Grader
	group     int // answers to each prompt
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
	w.engine, err = engine.New(model, j.Tuning.EngineOptions())
	return w, err
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

// Evaluate answers the prompts of validation with the likeliest tokens. The metrics, over all actors:
//
//   - eval/accuracy: share of right answers
//   - eval/response_length: mean number of tokens
//   - eval/truncated: share of answers that were cut off
func (w *ReasoningWorker) Evaluate(ctx context.Context) (algo.Metrics, error) {
	start := w.trace.start()
	defer w.trace.done("evaluate", start)
	questions := w.tuning.ValidationQuestions(w.m.Index())
	s := engine.Greedy(w.tuning.Sampling.MaxTokens)
	s.Stop = w.tuning.Sampling.Stop
	results, err := w.answer(ctx, questions, 1, s)
	if err != nil {
		return algo.Metrics{}, err
	}
	sums := make([]float64, 4)
	for i, r := range results {
		sums[0]++
		sums[2] += float64(len(r.Tokens))
		if slices.Equal(r.Tokens, questions[i].Answer) {
			sums[1]++
		}
		if !r.Stopped {
			sums[3]++
		}
	}
	if err := w.replicas.Sum(sums); err != nil {
		return algo.Metrics{}, err
	}
	return algo.Metrics{Names: []string{"eval/accuracy", "eval/response_length", "eval/truncated"},
		Values: []float64{sums[1] / sums[0], sums[2] / sums[0], sums[3] / sums[0]}}, nil
}

// Close ends the worker's threads.
func (w *ReasoningWorker) Close() { w.algo.Close() }

// Save returns the state, not copied: the first actor's is everyone's.
func (w *ReasoningWorker) Save() []Share { return w.save(w.algo.Save()) }

// Load takes st, which may be weights alone.
func (w *ReasoningWorker) Load(st State) error {
	if whole, err := w.load(st); err != nil || !whole {
		return err
	}
	return w.algo.Load(st.Trainer)
}
