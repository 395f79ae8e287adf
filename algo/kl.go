package algo

import "math"

// Values of Config.KLPenaltyType, with their other names. kl and low_var_kl are RLinf's names.
const (
	KLK1  = "kl" // k1
	KLAbs = "abs"
	KLK2  = "mse"        // k2
	KLK3  = "low_var_kl" // k3
)

// klName returns the constant for the given name, or "" if the name is unknown.
func klName(name string) string {
	switch name {
	case KLK1, "k1":
		return KLK1
	case KLAbs:
		return KLAbs
	case KLK2, "k2":
		return KLK2
	case KLK3, "k3":
		return KLK3
	}
	return ""
}

// KLLoss estimates KL(π‖π_ref) from single actions (Schulman, "Approximating KL divergence", 2020). logProb and ref
// have L numbers for each of n samples. KLLoss adds the gradient of scale·Σ estimate to dLogProb, and returns the sum
// and the number of the estimates. With δ = log π(a) - log π_ref(a), an estimate is
//
//	kl: δ    abs: |δ|    mse: ½ δ²    low_var_kl: exp(-δ) - 1 + δ
//
// low_var_kl is clipped to at most 10, and has gradient 0 where it is clipped. On average over the policy's own
// actions, the gradient of kl is 0, and the gradient of mse equals the gradient of the divergence.
func KLLoss(dLogProb, logProb, ref []float32, n int, weight []float32, kind string, scale float32) (sum,
	count float64) {
	if len(logProb) != len(ref) || len(dLogProb) != len(ref) || n == 0 || len(ref)%n != 0 || weight != nil &&
		len(weight) != n {
		panic("algo: KLLoss: length mismatch")
	}
	per := len(ref) / n
	for i := range n {
		if idle(weight, i) {
			continue
		}
		w := weighted(scale, weight, i)
		for j := i * per; j < (i+1)*per; j++ {
			loss, slope := klEstimate(kind, float64(logProb[j])-float64(ref[j]))
			dLogProb[j] += float32(w * slope)
			sum += loss
			count++
		}
	}
	return sum, count
}

// klEstimate returns an estimate of the divergence, and its derivative with respect to δ.
func klEstimate(kind string, delta float64) (k, slope float64) {
	switch kind {
	case KLK1:
		return delta, 1
	case KLAbs:
		return math.Abs(delta), math.Copysign(1, delta)
	case KLK2:
		return delta * delta / 2, delta
	}
	x := min(-delta, 20)
	if k = math.Exp(x) - x - 1; k > 10 {
		return 10, 0
	}
	return k, 1 - math.Exp(x)
}
