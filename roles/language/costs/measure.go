package costs

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// mostTexts is the maximum number of texts in a measurement. The planner extrapolates the times of more texts. The
// number of optimiser steps in an iteration does not depend on the number of texts.
const mostTexts = 1024

// measure measures the operations of the job of p.
func measure(ctx context.Context, p *plan.Plan, a planner.ProbeOptions) (*planner.Profile, error) {
	f := &planner.Profile{Work: WorkOf(p)}
	var all algo.TextBatch
	if f.Work.Prompts > 0 {
		var err error
		if all, err = answers(ctx, p, a, f); err != nil {
			return nil, err
		}
		tokens, texts := 0, float64(len(all.Texts))
		for _, s := range all.Texts {
			tokens += len(s.IDs)
			f.Work.Longest = max(f.Work.Longest, float64(len(s.IDs)-slices.Index(s.Learn, true)))
		}
		f.Work.Tokens, f.Work.New = float64(tokens)/texts, float64(len(all.LogProb))/texts
	}
	if err := updates(ctx, p, a, f, &all); err != nil {
		return nil, err
	}
	if p.Replicas("critic") > 0 {
		if err := critics(ctx, p, a, f, &all); err != nil {
			return nil, err
		}
	}
	texts := all.Texts
	if f.Work.Prompts == 0 {
		texts = p.BatchOf(p.Order(nil, 0), 0, 0).Mine
	}
	if err := divided(ctx, p, a, f, texts[:max(1, min(len(texts), mostTexts)/p.Actors)]); err != nil {
		return nil, err
	}
	return f, probe.AddSums(ctx, f, max(p.Actors, p.Replicas("critic")), a.World)
}

// WorkOf returns the work of an iteration of the job of p. Profile adds the values that only measurements give, such as
// the lengths of answers.
func WorkOf(p *plan.Plan) planner.Workload {
	trained := 4 * int64(p.Trained)
	w := planner.Workload{Actors: p.Actors, Samples: p.Config.Actor.GlobalBatchSize, GradientBytes: trained,
		BucketBytes: p.Config.Comm.BucketBytes, ModelBytes: trained, WeightsEvery: int(p.SyncInterval), Staleness: -1,
		StepsPerEpoch: p.StepsPerEpoch}
	w.Model = planner.ModelShape{Layers: p.Model.Layers, Width: p.Model.Hidden}
	w.Model.MicroBatches, w.Model.Tokens = p.MicroBatches()
	for _, m := range p.Meshes() {
		w.Model.Parts = append(w.Model.Parts, planner.Sharding{Mesh: m, Share: p.LargestStage(m.Stages),
			Actor: p.PartBytes("actor", m), Inference: p.PartBytes("inference", m),
			Critic: p.PartBytes("critic", m)})
	}
	w.Bytes = planner.Sizes{Actor: p.MemberBytes("actor"), Rank: p.MemoryOf(0).Texts}
	if !p.Config.Reasons() {
		return w
	}
	w.Prompts, w.Answers = p.Pipeline.Groups, p.Config.Algorithm.GroupSize
	w.Samples = w.Prompts * w.Answers
	w.LogProbs = p.Config.Algorithm.RecomputeLogprobs || p.NeedsReference()
	w.Model.Running = p.EngineOptions().MaxRunning
	w.Bytes.Copy = p.MemberBytes("rollout") * int64(p.Mesh("rollout").Members())
	w.Bytes.Trajectory = int64(p.AnswerBytes())
	w.Bytes.Inference, w.Bytes.Critic = p.MemberBytes("inference"), p.MemberBytes("critic")
	return w
}

// A learner is one actor with its share of the texts of a step.
type learner struct {
	counter probe.Counter
	ppo     *algo.TextPPO // nil in fine-tuning
	sft     *algo.SFT
	batch   algo.TextBatch
	texts   plan.Batch
	updates int
	spent   time.Duration
}

