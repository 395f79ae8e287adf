package algo

import "math"

// The losses of the PPO family. Each is a pure function of what was sampled and of what the policy
// now says: it returns sums over the samples that count, and writes the gradient of scale·Σ loss by
// each number the policy gave. With scale 1 over the number of samples on all replicas, gradients
// added over micro-batches and replicas are those of the mean. Each sample's gradient is multiplied
// by its weight; one whose weight is 0 counts nowhere. Sums are not weighted. Nil weights are 1
// everywhere.

// idle reports whether sample i counts nowhere.
func idle(weight []float32, i int) bool { return weight != nil && weight[i] == 0 }

// weighted returns scale times the weight of sample i.
func weighted(scale float32, weight []float32, i int) float64 {
	if weight == nil {
		return float64(scale)
	}
	return float64(scale) * float64(weight[i])
}

// A Clip bounds how far one update may follow the surrogate objective. Zero fields other than Low
// and High bound nothing.
type Clip struct {
	Low, High      float32 // the ratio counts within [1-Low, 1+High]
	Dual           float32 // c > 1: the loss of a sample with negative advantage is at most c·|A|
	LogMin, LogMax float32 // clamps of log ratio; both 0: none
}

// PolicySums are sums over samples and their L log-probs.
type PolicySums struct {
	Count       float64 // log-probs that count
	Loss        float64
	LossAbs     float64
	Ratio       float64 // ρ
	RatioAbs    float64 // |ρ - 1|
	Clipped     float64 // ρ clamped to the clip range
	DualClipped float64 // ρ where the dual clip was in force, 0 elsewhere
	KL          float64 // (ρ - 1) - log ρ, whose mean estimates KL(old‖new) without bias and is never negative
	Outside     float64 // samples whose ρ is outside the clip range
}

// PolicyLoss is the clipped surrogate of Schulman et al. 2017, arXiv:1707.06347, eq. 7, with
// separate bounds and the dual clip of Ye et al. 2020, arXiv:1912.09729, eq. 5:
//
//	ρ = exp(logProb - old),    L = max(-A ρ, -A clip(ρ, 1-low, 1+high)),    for A < 0: L ← min(L, c |A|)
//
// logProb, old and dLogProb have L elements for each of the len(adv) samples; all L share the
// sample's advantage.
func PolicyLoss(dLogProb, logProb, old, adv, weight []float32, c Clip, scale float32) PolicySums {
	n := len(adv)
	if len(logProb) != len(old) || len(dLogProb) != len(old) || n == 0 || len(old)%n != 0 || weight != nil &&
		len(weight) != n {
		panic("algo: PolicyLoss: length mismatch")
	}
	var s PolicySums
	per := len(old) / n
	for i, a := range adv {
		row := i * per
		if idle(weight, i) {
			clear(dLogProb[row : row+per])
			continue
		}
		scale := weighted(scale, weight, i)
		for j := row; j < row+per; j++ {
			x := c.surrogate(float64(a), float64(logProb[j])-float64(old[j]))
			dLogProb[j] = float32(scale * x.slope)
			s.add(x)
		}
		s.Count += float64(per)
	}
	return s
}

// A surrogate is the clipped objective of one log-prob.
type surrogate struct {
	loss, slope    float64 // L, and its derivative by the new log-prob
	logRatio       float64 // as it was clamped
	ratio, clipped float64 // ρ, and ρ within the clip range
	dual           bool    // the dual clip is in force
}

// surrogate returns that of a log-prob whose sample has advantage a; see PolicyLoss.
func (c *Clip) surrogate(a, logRatio float64) surrogate {
	flows := true // whether the loss moves with the log-prob
	if c.LogMin != 0 || c.LogMax != 0 {
		bounded := min(max(logRatio, float64(c.LogMin)), float64(c.LogMax))
		flows = bounded == logRatio
		logRatio = bounded
	}
	x := surrogate{logRatio: logRatio, ratio: math.Exp(logRatio)}
	x.clipped = min(max(x.ratio, 1-float64(c.Low)), 1+float64(c.High))
	x.loss = -a * x.ratio
	if bound := -a * x.clipped; bound > x.loss {
		x.loss, flows = bound, false
	}
	if limit := -a * float64(c.Dual); c.Dual > 0 && a < 0 && x.loss > limit {
		x.loss, flows, x.dual = limit, false, true
	}
	if flows || math.IsNaN(x.loss) { // a NaN must reach the gradient, where it is found and named
		x.slope = x.loss // dρ/dlogProb = ρ, so dL/dlogProb = -A ρ = L
	}
	return x
}

