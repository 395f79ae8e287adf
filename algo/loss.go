package algo

import "math"

// The following losses belong to the PPO family. Like Surrogate and KLLoss, they are pure functions on flat slices.
// Samples are the steps of environments or the tokens of texts. A loss returns plain sums over the samples whose weight
// is not 0. It writes the gradient of scale·Σ weight·loss with respect to each output of the policy. If scale is 1 /
// (number of samples on all replicas), the gradients of all micro-batches and replicas add up to the gradient of the
// mean loss. Nil weights are 1 everywhere.

// idle reports whether sample i has weight 0.
func idle(weight []float32, i int) bool { return weight != nil && weight[i] == 0 }

// weighted returns scale times the weight of sample i.
func weighted(scale float32, weight []float32, i int) float64 {
	if weight == nil {
		return float64(scale)
	}
	return float64(scale) * float64(weight[i])
}

// ValueSums holds sums of ValueLoss over samples.
type ValueSums struct {
	Count   float64
	Loss    float64
	Clipped float64 // number of samples whose value differs from the old value by more than the clip
}

// ValueLoss is the squared error of value against ret, or Huber's loss of width delta if delta > 0. If clip > 0,
// ValueLoss is the larger of two losses: the loss of value, and the loss of value clipped to oldValue ± clip (Engstrom
// et al. 2020, arXiv:2005.12729, §3):
//
//	h(e) = ½ e²  where |e| < delta or delta = 0,  else  delta (|e| - ½ delta)
//	L = max(h(ret - V), h(ret - (V_old + clamp(V - V_old, ±clip))))
func ValueLoss(dValue, value, oldValue, ret, weight []float32, clip, delta, scale float32) ValueSums {
	n := len(ret)
	if len(value) != n || len(oldValue) != n || len(dValue) != n || weight != nil && len(weight) != n {
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
		if step := v - float64(oldValue[i]); clip > 0 && math.Abs(step) > bound {
			s.Clipped++
			if l, _ := huber(float64(oldValue[i])+math.Copysign(bound, step)-target, float64(delta)); l > loss {
				loss, slope = l, 0 // the clipped value does not depend on V
			}
		}
		dValue[i] = float32(weighted(scale, weight, i) * slope)
		s.Loss += loss
		s.Count++
	}
	return s
}

// huber returns h(e) and its derivative; see ValueLoss.
func huber(e, delta float64) (loss, slope float64) {
	if abs := math.Abs(e); delta > 0 && abs >= delta {
		return delta * (abs - delta/2), math.Copysign(delta, e)
	}
	return e * e / 2, e
}

// EntropyLoss is -Σ entropy over the samples whose weight is not 0. entropy has L numbers for each of n samples.
// EntropyLoss returns Σ entropy and the number of its terms.
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
