package algo

import (
	"strings"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// LogProbs fills dst, F32 [T,N,L], with the log-probs that p gives to a rollout's actions, one time after the other. work is for N rows.
func LogProbs(dst tensor.Tensor, p policy.Policy, work policy.Work, rollout tensor.Dict) error {
	action := rollout.Must("action")
	var obs tensor.Dict
	for t := range dst.Dim(0) {
		atTime(&obs, rollout, t)
		eval, err := p.Evaluate(work, obs, action.At(t))
		if err != nil {
			return err
		}
		dst.At(t).CopyFrom(eval.LogProb)
	}
	return nil
}

// atTime sets obs to the observations of a rollout at time t, [N,...].
func atTime(obs *tensor.Dict, rollout tensor.Dict, t int) {
	for i := range rollout.Len() {
		name, x := rollout.Entry(i)
		if name, ok := strings.CutPrefix(name, "observation."); ok {
			obs.Set(name, x.At(t))
		}
	}
}
