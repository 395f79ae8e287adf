package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TrajectoryFields are the tensors of a trajectory of t steps of n environments, under the names
// that travel, for chunks of C actions with L log-probs, and with rewards > 1 that many of each: C,
// of single actions; and what was remembered at each step, of that length. With mask, steps may be
// marked as not to be trained on.
func TrajectoryFields(spec env.Spec, chunks, logProbs, rewards, memory, t, n int, mask bool) []tensor.Field {
	action := spec.Action
	each := []int{t, n}
	if rewards > 1 {
		each = append(each, rewards)
	}
	fs := observationFields("observation.", spec, t, n)
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

// TransitionFields are those of a trajectory that is to be cut into transitions, for algorithms
// with a replay buffer. With status, steps may belong to aborted episodes (env.Aborted).
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

func observationFields(prefix string, spec env.Spec, t, n int) (fs []tensor.Field) {
	for _, f := range spec.Obs {
		fs = append(fs, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: append([]int{t, n}, f.Shape...)})
	}
	return fs
}
