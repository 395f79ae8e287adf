package algo

import "github.com/rlinf/rlinf/policy/nn"

// The losses of algorithms with Q critics. A critic's estimates are [H,N], for H heads and N samples. Like the losses
// of the PPO family, each loss returns sums, and writes the gradient of scale·Σ loss with respect to each output of a
// network.

// AggregateQ sets dst, [N], to the minimum or the mean of the estimates q, [H,N], over the given heads. kind is AggMin
// or AggMean.
func AggregateQ(dst, q []float32, heads []int, kind string) {
	n := len(dst)
	for i := range dst {
		least, sum := q[heads[0]*n+i], float32(0)
		for _, h := range heads {
			x := q[h*n+i]
			sum += x
			if !(x >= least) { // also true for a NaN
				least = x
			}
		}
		dst[i] = least
		if kind == AggMean {
			dst[i] = sum / float32(len(heads))
		}
	}
}

// SoftTargets sets y to the targets of critics (Haarnoja et al. 2018, arXiv:1812.05905, eq. 3 and 5). nextQ holds the
// estimates of the next actions, and logProb the log-probs of these actions. discount is 0 if there is no next action.
// With alpha 0, the targets have no entropy term.
//
//	y = reward + discount (nextQ - α logProb)
func SoftTargets(y, reward, discount, nextQ, logProb []float32, alpha float32) {
	for i, d := range discount {
		y[i] = reward[i]
		if d != 0 {
			y[i] += d * (nextQ[i] - alpha*logProb[i])
		}
	}
}

// QLoss computes the gradient dQ of the loss ½ Σ_h (Q_h - y)², a sum over the heads h. It returns the sums of (Q - y)²
// and of Q over the samples, averaged over the heads.
func QLoss(dQ, q, y []float32, scale float32) (squares, estimates float64) {
	n := len(y)
	for i, x := range q {
		e := x - y[i%n]
		dQ[i] = scale * e
		squares += float64(e) * float64(e)
		estimates += float64(x)
	}
	heads := float64(len(q) / n)
	return squares / heads, estimates / heads
}

// GreedyTargets sets y to the targets of a critic of A discrete actions. nextQ, [N,A], holds the values of the next
// actions. The next action is the one with the largest value in chooserQ, [N,A]. If chooserQ is nextQ, y is the target
// of DQN (Mnih et al. 2015, doi:10.1038/nature14236). If chooserQ comes from the network in training, y is the target
// of double DQN (van Hasselt et al. 2016, arXiv:1509.06461):
//
//	y = reward + discount nextQ[argmax chooserQ]
func GreedyTargets(y, reward, discount, nextQ, chooserQ []float32) {
	options := len(nextQ) / len(y)
	for i, d := range discount {
		best := i * options
		for k := best; k < (i+1)*options; k++ {
			if !(chooserQ[k] <= chooserQ[best]) { // also true for a NaN
				best = k
			}
		}
		y[i] = reward[i]
		if d != 0 {
			y[i] += d * nextQ[best]
		}
	}
}

// ChosenQLoss is ½ (Q[action] - y)² for values q, [N,A], or Huber's loss of width delta if delta > 0. It writes dQ,
// which is 0 for actions that were not taken. It returns the sums of the loss and of Q[action].
func ChosenQLoss(dQ, q []float32, action []int32, y []float32, delta, scale float32) (loss, estimates float64) {
	options := len(q) / len(y)
	clear(dQ)
	for i, a := range action {
		k := i*options + int(a)
		l, slope := huber(float64(q[k])-float64(y[i]), float64(delta))
		dQ[k] = float32(float64(scale) * slope)
		loss += l
		estimates += float64(q[k])
	}
	return loss, estimates
}

// SoftActorLoss is α logProb - agg Q (arXiv:1812.05905, eq. 7). q holds the estimates of actions that the policy drew,
// and logProb the log-probs of these actions. kind is AggMin or AggMean, and selects agg: the minimum or the mean over
// the heads. SoftActorLoss writes dQ and dLogProb, and returns the sums of the loss and of agg Q.
func SoftActorLoss(dQ, dLogProb, q, logProb []float32, kind string, alpha, scale float32) (loss, estimates float64) {
	n := len(logProb)
	heads := len(q) / n
	clear(dQ)
	for i, lp := range logProb {
		best, sum := 0, float32(0)
		for h := range heads {
			x := q[h*n+i]
			sum += x
			if !(x >= q[best*n+i]) {
				best = h
			}
		}
		agg := q[best*n+i]
		if kind == AggMean {
			agg = sum / float32(heads)
			for h := range heads {
				dQ[h*n+i] = -scale / float32(heads)
			}
		} else {
			dQ[best*n+i] = -scale
		}
		dLogProb[i] = scale * alpha
		loss += float64(alpha*lp - agg)
		estimates += float64(agg)
	}
	return loss, estimates
}

// follow moves target towards source: target ← target + τ (source - target) (Lillicrap et al. 2016,
// arXiv:1509.02971).
func follow(o nn.Ops[float32], target, source []float32, tau float32) {
	o.Scale(target, 1-tau)
	o.Axpy(target, tau, source)
}
