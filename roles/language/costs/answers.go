package costs

import (
	"context"
	"slices"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// load loads the model with the weights that training begins with.
func load(p *plan.Plan) (*lm.Model, error) {
	m, err := p.Load(tensor.Heap)
	if err != nil {
		return nil, err
	}
	path := p.Config.Runner.CkptPath
	if path == "" || path == p.BaseWeights.Path {
		return m, nil
	}
	f, err := job.OpenWeights("runner.ckpt_path", path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return m, f.Load(m.Params, m.Params)
}

// An answerer generates answers as a rollout worker does.
type answerer struct {
	plan   *plan.Plan
	engine *engine.Engine
	order  []int32

	grader    *answer.Grader // grades as reward workers do; nil without reward workers, or if a program grades
	responses []answer.Response
}

// newAnswerer returns an answerer with this many threads.
func newAnswerer(p *plan.Plan, threads int) (*answerer, error) {
	m, err := load(p)
	if err != nil {
		return nil, err
	}
	a := &answerer{plan: p, order: p.Order(nil, 0)}
	if p.Replicas("reward") > 0 && p.Config.Reward.RewardType != answer.Program {
		if a.grader, err = p.NewGrader(nil); err != nil {
			return nil, err
		}
	}
	o := p.EngineOptions()
	o.Threads = threads
	a.engine, err = engine.New(m, o)
	return a, err
}

// grade grades the last answers, and adds the time to series.
func (a *answerer) grade(series *probe.CallSamples) error {
	if a.grader == nil {
		return nil
	}
	start := time.Now()
	err := a.grader.Grade(make([]answer.Grade, len(a.responses)), a.responses)
	series.Add(time.Since(start))
	return err
}

// answer generates answers to the first n prompts of the first step. It returns the texts to train on, and the time of
// the generation.
func (a *answerer) answer(ctx context.Context, n int) (algo.TextBatch, time.Duration, error) {
	p, group := a.plan, a.plan.Config.Algorithm.GroupSize
	var requests []engine.Request
	var questions []plan.Question
	for i, sample := range p.Samples(a.order, 0)[:n] {
		q := p.Question(int(sample), int64(i))
		questions = append(questions, q)
		for k := range group {
			requests = append(requests, engine.Request{Prompt: q.Prompt, Sampling: p.Sampling, Key: uint64(i),
				Sample: uint64(k)})
		}
	}
	start := time.Now()
	results, err := a.engine.Generate(ctx, requests, engine.Watch{})
	took := time.Since(start)
	if err != nil {
		return algo.TextBatch{}, 0, err
	}
	a.responses = a.responses[:0]
	for i, r := range results {
		a.responses = append(a.responses, p.Response(&questions[i/group], i%group, r.Tokens, r.Stopped))
	}
	return batchOf(requests, results), took, nil
}

// batchOf returns answers as texts to train on. The rewards differ within each group, so that advantages are not 0.
func batchOf(requests []engine.Request, results []engine.Result) (b algo.TextBatch) {
	for i, r := range results {
		prompt := requests[i].Prompt
		s := algo.Sequence{IDs: append(append([]int32{}, prompt...), r.Tokens...),
			Learn: make([]bool, len(prompt)+len(r.Tokens))}
		for t := len(prompt); t < len(s.Learn); t++ {
			s.Learn[t] = true
		}
		b.Texts = append(b.Texts, s)
		b.LogProb = append(b.LogProb, r.LogProbs...)
		b.Reward = append(b.Reward, float32(i%2))
		b.Group, b.Ended = append(b.Group, int64(requests[i].Key)), append(b.Ended, r.Stopped)
	}
	return b
}

// sizesOf returns at most three numbers of prompts to measure for one rollout worker, in ascending order: the smallest
// number that a plan for this number of ranks would use, half of the prompts, and all prompts. group is the number of
// answers to each prompt. If all answers are more than mostTexts, the prompts are only a sample.
func sizesOf(prompts, group, ranks int) []int {
	prompts = max(1, min(prompts, mostTexts/group))
	return slices.Compact([]int{max(1, prompts/max(2, 2*ranks)), max(1, prompts/2), prompts})
}

// answers measures the generation of answers at the sizes of sizesOf, with more threads, and on all cores at the same
// time. It also measures grading. It returns the answers of the largest size.
func answers(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile) (algo.TextBatch, error) {
	one, err := newAnswerer(p, 1)
	if err != nil {
		return algo.TextBatch{}, err
	}
	defer one.engine.Close()
	group := f.Work.Answers
	sizes := sizesOf(f.Work.Prompts, group, a.Ranks)
	times := make([]probe.CallSamples, len(sizes))
	var score probe.CallSamples
	var all algo.TextBatch
	err = probe.Repeat(ctx, 3, 12, a.Budget/4, func(n int) error {
		for i, prompts := range sizes {
			b, took, err := one.answer(ctx, prompts)
			if err != nil {
				return err
			}
			if all = b; n > 0 { // the first answers run with cold caches
				times[i].Add(took)
			}
		}
		return one.grade(&score)
	})
	if err != nil {
		return all, err
	}
	for i, prompts := range sizes {
		f.Costs = append(f.Costs, times[i].Cost(planner.OpGenerate, prompts*group))
	}
	if one.grader != nil {
		f.Costs = append(f.Costs, score.Cost(planner.OpScore, len(one.responses)))
	}
	if a.Cores == 1 {
		return all, nil
	}
	last := len(sizes) - 1
	if err := answersByThreads(ctx, p, sizes[last], probe.Median(times[last].Samples), a, f); err != nil {
		return all, err
	}
	return all, answersTogether(ctx, p, one, sizes[len(sizes)/2], a, f)
}

// answersByThreads measures the speed-up of generation with a thread for each core. oneThread is the time in seconds
// with one thread.
func answersByThreads(ctx context.Context, p *plan.Plan, prompts int, oneThread float64, a planner.ProbeOptions,
	f *planner.Profile) error {
	x, err := newAnswerer(p, a.Cores)
	if err != nil {
		return err
	}
	defer x.engine.Close()
	var times probe.CallSamples
	err = probe.Repeat(ctx, 3, 12, a.Budget/12, func(n int) error {
		_, took, err := x.answer(ctx, prompts)
		if n > 0 {
			times.Add(took)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.Speedups = append(f.Speedups, planner.Speedup{Op: planner.OpGenerate, Threads: a.Cores,
		Factor: oneThread / probe.Median(times.Samples)})
	return nil
}

// answersTogether measures the slow-down of generation when all cores generate answers to this number of prompts.
func answersTogether(ctx context.Context, p *plan.Plan, one *answerer, prompts int, a planner.ProbeOptions,
	f *planner.Profile) error {
	list := []*answerer{one}
	for len(list) < a.Cores {
		x, err := newAnswerer(p, 1)
		if err != nil {
			return err
		}
		defer x.engine.Close()
		list = append(list, x)
	}
	answer := func(i int) (float64, error) {
		_, took, err := list[i].answer(ctx, prompts)
		return took.Seconds(), err
	}
	var alone, crowd probe.CallSamples
	err := probe.Repeat(ctx, 3, 12, a.Budget/8, func(int) error {
		if err := alone.AddTogether(1, answer); err != nil {
			return err
		}
		return crowd.AddTogether(len(list), answer)
	})
	f.Crowd = append(f.Crowd, crowd.Crowd(planner.OpGenerate, a.Cores, &alone))
	return err
}

// frozen returns a copy of a model as the reference of a KL penalty. It returns nil if the job has no KL penalty.
func frozen(p *plan.Plan, of *lm.Model) (*lm.Model, error) {
	if !p.NeedsReference() {
		return nil, nil
	}
	m, err := of.Reference(tensor.Heap)
	if err != nil || of.LoRA() != nil {
		return m, err
	}
	return m, copyWeights(m, of)
}

// copyWeights copies the weights between two models of the same sizes.
func copyWeights(to, from *lm.Model) error {
	source := from.Tensors()
	for i, t := range to.Tensors() {
		copy(t.Data, source[i].Data)
	}
	return nil
}
