package emulate

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// A Predictor predicts the seconds of an iteration of a Setting. Fit is called once before Predict, with the results of
// small runs. ClosedForm is a Predictor.
type Predictor interface {
	Fit(small []Result)
	Predict(s Setting) float64
}

// A ClosedForm predicts by formulas:
//
//	iteration = rollout of the slowest rank + updates + rounds·α + bytes/rate + β
//
// Rounds and bytes are the costs of gradient sums between nodes. Fit determines α and β: α is the time of a round, and
// β is the time that does not depend on the setting, both in seconds.
type ClosedForm struct {
	Sums string // the algorithm of the sums, as in collectives.CostOf
	// Rollout returns the seconds of the rollout of the slowest rank. If it is nil, SlowestRollout is used.
	// VirtualRollout is an alternative.
	Rollout     func(s *Setting) float64
	Alpha, Beta float64
}

var _ Predictor = (*ClosedForm)(nil)

// Fit implements Predictor. Settings on one node have no rounds between nodes, so they determine only β.
func (f *ClosedForm) Fit(small []Result) {
	var points []stats.Point
	for _, r := range small {
		rounds, seconds := f.costs(&r.Setting)
		points = append(points, stats.Point{Rounds: rounds, Bytes: 1, Time: r.Summary.Median - seconds})
	}
	line := stats.Fit(points)
	f.Alpha, f.Beta = line.Alpha, line.Beta
}

// Predict implements Predictor.
func (f *ClosedForm) Predict(s Setting) float64 {
	rounds, seconds := f.costs(&s)
	return seconds + rounds*f.Alpha + f.Beta
}

// costs returns the rounds of an iteration, and the part of its seconds that does not depend on the fit.
func (f *ClosedForm) costs(s *Setting) (rounds, seconds float64) {
	nodes := (s.Ranks + s.PerNode - 1) / s.PerNode
	cost := collectives.CostOf(f.Sums, collectives.Shape{Kind: spmd.AllReduce, Members: s.Ranks, Nodes: nodes,
		Bytes: 4 * s.Params / s.Shrink})
	rollout := SlowestRollout
	if f.Rollout != nil {
		rollout = f.Rollout
	}
	seconds = rollout(s) + s.updates().Seconds()
	if nodes == 1 {
		return 0, seconds
	}
	sums := float64(s.Minibatches)
	if s.Between.BytesPerSecond > 0 {
		seconds += sums * cost.Bytes * float64(s.Shrink) / s.Between.BytesPerSecond
	}
	return sums * cost.Rounds, seconds
}

// SlowestRollout returns the seconds of the rollout of the slowest rank. A rollout is a sum of Steps independent waits,
// so its time is almost normally distributed. The expected maximum of n normal numbers is about the quantile at (n -
// 3/8)/(n + 1/4) (Blom 1958).
func SlowestRollout(s *Setting) float64 {
	seconds := s.rollout().Seconds()
	if s.Skew == 0 || s.Ranks == 1 {
		return seconds
	}
	n := float64(s.Ranks)
	deviation := s.Step.Of(s.rows()).Seconds() * math.Sqrt(float64(s.Steps)*math.Expm1(s.Skew*s.Skew))
	return seconds + deviation*distuv.UnitNormal.Quantile((n-0.375)/(n+0.25))
}
