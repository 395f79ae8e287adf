package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TrajectoryFields are the tensors of a trajectory of t steps of n environments, under their names
// in channels. Samples are chunks of C actions with L log-probs. rewards is 1, or C where each
// action has a reward of its own. memory is the length of the hidden state and latent that of the
// chain behind an action, 0 without one. With mask, steps can be left out of training.
func TrajectoryFields(spec env.Spec, chunks, logProbs, rewards, memory, latent, t, n int, mask bool) []tensor.Field {
	action := spec.Action
	each := []int{t, n}
	if rewards > 1 {
		each = append(each, rewards)
	}
	fs := observationFields("observation.", spec, t, n)
	if latent > 0 {
		fs = append(fs, tensor.Field{Name: observedLatent, DType: tensor.F32, Shape: []int{t, n, latent}})
	}
	if mask {
		fs = append(fs, tensor.Field{Name: "mask", DType: tensor.U8, Shape: []int{t, n}})
	}
	if memory > 0 {
		fs = append(fs, tensor.Field{Name: policy.HiddenState, DType: tensor.F32, Shape: []int{t, n, memory}})
	}
	return append(fs,
		tensor.Field{Name: "action", DType: action.DType, Shape: []int{t, n, chunks, action.Dim()}},
		tensor.Field{Name: "sample_log_prob", DType: tensor.F32, Shape: []int{t, n, logProbs}},
		tensor.Field{Name: "value", DType: tensor.F32, Shape: []int{t, n, rewards}},
		tensor.Field{Name: "next_value", DType: tensor.F32, Shape: []int{t, n}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: each},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: each},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: each},
		tensor.Field{Name: "advantage", DType: tensor.F32, Shape: each},
		tensor.Field{Name: "return", DType: tensor.F32, Shape: each},
	)
}

// TransitionFields are the tensors of a trajectory for algorithms with a replay buffer, which cut
// it into transitions. With status, steps may belong to aborted episodes (env.Aborted).
func TransitionFields(spec env.Spec, chunks, t, n int, status bool) []tensor.Field {
	fs := append(append(observationFields("observation.", spec, t, n), observationFields("next_observation.", spec, t,
		n)...),
		tensor.Field{Name: "action", DType: spec.Action.DType, Shape: []int{t, n, chunks, spec.Action.Dim()}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{t, n}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{t, n}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{t, n}},
	)
	if status {
		fs = append(fs, tensor.Field{Name: "status", DType: tensor.U8, Shape: []int{t, n}})
	}
	return fs
}

// observedLatent is Act.Latent among the observations, as which Evaluate takes it.
const observedLatent = "observation." + policy.Latent

func observationFields(prefix string, spec env.Spec, t, n int) (fs []tensor.Field) {
	for _, f := range spec.Obs {
		fs = append(fs, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: append([]int{t, n}, f.Shape...)})
	}
	return fs
}