// newLearner returns a learner with this many threads.
func newLearner(p *plan.Plan, all *algo.TextBatch, threads int) (*learner, error) {
	m, err := load(p)
	if err != nil {
		return nil, err
	}
	x := &learner{counter: probe.Counter{Actors: p.Actors}}
	if !p.Config.Reasons() {
		x.texts = p.BatchOf(p.Order(nil, 0), 0, 0)
		x.texts.Mine = x.texts.Mine[:min(len(x.texts.Mine), mostTexts)]
		optim, _ := p.Config.Optimisers()
		x.sft, err = algo.NewSFT(algo.SFTSetup{Model: m, Optim: optim,
			Iterations: int(min(p.MaxSteps, math.MaxInt32)), MicroBatch: p.Limit, Threads: threads,
			Replicas: &x.counter, Alloc: tensor.Heap})
		return x, err
	}
	setup := p.TextSetup()
	setup.Model, setup.Replicas, setup.Alloc, setup.Threads = m, &x.counter, tensor.Heap, threads
	if setup.Reference, err = frozen(p, m); err != nil {
		return nil, err
	}
	if setup.Values = p.Replicas("critic") > 0; p.HasCritic() && !setup.Values {
		if setup.Critic, err = newCritic(m); err != nil {
			return nil, err
		}
	}
	if x.batch = share(all, shareOf(p, "actor", all)); setup.Values {
		x.batch.Value = make([]float32, len(x.batch.LogProb))
	}
	x.ppo, err = algo.NewTextPPO(setup)
	return x, err
}

// newCritic returns a critic that begins with the weights of m.
func newCritic(m *lm.Model) (*algo.TextCritic, error) {
	c, err := algo.NewTextCritic(m.Config, m.Part(), tensor.Heap, nil)
	if err != nil {
		return nil, err
	}
	return c, copyWeights(c.Model, m)
}

// shareOf returns how many of the measured texts are for one replica of a component: its share of an iteration, or all
// texts if fewer were measured.
func shareOf(p *plan.Plan, component string, all *algo.TextBatch) int {
	return min(len(all.Texts), p.Pipeline.Groups*p.Config.Algorithm.GroupSize/p.Replicas(component))
}

// share returns the first n texts of a batch.
func share(b *algo.TextBatch, n int) algo.TextBatch {
	tokens := 0
	for _, s := range b.Texts[:n] {
		for _, learn := range s.Learn {
			if learn {
				tokens++
			}
		}
	}
	return algo.TextBatch{Texts: b.Texts[:n], LogProb: b.LogProb[:tokens], Reward: b.Reward[:n], Group: b.Group[:n],
		Ended: b.Ended[:n]}
}

func (x *learner) close() {
	if x.ppo != nil {
		x.ppo.Close()
	} else {
		x.sft.Close()
	}
}

// train makes the update of an iteration. It adds the times of the inference of log-probs, of the preparation and of
// the update.
func (x *learner) train(infer, prepare, update *probe.CallSamples) error {
	var took time.Duration
	if x.ppo == nil {
		start := time.Now()
		if _, err := x.sft.Update(x.texts.Mine, x.texts.Targets, x.texts.Tokens); err != nil {
			return err
		}
		took = time.Since(start)
	} else {
		b := x.batch
		b.LogProb = slices.Clone(b.LogProb)
		start := time.Now()
		if err := x.ppo.Infer(&b); err != nil {
			return err
		}
		inferred := time.Now()
		infer.Add(inferred.Sub(start))
		if err := x.ppo.Prepare(&b); err != nil {
			return err
		}
		prepared := time.Now()
		prepare.Add(prepared.Sub(inferred))
		if _, err := x.ppo.Update(&b); err != nil {
			return err
		}
		took = time.Since(prepared)
	}
	update.Add(took)
	x.updates++
	x.spent += took
	return nil
}

