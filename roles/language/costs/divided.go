package costs

import (
	"context"
	"slices"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// numParts is the number of members of a divided model in a measurement. The planner estimates the costs of more
// members.
const numParts = 2

// mostCrowded is the maximum number of members that compute at the same time in a measurement. Each member needs its
// own memory.
const mostCrowded = 8

// soloAxis is an lm.Axis of a member that computes without the other members. Sums and gathers do nothing.
type soloAxis struct{ size int }

var _ lm.Axis = soloAxis{}

func (a soloAxis) Size() int                   { return a.size }
func (soloAxis) Index() int                    { return 0 }
func (soloAxis) Sum([]float32) error           { return nil }
func (soloAxis) Sum64([]float64) error         { return nil }
func (soloAxis) Gather([]float32, []int) error { return nil }

// divided compares the time of a member that has half of each layer with the time of a member that has the whole model.
// It measures forward passes over the tokens of an update, and over the tokens of an engine's pass. Passes of the half
// are also measured on all cores. It also measures the sums of a micro-batch between goroutine ranks.
func divided(ctx context.Context, p *plan.Plan, a planner.ProbeOptions, f *planner.Profile,
	texts []algo.Sequence) error {
	if len(p.Model.Sizes()) < 2 || a.Ranks < numParts {
		return nil
	}
	whole, err := p.Load(tensor.Heap)
	if err != nil {
		return err
	}
	half, err := p.LoadPart(lm.Shard{Size: numParts}, tensor.Heap, nil)
	if err != nil {
		return err
	}
	longest := 0
	for _, s := range texts {
		longest = max(longest, len(s.IDs))
	}
	limits := map[string]algo.MicroBatch{planner.OpUpdate: p.Limit}
	if f.Work.Prompts > 0 {
		limits[planner.OpGenerate] = algo.MicroBatch{Tokens: max(longest, f.Work.Model.Running)}
	}
	for _, op := range []string{planner.OpUpdate, planner.OpGenerate} {
		if limit, ok := limits[op]; ok {
			if err := halved(ctx, op, limit, whole, half, texts, a, f); err != nil {
				return err
			}
		}
	}
	return probe.AddLayerSums(ctx, f, a.World)
}

// halved makes the measurements of divided for the operation op. limit is the maximum size of a micro-batch.
func halved(ctx context.Context, op string, limit algo.MicroBatch, whole, half *lm.Model, texts []algo.Sequence,
	a planner.ProbeOptions, f *planner.Profile) error {
	one := algo.NewTextLogProbs(whole, limit, 1, lm.Mesh{}, 1)
	defer one.Close()
	var parts []*algo.TextLogProbs
	for range max(1, min(a.Cores, mostCrowded)) {
		x := algo.NewTextLogProbs(half, limit, 1, lm.Mesh{Layer: soloAxis{numParts}}, 1)
		defer x.Close()
		parts = append(parts, x)
	}
	var wholes, lone, crowd probe.CallSamples
	err := probe.Repeat(ctx, 3, 20, a.Budget/16, func(n int) error {
		var first probe.CallSamples // not used, because the first passes run with cold caches
		series := []*probe.CallSamples{&wholes, &lone, &crowd}
		if n == 0 {
			series = []*probe.CallSamples{&first, &first, &first}
		}
		for i, list := range [][]*algo.TextLogProbs{{one}, parts[:1], parts} {
			if err := infer(list, texts, series[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.Halves = append(f.Halves, planner.Speedup{Op: op, Threads: numParts,
		Factor: probe.Median(wholes.Samples) / probe.Median(lone.Samples)})
	if len(parts) > 1 && !slices.ContainsFunc(f.Crowd, func(c planner.Crowd) bool { return c.Op == op }) {
		f.Crowd = append(f.Crowd, crowd.Crowd(op, len(parts), &lone))
	}
	return nil
}

// infer makes all passes over the texts at the same time, and adds the mean of their times to series.
func infer(passes []*algo.TextLogProbs, texts []algo.Sequence, series *probe.CallSamples) error {
	return series.AddTogether(len(passes), func(i int) (float64, error) {
		start := time.Now()
		_, err := passes[i].Append(nil, texts)
		return time.Since(start).Seconds(), err
	})
}
