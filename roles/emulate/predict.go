package emulate

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rlinf/rlinf/roles/planner"
)

// planned returns the seconds of an iteration without real work, as package planner predicts them. The planner
// simulates the steps and inferences of every rank in virtual time. With skew the result is the mean of several
// simulations. Equal settings give equal results.
func (s *Setting) planned() float64 {
	m, p, l := s.toPlanner()
	runs := 1
	if s.Skew > 0 {
		runs = min(16, max(1, 4096/s.Ranks))
	}
	sum := 0.0
	for i := range runs {
		sum += planner.Predict(m, p, l,
			planner.Options{Noise: s.Skew > 0, Seed: s.Seed + uint64(i), Whole: true}).Seconds
	}
	return sum / float64(runs)
}

// toPlanner converts the setting to the types of package planner.
func (s *Setting) toPlanner() (*planner.Machine, *planner.Profile, planner.Placement) {
	nodes := (s.Ranks + s.PerNode - 1) / s.PerNode
	m := &planner.Machine{Cores: s.PerNode, Nodes: nodes, Copy: 10e9,
		Network: planner.Link{Latency: s.Between.Latency.Seconds()}}
	if s.Between.BytesPerSecond > 0 {
		m.Network.PerByte = 1 / s.Between.BytesPerSecond
	}
	step := s.Step.Of(s.rows()).Seconds()
	p := &planner.Profile{
		Work: planner.Workload{Actors: s.Ranks, Envs: s.Envs, Group: 1, Steps: s.Steps, Epochs: 1,
			Samples: s.Envs * s.Steps, OptimiserSteps: s.Minibatches, GradientBytes: 4 * int64(s.Params),
			ModelBytes: 4 * int64(s.Params), WeightsEvery: 1},
		Costs: []planner.CallTimes{
			// The factor's median is below its mean.
			{Op: planner.OpStep, Rows: s.rows(), Seconds: step * math.Exp(-s.Skew*s.Skew/2), Spread: s.spread()},
			{Op: planner.OpInfer, Rows: s.rows(), Seconds: s.Infer.Of(s.rows()).Seconds()},
			{Op: planner.OpUpdate, Rows: s.rows() * s.Steps, Seconds: s.updates().Seconds()},
		},
	}
	l := planner.Placement{Nodes: make([]int, s.Ranks), Stages: 1}
	for r := range l.Nodes {
		l.Nodes[r] = r / s.PerNode
		l.Actor = append(l.Actor, r)
	}
	l.Rollout, l.Env = l.Actor, l.Actor
	return m, p, l
}

// spread returns quantiles of a step's random factor, divided by the factor's median. It returns nil without skew. The
// quantiles 0 and 1 may be infinite, so spread replaces them by the quantiles in the middle of the outer intervals.
func (s *Setting) spread() []float64 {
	if s.Skew == 0 {
		return nil
	}
	const parts = 256
	q := make([]float64, parts+1)
	for i := range q {
		at := min(max(float64(i), 0.5), parts-0.5) / parts
		q[i] = math.Exp(s.Skew * distuv.UnitNormal.Quantile(at))
	}
	return q
}
