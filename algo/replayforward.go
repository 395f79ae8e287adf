package algo

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// LogProbs fills dst, F32 [T,N,L], with the log-probs that p gives to a rollout's actions, step by step. work is for N
// rows. sequence is Config.SequenceLength. A recurrent policy begins each sequence with the recorded hidden state, as
// in training.
func LogProbs(dst tensor.Tensor, p policy.Policy, work policy.Work, rollout tensor.Dict, sequence int) error {
	action := rollout.Must(FieldAction)
	again, err := newReplayForward(p, rollout, sequence)
	if err != nil {
		return err
	}
	for t := range dst.Dim(0) {
		eval, err := p.Evaluate(work, again.observe(t), action.At(t))
		if err != nil {
			return err
		}
		dst.At(t).CopyFrom(eval.LogProb)
		again.keep(eval)
	}
	return nil
}

// A replayForward gives a policy the observations of a rollout again, step by step, with the hidden state of the
// previous step.
type replayForward struct {
	rollout               tensor.Dict
	sequence              int // Config.SequenceLength; 0 means the whole rollout
	obs                   tensor.Dict
	recorded              tensor.Tensor // F32 [T,N,M]; zero Tensor without a hidden state
	hidden                tensor.Tensor // F32 [N,M]
	terminated, truncated tensor.Tensor
}

func newReplayForward(p policy.Policy, rollout tensor.Dict, sequence int) (*replayForward, error) {
	r := &replayForward{rollout: rollout, sequence: sequence}
	m := policy.HiddenLen(p)
	if m == 0 {
		return r, nil
	}
	recorded, ok := rollout.Get(policy.HiddenState)
	if !ok || recorded.DType() != tensor.F32 || recorded.Rank() != 3 || recorded.Dim(2) != m {
		return nil, fmt.Errorf("%s is %v, expected F32[T N %d]: the hidden state at each step", policy.HiddenState,
			recorded, m)
	}
	r.recorded, r.hidden = recorded, tensor.New(tensor.F32, recorded.Dim(1), m)
	r.terminated, r.truncated = rollout.Must(FieldTerminated), rollout.Must(FieldTruncated)
	return r, nil
}

// observe returns the observations of step t, [N,...]. Steps must come in order.
func (r *replayForward) observe(t int) tensor.Dict {
	for i := range r.rollout.Len() {
		name, x := r.rollout.Entry(i)
		if name, ok := strings.CutPrefix(name, Observations+"."); ok {
			r.obs.Set(name, x.At(t))
		}
	}
	if r.recorded.IsZero() {
		return r.obs
	}
	if t == 0 || r.sequence > 0 && t%r.sequence == 0 {
		r.hidden.CopyFrom(r.recorded.At(t))
	} else {
		truncated := r.truncated.At(t - 1).U8()
		for n, ended := range r.terminated.At(t - 1).U8() {
			if ended|truncated[n] != 0 {
				r.hidden.At(n).Zero()
			}
		}
	}
	r.obs.Set(policy.HiddenState, r.hidden)
	return r.obs
}

// keep stores the hidden state after a step.
func (r *replayForward) keep(eval policy.Eval) {
	if !r.recorded.IsZero() {
		r.hidden.CopyFrom(eval.Hidden)
	}
}