// add adds what one log-prob gives, but for Count.
func (s *PolicySums) add(x surrogate) {
	s.Loss += x.loss
	s.LossAbs += math.Abs(x.loss)
	s.Ratio += x.ratio
	s.RatioAbs += math.Abs(x.ratio - 1)
	s.Clipped += x.clipped
	s.KL += x.ratio - 1 - x.logRatio
	if x.dual {
		s.DualClipped += x.ratio
	}
	if x.ratio != x.clipped {
		s.Outside++
	}
}

// GradientLoss is that of the policy gradient, L = -A log π (Williams 1992; Mnih et al. 2016,
// arXiv:1602.01783, for A2C), whose gradient is right only for samples of the very policy that
// learns from them. Of the sums it gives Count, Loss and LossAbs. Shapes are as in PolicyLoss.
func GradientLoss(dLogProb, logProb, adv, weight []float32, scale float32) PolicySums {
	n := len(adv)
	if len(dLogProb) != len(logProb) || n == 0 || len(logProb)%n != 0 || weight != nil && len(weight) != n {
		panic("algo: GradientLoss: length mismatch")
	}
	var s PolicySums
	per := len(logProb) / n
	for i, a := range adv {
		row := i * per
		if idle(weight, i) {
			clear(dLogProb[row : row+per])
			continue
		}
		for j := row; j < row+per; j++ {
			loss := -float64(a) * float64(logProb[j])
			dLogProb[j] = float32(-weighted(scale, weight, i) * float64(a))
			s.Loss += loss
			s.LossAbs += math.Abs(loss)
		}
		s.Count += float64(per)
	}
	return s
}

// ValueSums are sums over samples.
type ValueSums struct {
	Count   float64
	Loss    float64
	Clipped float64 // samples whose value moved further than the clip from the old one
}

// ValueLoss is the squared error, or Huber's of width delta where delta > 0, of value against ret.
// With clip > 0 it is the larger of that and of the error of value kept within ±clip of old
// (Engstrom et al. 2020, arXiv:2005.12729, §3):
//
//	h(e) = ½ e²  where |e| < delta or delta = 0,  else  delta (|e| - ½ delta)
//	L = max(h(ret - V), h(ret - (V_old + clamp(V - V_old, ±clip))))
func ValueLoss(dValue, value, old, ret, weight []float32, clip, delta, scale float32) ValueSums {
	n := len(ret)
	if len(value) != n || len(old) != n || len(dValue) != n || weight != nil && len(weight) != n {
		panic("algo: ValueLoss: length mismatch")
	}
	var s ValueSums
	for i, r := range ret {
		if idle(weight, i) {
			dValue[i] = 0
			continue
		}
		v, target, bound := float64(value[i]), float64(r), float64(clip)
		loss, slope := huber(v-target, float64(delta))
		if step := v - float64(old[i]); clip > 0 && math.Abs(step) > bound {
			s.Clipped++
			if l, _ := huber(float64(old[i])+math.Copysign(bound, step)-target, float64(delta)); l > loss {
				loss, slope = l, 0 // the clipped value does not move with V
			}
		}
		dValue[i] = float32(weighted(scale, weight, i) * slope)
		s.Loss += loss
		s.Count++
	}
	return s
}

// huber returns h(e) and its derivative.
func huber(e, delta float64) (loss, slope float64) {
	if abs := math.Abs(e); delta > 0 && abs >= delta {
		return delta * (abs - delta/2), math.Copysign(delta, e)
	}
	return e * e / 2, e
}

// EntropyLoss is -Σ entropy over the samples that count, L numbers for each of n samples: to lower
// it is to explore. It returns Σ entropy and how many numbers that is.
func EntropyLoss(dEntropy, entropy []float32, n int, weight []float32, scale float32) (sum, count float64) {
	if len(dEntropy) != len(entropy) || n == 0 || len(entropy)%n != 0 || weight != nil && len(weight) != n {
		panic("algo: EntropyLoss: length mismatch")
	}
	per := len(entropy) / n
	for i := range n {
		for j := i * per; j < (i+1)*per; j++ {
			if idle(weight, i) {
				dEntropy[j] = 0
				continue
			}
			dEntropy[j] = float32(-weighted(scale, weight, i))
			sum += float64(entropy[j])
			count++
		}
	}
	return sum, count
}
