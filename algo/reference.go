package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A reference is the policy before the first iteration. It uses the network of the policy with other parameters.
type reference struct {
	policy   policy.Policy
	work     policy.Work
	state    tensor.Tensor // U8: the parameters and buffers
	given    bool          // whether rollouts have ref_log_prob already
	logProb  tensor.Tensor // F32 [T,N,L]
	logRatio []float32     // for each advantage, Σ (log π - log π_ref) over its log-probs
	sequence int           // Config.SequenceLength
}

// newReference makes a reference for rollouts with the given number of advantages.
func newReference(s *Setup, advantages int) (*reference, error) {
	n := len(s.Policy.Params().State())
	if n == 0 {
		return nil, fmt.Errorf("a reference policy: this policy's parameters cannot be exchanged (nn.Params without " +
			"Alloc)")
	}
	mem, err := s.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("memory of the reference policy: %w", err)
	}
	return &reference{
		policy: s.Policy, work: s.Policy.NewWork(s.Envs), state: tensor.FromU8(mem[:n], n),
		logRatio: make([]float32, advantages), sequence: s.Config.SequenceLength, given: s.brings(FieldRefLogProb),
	}, nil
}

// take makes the policy's present parameters the parameters of the reference.
func (r *reference) take() { copy(r.state.U8(), r.policy.Params().State()) }

// evaluate fills r.logRatio. If a rollout lacks ref_log_prob, evaluate also adds it: the reference's log-probs of the
// actions.
func (r *reference) evaluate(rollout *tensor.Dict) error {
	sampled, ok := rollout.Get(FieldLogProb)
	if _, there := rollout.Get(FieldAction); !ok || !there {
		return fmt.Errorf("no sample_log_prob or no action")
	}
	if r.given {
		if r.logProb, ok = rollout.Get(FieldRefLogProb); !ok || !r.logProb.SameShape(sampled) {
			return fmt.Errorf("ref_log_prob is %v, expected %v", r.logProb, sampled)
		}
	} else if err := r.compute(sampled, *rollout); err != nil {
		return err
	}
	clear(r.logRatio)
	per := sampled.Len() / len(r.logRatio)
	for i, l := range sampled.F32() {
		r.logRatio[i/per] += l - r.logProb.F32()[i]
	}
	rollout.Set(FieldRefLogProb, r.logProb)
	return nil
}

// compute fills r.logProb with the reference's log-probs, in the shape of the rollout's log-probs.
func (r *reference) compute(sampled tensor.Tensor, rollout tensor.Dict) error {
	if r.logProb.IsZero() {
		r.logProb = tensor.New(tensor.F32, sampled.Shape()...)
	}
	params := r.policy.Params()
	own := params.State()
	params.View(r.state.U8())
	defer params.View(own)
	return LogProbs(r.logProb, r.policy, r.work, rollout, r.sequence)
}
