package costs

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/planner"
)

// need estimates the memory in bytes of a measurement on this number of cores. Rollout workers and learners are
// measured one after the other, so only the larger memory of the two counts.
func need(p *plan.Plan, cores int) int64 {
	var whole mesh.Mesh
	learners := min(cores, p.Actors)
	if cores > 1 {
		learners++
	}
	return max(int64(learners)*p.PartBytes("actor", whole), int64(cores)*p.PartBytes("rollout", whole)) +
		p.PartBytes("critic", whole)
}

// Profile measures the operations of the job of p. If a.Room is too little memory to measure on all cores, Profile uses
// fewer cores. If a.Room is too little for the model, Profile measures a model with fewer layers, and scales the costs
// by Plan.PassCost.
func Profile(ctx context.Context, p *plan.Plan, a planner.ProbeOptions) (*planner.Profile, error) {
	for a.Room > 0 && a.Cores > 1 && need(p, a.Cores) > a.Room {
		a.Cores /= 2
	}
	if a.Room == 0 || need(p, a.Cores) <= a.Room {
		return measure(ctx, p, a)
	}
	for layers := p.Model.Layers - 1; layers > 0; layers-- {
		few, err := p.Shallow(layers)
		if err != nil {
			return nil, err
		}
		if need(few, 1) > a.Room {
			continue
		}
		f, err := measure(ctx, few, a)
		if err != nil {
			return nil, err
		}
		deepen(f, p, p.PassCost()/few.PassCost())
		return f, nil
	}
	return nil, fmt.Errorf("a layer of the model needs more than %s, the memory of this host: expected rlinf plan "+
		"--profile FILE of another host, or a placement and how ranks divide the model (docs/parallel.md)",
		figures.MiB(a.Room))
}

// deepen turns the profile f of a shallow model into the profile of the job of p. factor is the cost of a pass of this
// job's model divided by the cost of a pass of the shallow model.
func deepen(f *planner.Profile, p *plan.Plan, factor float64) {
	measured := f.Work
	f.Work = WorkOf(p)
	w := &f.Work
	w.Tokens, w.New, w.Longest = measured.Tokens, measured.New, measured.Longest
	w.OptimiserSteps, w.SmallSums, w.Gathers = measured.OptimiserSteps, measured.SmallSums, measured.Gathers
	w.CriticBytes = int64(float64(measured.CriticBytes) * float64(w.GradientBytes) / float64(measured.GradientBytes))
	w.CriticGathers = measured.CriticGathers
	for i := range f.Costs {
		switch c := &f.Costs[i]; c.Op {
		case planner.OpGenerate, planner.OpUpdate, planner.OpLogProbs, planner.OpValues, planner.OpCritic:
			c.Seconds, c.Busy = c.Seconds*factor, c.Busy*factor
		}
	}
}
