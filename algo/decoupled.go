package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// DecoupledSums are sums over samples and their L log-probs; those of PolicySums are of the
// proximal ratio ρ, and of the loss with its weight.
type DecoupledSums struct {
	PolicySums
	Behave        float64 // w
	BehaveKL      float64 // (w - 1) - log w, whose mean estimates KL(behaviour‖proximal)
	BehaveClipped float64 // samples whose w is above the threshold
}

// DecoupledLoss is the clipped surrogate for samples of an older policy (Hilton et al. 2022,
// arXiv:2110.00641; Fu et al. 2025, arXiv:2505.24298): the clip holds the policy near a newer one,
// the proximal, and importance weights account for who took the actions:
//
//	ρ = exp(logProb - prox),    w = exp(prox - old),    L = w max(-A ρ, -A clip(ρ, 1-low, 1+high)),    w a constant
//
// with the bounds of PolicyLoss, under the dual clip before its weight. Where threshold > 0,
// log-probs with w > threshold have no loss and no gradient; they stay in the mean. prox has the
// shape of old; all else is as in PolicyLoss, which this is where prox equals old.
func DecoupledLoss(dLogProb, logProb, old, prox, adv, weight []float32, c Clip, threshold,
	scale float32) DecoupledSums {
	n := len(adv)
	if len(logProb) != len(old) || len(prox) != len(old) || len(dLogProb) != len(old) || n == 0 || len(old)%n != 0 ||
		weight != nil && len(weight) != n {
		panic("algo: DecoupledLoss: length mismatch")
	}
	var s DecoupledSums
	per := len(old) / n
	for i, a := range adv {
		row := i * per
		if idle(weight, i) {
			clear(dLogProb[row : row+per])
			continue
		}
		scale := weighted(scale, weight, i)
		for j := row; j < row+per; j++ {
			logW := float64(prox[j]) - float64(old[j])
			w := math.Exp(logW)
			x := c.surrogate(float64(a), float64(logProb[j])-float64(prox[j]))
			x.loss *= w
			x.slope *= w
			if threshold > 0 && w > float64(threshold) {
				x.loss, x.slope = 0, 0
				s.BehaveClipped++
			}
			dLogProb[j] = float32(scale * x.slope)
			s.add(x)
			s.Behave += w
			s.BehaveKL += w - 1 - logW
		}
		s.Count += float64(per)
	}
	return s
}

// interpolate fills prox, L log-probs for each of the len(share) samples, with what a policy
// between the behaviour's and the present one would say:
//
//	prox = old + share (logProb - old)
func interpolate(prox, logProb, old, share []float32) {
	per := len(old) / len(share)
	for i, s := range share {
		for j := i * per; j < (i+1)*per; j++ {
			prox[j] = old[j] + s*(logProb[j]-old[j])
		}
	}
}

// A proximal says what the policy of the last iteration thinks of a rollout's actions, which older
// ones may have taken.
type proximal struct {
	recompute bool
	sequence  int           // Config.SequenceLength
	given     bool          // for recompute: rollouts bring prox_log_prob
	work      policy.Work   // for recompute
	logProb   tensor.Tensor // F32 [T,N,L], for recompute
	// F32 [T,N]: how far the proximal policy is on the way from the behaviour's to the present one
	share   tensor.Tensor
	between []float32 // interpolated log-probs of a micro-batch
}

func newProximal(p policy.Policy, recompute bool, steps, envs, sequence int) *proximal {
	x := &proximal{recompute: recompute, sequence: sequence}
	if recompute {
		x.work = p.NewWork(envs)
	} else {
		x.share = tensor.New(tensor.F32, steps, envs)
	}
	return x
}

// prepare adds to a rollout, trained on in this iteration, what logProbs needs of it:
// prox_log_prob, by the policy as it is now, or prox_share. A sample that d iterations lie behind,
// by the rollout's version (I64 [T,N], the iterations that the policy had seen; nil: none lies
// behind), has the share d/(d+1): at the end of this iteration the policy will have gone d+1 steps
// from the behaviour's, and the proximal has gone d. It returns the sum of the versions.
func (x *proximal) prepare(p policy.Policy, rollout *tensor.Dict, iteration int) (versions float64, err error) {
	action := rollout.Must("action")
	samples := action.Dim(0) * action.Dim(1)
	behind := func(int) int64 { return 0 }
	if t, ok := rollout.Get("version"); ok {
		if t.DType() != tensor.I64 || t.Len() != samples {
			return 0, fmt.Errorf("version is %v, want %v%v", t, tensor.I64, action.Shape()[:2])
		}
		behind = func(i int) int64 { return max(int64(iteration)-t.I64()[i], 0) }
	}
	for i := range samples {
		versions += float64(int64(iteration) - behind(i))
	}
	if !x.recompute {
		share := x.share.F32()
		for i := range share {
			d := float32(behind(i))
			share[i] = d / (d + 1)
		}
		rollout.Set("prox_share", x.share)
		return versions, nil
	}
	if x.given {
		return versions, nil
	}
	if x.logProb.IsZero() {
		x.logProb = tensor.New(tensor.F32, rollout.Must("sample_log_prob").Shape()...)
	}
	rollout.Set("prox_log_prob", x.logProb)
	return versions, LogProbs(x.logProb, p, x.work, *rollout, x.sequence)
}

// logProbs returns the proximal log-probs of a micro-batch, of which the policy now says logProb.
func (x *proximal) logProbs(b *minibatch, logProb []float32) []float32 {
	if x.recompute {
		return b.proxLogProb
	}
	if x.between == nil {
		x.between = make([]float32, len(b.logProb))
	}
	interpolate(x.between, logProb, b.logProb, b.proxShare)
	return x.between
}