// updates measures log-probs and the update of one actor on its share of the texts: alone, while other actors update,
// and with a thread for each core.
func updates(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile, all *algo.TextBatch) error {
	var learners []*learner
	add := func(threads int) (*learner, error) {
		x, err := newLearner(p, all, threads)
		if err != nil {
			return nil, err
		}
		learners = append(learners, x)
		var none probe.CallSamples
		err = x.train(&none, &none, &none) // the first update runs with cold caches
		x.counter.Reset()
		x.updates, x.spent = 0, 0
		return x, err
	}
	defer func() {
		for _, x := range learners {
			x.close()
		}
	}()
	first, err := add(1)
	for n := 1; n < min(a.Cores, f.Work.Actors) && err == nil; n++ {
		_, err = add(1)
	}
	crowded := len(learners)
	var wide *learner // has a thread for each core; nil if there is one core
	if a.Cores > 1 && err == nil {
		wide, err = add(a.Cores)
	}
	if err != nil {
		return err
	}
	var none, infer, prepare, alone, crowd, threads probe.CallSamples
	err = probe.Repeat(ctx, 2, 20, a.Budget/3, func(int) error {
		err := first.train(&infer, &prepare, &alone)
		if err == nil && crowded > 1 {
			err = learnTogether(learners[:crowded], &crowd)
		}
		if err == nil && wide != nil {
			err = wide.train(&none, &none, &threads)
		}
		return err
	})
	if err != nil {
		return err
	}
	w, c := &f.Work, &first.counter
	samples := max(len(first.batch.Texts), len(first.texts.Mine))
	f.Costs = append(f.Costs, alone.Cost(planner.OpUpdate, samples))
	if w.Prompts > 0 {
		tokens := int(w.Tokens * float64(samples))
		f.Costs = append(f.Costs, prepare.Cost(planner.OpAdvantages, samples), infer.Cost(planner.OpLogProbs, tokens))
	}
	n := float64(first.updates)
	each := func(count int) int { return int(float64(count)/n + 0.5) } // the rounded mean per iteration
	w.OptimiserSteps, w.SmallSums, w.Gathers = each(c.Gradients), each(c.Small), each(c.Gathers)
	if c.Bytes > 0 {
		w.GradientBytes = c.Bytes
	}
	if wide != nil {
		f.Speedups = append(f.Speedups, planner.Speedup{Op: planner.OpUpdate, Threads: a.Cores,
			Factor: probe.Median(alone.Samples) / probe.Median(threads.Samples)})
	}
	if crowded > 1 {
		f.Crowd = append(f.Crowd, crowd.Crowd(planner.OpUpdate, crowded, &alone))
	}
	return nil
}

// critics measures the values and the update of a critic worker on its share of the answers.
func critics(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile, all *algo.TextBatch) error {
	m, err := load(p)
	if err != nil {
		return err
	}
	counter := probe.Counter{Actors: p.Replicas("critic")}
	setup := p.TextSetup()
	setup.Replicas, setup.Alloc = &counter, tensor.Heap
	if setup.Critic, err = newCritic(m); err != nil {
		return err
	}
	c, err := algo.NewTextCriticPPO(setup)
	if err != nil {
		return err
	}
	defer c.Close()
	var values, update probe.CallSamples
	samples := shareOf(p, "critic", all)
	err = probe.Repeat(ctx, 3, 20, a.Budget/6, func(n int) (err error) {
		b, start := share(all, samples), time.Now()
		if b.Value, err = c.Values(nil, b.Texts); err != nil {
			return err
		}
		valued := time.Now()
		if err := c.Prepare(&b); err != nil {
			return err
		}
		prepared := time.Now()
		if _, err := c.Update(&b); err != nil {
			return err
		}
		if n > 0 { // the first calls run with cold caches
			values.Add(valued.Sub(start))
			update.Add(time.Since(prepared))
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.Costs = append(f.Costs, values.Cost(planner.OpValues, int(f.Work.Tokens*float64(samples))),
		update.Cost(planner.OpCritic, samples))
	f.Work.CriticBytes = counter.Bytes
	if counter.Gathers > 0 { // critic workers gather after each optimiser step, and make as many steps as actors
		f.Work.CriticGathers = f.Work.OptimiserSteps
	}
	return nil
}

// learnTogether lets learners update at the same time, and adds the mean of their times.
func learnTogether(learners []*learner, update *probe.CallSamples) error {
	return update.AddTogether(len(learners), func(i int) (float64, error) {
		var none, took probe.CallSamples
		err := learners[i].train(&none, &none, &took)
		return took.Total, err
	})
}
