package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// interpolate sets prox to interpolated log-probs. oldLogProb has the log-probs under the behaviour policy. logProb has
// the log-probs under the present policy. Each sample has one share and L log-probs:
//
//	prox = oldLogProb + share (logProb - oldLogProb)
func interpolate(prox, logProb, oldLogProb, share []float32) {
	per := len(oldLogProb) / len(share)
	for i, s := range share {
		for j := i * per; j < (i+1)*per; j++ {
			prox[j] = oldLogProb[j] + s*(logProb[j]-oldLogProb[j])
		}
	}
}

// A proximal computes log-probs of a rollout's actions under the proximal policy. The ratio is clipped around this
// policy. The policies that took the actions may be older.
type proximal struct {
	recompute bool
	sequence  int           // Config.SequenceLength
	given     bool          // for recompute: rollouts have prox_log_prob already
	work      policy.Work   // for recompute
	logProb   tensor.Tensor // F32 [T,N,L], for recompute
	// F32 [T,N]: position of the proximal policy, from 0 (the behaviour policy) to 1 (the present policy)
	share   tensor.Tensor
	between []float32 // interpolated log-probs of a micro-batch
}

func newProximal(s *Setup) *proximal {
	x := &proximal{
		recompute: s.Config.RecomputeLogprobs, sequence: s.Config.SequenceLength, given: s.brings(FieldProxLogProb),
	}
	if x.recompute {
		x.work = s.Policy.NewWork(s.Envs)
	} else {
		x.share = tensor.New(tensor.F32, s.Steps, s.Envs)
	}
	return x
}

// prepare adds to a rollout the tensor that later calls of x.logProbs read. With x.recompute this is prox_log_prob, the
// log-probs under the present policy p. Otherwise it is prox_share. prepare returns the sum of the versions of the
// samples.
//
// The version of a sample, I64 [T,N], is the number of iterations that had trained its policy. Without versions, all
// samples are from the present policy. A sample whose policy is d iterations older has the share d/(d+1), because this
// iteration makes the last of d+1 steps away from that policy.
func (x *proximal) prepare(p policy.Policy, rollout *tensor.Dict, iteration int) (versions float64, err error) {
	action := rollout.Must(FieldAction)
	samples := action.Dim(0) * action.Dim(1)
	behind := func(int) int64 { return 0 }
	if t, ok := rollout.Get(FieldVersion); ok {
		if t.DType() != tensor.I64 || t.Len() != samples {
			return 0, fmt.Errorf("version is %v, expected %v%v", t, tensor.I64, action.Shape()[:2])
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
		x.logProb = tensor.New(tensor.F32, rollout.Must(FieldLogProb).Shape()...)
	}
	rollout.Set(FieldProxLogProb, x.logProb)
	return versions, LogProbs(x.logProb, p, x.work, *rollout, x.sequence)
}

// logProbs returns the log-probs of a micro-batch under the proximal policy. logProb has the log-probs under the
// present policy.
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
