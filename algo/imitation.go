package algo

import "math"

// The losses of imitation and offline learning. Each function returns the sum of its loss over N samples, and writes
// the gradient of scale times this sum.

// LikelihoodLoss is -log π(a|s), for log-probs [N,L] of N actions.
func LikelihoodLoss(dLogProb, logProb []float32, scale float32) (loss float64) {
	for i, lp := range logProb {
		dLogProb[i] = -scale
		loss -= float64(lp)
	}
	return loss
}

// ActionLoss is ½ w Σ ((a - target)/halfWidth)² over the dimensions of an action. Actions are [N,C,A]: C actions of A
// numbers for each sample. halfWidth, [A], is half the width of the action box in each dimension. weight, [N], holds
// the w of each sample; nil means 1 everywhere.
func ActionLoss(dAction, action, target, halfWidth, weight []float32, scale float32) (loss float64) {
	per := 1
	if weight != nil {
		per = len(action) / len(weight)
	}
	for i, a := range action {
		w, h := float32(1), halfWidth[i%len(halfWidth)]
		if weight != nil {
			w = weight[i/per]
		}
		e := (a - target[i]) / h
		dAction[i] = scale * w * e / h
		loss += float64(w*e) * float64(e) / 2
	}
	return loss
}

// ExpectileLoss is |τ - 1(q < v)| (q - v)², for values v and estimates q, both [N] (Kostrikov et al. 2022,
// arXiv:2110.06169, eq. 5). For τ near 1, the v with the least loss is near the largest q.
func ExpectileLoss(dV, v, q []float32, tau, scale float32) (loss float64) {
	for i, x := range v {
		e, w := q[i]-x, tau
		if e < 0 {
			w = 1 - tau
		}
		dV[i] = -2 * scale * w * e
		loss += float64(w*e) * float64(e)
	}
	return loss
}

// AdvantageWeights sets weight to exp(β (q - v)), at most 100 (arXiv:2110.06169, eq. 7), and
// returns the sum of the weights.
func AdvantageWeights(weight, q, v []float32, beta float32) (sum float64) {
	for i, x := range v {
		weight[i] = float32(min(math.Exp(float64(beta*(q[i]-x))), 100))
		sum += float64(weight[i])
	}
	return sum
}
