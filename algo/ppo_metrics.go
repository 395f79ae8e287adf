package algo

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// ppoMetrics are the names of PPO's metrics, in the order of ppoReport.metrics.
var ppoMetrics = []string{
	"actor/policy_loss", "actor/policy_loss_abs", "actor/ratio", "actor/ratio_abs", "actor/clipped_ratio",
	"actor/dual_cliped_ratio",
	"actor/approx_kl", "actor/clip_fraction", "actor/entropy_loss", "critic/value_loss", "critic/value_clip_ratio",
	"actor/kl_loss", "actor/behav_approx_kl", "actor/behav_clip_fraction", "actor/average_version",
	"rollout/rewards", "rollout/advantages_mean", "rollout/returns_mean",
	"rollout/advantages_max", "rollout/advantages_min", "rollout/returns_max", "rollout/returns_min",
	"critic/explained_variance", "actor/lr", "critic/lr", "actor/grad_norm", "actor/update_epochs",
	"actor/current_version",
}

// Metrics that have a meaning only with a clip, and only with the decoupled loss.
var (
	clipMetrics = []string{"actor/ratio", "actor/ratio_abs", "actor/clipped_ratio", "actor/dual_cliped_ratio",
		"actor/approx_kl", "actor/clip_fraction"}
	decoupledMetrics = []string{"actor/behav_approx_kl", "actor/behav_clip_fraction", "actor/average_version",
		"actor/current_version"}
)

// proximalNames are RLinf's names of metrics of the decoupled loss.
var proximalNames = map[string]string{
	"actor/ratio": "actor/proximal_ratio", "actor/clipped_ratio": "actor/clipped_proximal_ratio",
	"actor/approx_kl": "actor/proximal_approx_kl",
}

// A ppoReport makes PPO's metrics, those which its options give a meaning.
type ppoReport struct {
	names  []string
	given  []bool // for each of ppoMetrics
	values []float64
}

func newPPOReport(kind SurrogateKind, critic, reference bool) *ppoReport {
	r := &ppoReport{values: make([]float64, len(ppoMetrics))}
	for _, name := range ppoMetrics {
		given := true
		switch {
		case name == "actor/kl_loss":
			given = reference
		case slices.Contains(decoupledMetrics, name):
			given = kind == Decoupled
		case slices.Contains(clipMetrics, name):
			given = kind != PolicyGradient
		case strings.HasPrefix(name, "critic/"):
			given = critic
		}
		if r.given = append(r.given, given); !given {
			continue
		}
		if proximal, ok := proximalNames[name]; ok && kind == Decoupled {
			name = proximal
		}
		r.names = append(r.names, name)
	}
	return r
}

// metrics reads the reduced sums of an update.
func (r *ppoReport) metrics(sums *metricSums, train *trainState, iteration, epochs int) Metrics {
	all := r.values[:0]
	for i := range numMeans {
		all = append(all, sums.mean(i))
	}
	lr, valueLR := train.adam.LR(iteration)
	all = append(all, sums.max(advantageMax), -sums.max(advantageMin), sums.max(returnMax), -sums.max(returnMin),
		sums.explainedVariance(), lr, valueLR, train.meanNorm(), float64(epochs), float64(iteration))
	kept := all[:0]
	for i, given := range r.given {
		if given {
			kept = append(kept, all[i])
		}
	}
	return Metrics{Names: r.names, Values: kept}
}

// addSurrogate adds the sums of a micro-batch.
func (t *metricSums) addSurrogate(s *SurrogateSums) {
	t.add(policyLoss, s.Loss, s.Count)
	t.add(policyLossAbs, s.LossAbs, s.Count)
	t.add(ratio, s.Ratio, s.Count)
	t.add(ratioAbs, s.RatioAbs, s.Count)
	t.add(clippedRatio, s.Clipped, s.Count)
	t.add(dualClippedRatio, s.DualClipped, s.Count)
	t.add(approxKL, s.KL, s.Count)
	t.add(clipFraction, s.Outside, s.Count)
	t.add(behaveKL, s.BehaveKL, s.Count)
	t.add(behaveClipped, s.BehaveClipped, s.Count)
}

// addValues adds the sums of a micro-batch.
func (t *metricSums) addValues(v *ValueSums) {
	t.add(valueLoss, v.Loss, v.Count)
	t.add(valueClipRatio, v.Clipped, v.Count)
}

// addRollout adds rewards, advantages and returns, those that count. It reports whether advantages and
// returns are finite.
func (t *metricSums) addRollout(reward, adv, ret, weight []float32, replica int) (finite bool) {
	lowest, highest := math.Inf(1), math.Inf(-1)
	lowestRet, highestRet := math.Inf(1), math.Inf(-1)
	var count, advantages, rewards, returns float64
	for i := range adv {
		if idle(weight, i) {
			continue
		}
		a, r := float64(adv[i]), float64(ret[i])
		count++
		advantages += a
		rewards += float64(reward[i])
		returns += r
		lowest, highest = min(lowest, a), max(highest, a)
		lowestRet, highestRet = min(lowestRet, r), max(highestRet, r)
		t.addFit(r, a)
	}
	if s := advantages + returns; math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	t.add(rewardMean, rewards, count)
	t.add(advantageMean, advantages, count)
	t.add(returnMean, returns, count)
	t.setMax(advantageMax, replica, highest)
	t.setMax(advantageMin, replica, -lowest)
	t.setMax(returnMax, replica, highestRet)
	t.setMax(returnMin, replica, -lowestRet)
	return true
}

// notFiniteIn names the first number of a trajectory that is NaN or Inf.
func notFiniteIn(tr *Trajectory, reward []float32) error {
	for i := range reward {
		for _, in := range []struct {
			name string
			x    float32
		}{{"reward", reward[i]}, {"value", tr.Value[i]}, {"next_value", tr.Next[i]}} {
			if bad(in.x) {
				return fmt.Errorf("rollout: %s is %v at step %d of environment %d of this replica", in.name, in.x,
					i/tr.N, i%tr.N)
			}
		}
	}
	return fmt.Errorf("rollout: advantages are not finite, though the rewards and values of this replica are")
}
