package algo

// The losses of imitation, of actions that others took. They return sums and write the gradient of scale·Σ loss.

// LikelihoodLoss is -w log π(a|s), for log-probs [N,L] of N actions with weights w, [N]; nil is 1 for all.
func LikelihoodLoss(dLogProb, logProb, weight []float32, scale float32) (loss float64) {
	levels := 1
	if weight != nil {
		levels = len(logProb) / len(weight)
	}
	for i, lp := range logProb {
		w := float32(1)
		if weight != nil {
			w = weight[i/levels]
		}
		dLogProb[i] = -scale * w
		loss -= float64(w) * float64(lp)
	}
	return loss
}

// ActionLoss is ½ Σ ((a - target)/half)², over the dimensions of actions [N,C,A]; half, [A], are half the widths of their box.
func ActionLoss(dAction, action, target, half []float32, scale float32) (loss float64) {
	for i, a := range action {
		h := half[i%len(half)]
		e := (a - target[i]) / h
		dAction[i] = scale * e / h
		loss += float64(e) * float64(e) / 2
	}
	return loss
}
