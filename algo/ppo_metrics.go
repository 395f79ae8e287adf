package algo

import (
	"fmt"
	"math"
)

// clipMetrics and proximalMetrics are RLinf's names of the metrics whose indices are ratio to clipFraction. clipMetrics
// is for the clipped loss, and proximalMetrics is for the decoupled loss.
var (
	clipMetrics = []string{"actor/ratio", "actor/ratio_abs", "actor/clipped_ratio", "actor/dual_cliped_ratio",
		"actor/approx_kl", "actor/clip_fraction"}
	proximalMetrics = []string{"actor/proximal_ratio", "actor/ratio_abs", "actor/clipped_proximal_ratio",
		"actor/dual_cliped_ratio", "actor/proximal_approx_kl", "actor/clip_fraction"}
)

// metrics makes the metrics of an update from its reduced sums, in the memory of the previous metrics. It leaves out
// metrics that have no meaning with the present options.
func (p *PPO) metrics(iteration int) Metrics {
	m, s := Metrics{Names: p.report.Names[:0], Values: p.report.Values[:0]}, p.sums
	decoupled := p.surrogate.Kind == Decoupled
	lr, valueLR := p.train.adam.LR(iteration)
	m.add("actor/policy_loss", s.mean(policyLoss))
	m.add("actor/policy_loss_abs", s.mean(policyLossAbs))
	m.addClip(s, p.surrogate.Kind)
	m.add("actor/entropy_loss", s.mean(entropy))
	if p.critic {
		m.add("critic/value_loss", s.mean(valueLoss))
		m.add("critic/value_clip_ratio", s.mean(valueClipRatio))
	}
	if p.reference != nil {
		m.add("actor/kl_loss", s.mean(klLoss))
	}
	if decoupled {
		m.add("actor/behav_approx_kl", s.mean(behaveKL))
		m.add("actor/behav_clip_fraction", s.mean(behaveClipped))
		m.add("actor/average_version", s.mean(versionMean))
	}
	m.add("rollout/rewards", s.mean(rewardMean))
	m.add("rollout/advantages_mean", s.mean(advantageMean))
	m.add("rollout/returns_mean", s.mean(returnMean))
	m.add("rollout/advantages_max", s.max(advantageMax))
	m.add("rollout/advantages_min", s.min(advantageMin))
	m.add("rollout/returns_max", s.max(returnMax))
	m.add("rollout/returns_min", s.min(returnMin))
	if p.critic {
		m.add("critic/explained_variance", s.explainedVariance())
	}
	m.add("actor/lr", lr)
	if p.critic {
		m.add("critic/lr", valueLR)
	}
	m.add("actor/grad_norm", p.train.meanNorm())
	m.add("actor/update_epochs", float64(p.epochs))
	if decoupled {
		m.add("actor/current_version", float64(iteration))
	}
	p.report = m
	return m
}

// Loss returns the loss of the update that returned m, with the weights of the configuration:
//
//	L = policy_loss + kl_beta·kl_loss + value_loss_coef·value_loss - entropy_bonus·entropy_loss
//
// It is None if the update had no samples.
func (p *PPO) Loss(m Metrics) float64 {
	if x, _ := m.Get("actor/policy_loss"); IsNone(x) {
		return x
	}
	term := func(weight float32, name string) float64 {
		x, _ := m.Get(name)
		return float64(weight) * x
	}
	return term(1, "actor/policy_loss") + term(p.cfg.KLBeta, "actor/kl_loss") +
		term(p.cfg.ValueLossCoef, "critic/value_loss") - term(p.cfg.EntropyBonus, "actor/entropy_loss")
}

// addClip adds the metrics of the ratio and its clip. It adds nothing for PolicyGradient.
func (m *Metrics) addClip(s *metricSums, kind SurrogateKind) {
	names := clipMetrics
	switch kind {
	case PolicyGradient:
		return
	case Decoupled:
		names = proximalMetrics
	}
	for i, name := range names {
		m.add(name, s.mean(ratio+i))
	}
}

// addSurrogate adds the sums of the surrogate over a micro-batch.
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

// addValues adds the sums of the critic's loss over a micro-batch.
func (t *metricSums) addValues(v *ValueSums) {
	t.add(valueLoss, v.Loss, v.Count)
	t.add(valueClipRatio, v.Clipped, v.Count)
}

// addRollout adds the rewards, advantages and returns of the samples whose weight is not 0. It reports whether these
// advantages and returns are finite.
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

// notFiniteIn returns an error that names the first NaN or Inf of a trajectory.
func notFiniteIn(tr *Trajectory, reward []float32) error {
	for i := range reward {
		for _, in := range []struct {
			name string
			x    float32
		}{{FieldReward, reward[i]}, {FieldValue, tr.Value[i]}, {FieldNextValue, tr.Next[i]}} {
			if bad(in.x) {
				return fmt.Errorf("rollout: %s is %v at step %d of environment %d of this replica", in.name, in.x,
					i/tr.N, i%tr.N)
			}
		}
	}
	return fmt.Errorf("rollout: advantages are not finite, though the rewards and values of this replica are")
}
