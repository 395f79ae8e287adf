package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// Values of Config.KLPenaltyType, and their other names (kl and low_var_kl are RLinf's).
const (
	KLK1  = "kl"         // k1
	KLAbs = "abs"        //
	KLK2  = "mse"        // k2
	KLK3  = "low_var_kl" // k3
)

// klName returns the one of the constants that name stands for; "" for none.
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

// KLLoss adds to dLogProb the gradient of scale·Σ of an estimate of KL(π‖π_ref) from single actions
// (Schulman, "Approximating KL divergence", 2020), and returns Σ of it and over how many log-probs
// that is. With δ = log π(a) - log π_ref(a):
//
//	kl: δ    abs: |δ|    mse: ½ δ²    low_var_kl: exp(-δ) - 1 + δ
//
// The last is at most 10, and pulls no more from there on. On average over the policy's own actions
// the gradient of kl is 0, and that of mse is the divergence's.
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

// klEstimate returns an estimate of the divergence and its derivative by δ.
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

// A reference is the policy as it was before the first iteration: what it thinks of actions, by the
// same network on other parameters.
type reference struct {
	policy   policy.Policy
	work     policy.Work
	state    tensor.Tensor // U8: the parameters and buffers
	given    bool          // rollouts bring ref_log_prob
	logProb  tensor.Tensor // F32 [T,N,L]
	logRatio []float32     // of each advantage's log-probs, Σ of them less the reference's
	sequence int           // Config.SequenceLength
}

// newReference makes one for rollouts of so many environments and advantages.
func newReference(p policy.Policy, envs, advantages, sequence int, alloc tensor.Allocator) (*reference, error) {
	n := len(p.Params().State())
	if n == 0 {
		return nil, fmt.Errorf("a reference policy: this policy's parameters cannot be exchanged (nn.Params without " +
			"Alloc)")
	}
	mem, err := alloc(n)
	if err != nil {
		return nil, fmt.Errorf("memory of the reference policy: %w", err)
	}
	return &reference{
		policy: p, work: p.NewWork(envs), state: tensor.FromU8(mem[:n], n), logRatio: make([]float32, advantages),
		sequence: sequence,
	}, nil
}

// take makes the policy's present parameters the reference.
func (r *reference) take() { copy(r.state.U8(), r.policy.Params().State()) }

// evaluate computes the reference's log-probs of a rollout's actions, and adds them to it as
// ref_log_prob, unless it brings them.
func (r *reference) evaluate(rollout *tensor.Dict) error {
	sampled, ok := rollout.Get("sample_log_prob")
	if _, there := rollout.Get("action"); !ok || !there {
		return fmt.Errorf("no sample_log_prob or no action")
	}
	if r.given {
		if r.logProb, ok = rollout.Get("ref_log_prob"); !ok || !r.logProb.SameShape(sampled) {
			return fmt.Errorf("ref_log_prob is %v, want %v", r.logProb, sampled)
		}
	} else if err := r.compute(sampled, *rollout); err != nil {
		return err
	}
	clear(r.logRatio)
	per := sampled.Len() / len(r.logRatio)
	for i, l := range sampled.F32() {
		r.logRatio[i/per] += l - r.logProb.F32()[i]
	}
	rollout.Set("ref_log_prob", r.logProb)
	return nil
}

// compute asks the reference.
func (r *reference) compute(like tensor.Tensor, rollout tensor.Dict) error {
	if r.logProb.IsZero() {
		r.logProb = tensor.New(tensor.F32, like.Shape()...)
	}
	params := r.policy.Params()
	own := params.State()
	params.View(r.state.U8())
	defer params.View(own)
	return LogProbs(r.logProb, r.policy, r.work, rollout, r.sequence)
}
