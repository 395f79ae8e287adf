package play

import (
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TrajectoryFields returns the tensors of a trajectory of t steps in n environments. chunks is the number of actions in
// a sample, and logProbs is the number of log-probs. rewards is the number of rewards in a sample: chunks if each
// action has its own reward, else 1. hiddenLen is the length of the hidden state, and latentLen is the length of an
// action's denoising chain. If a length is 0, the trajectory has no tensor for it. If mask is set, the trajectory has a
// mask of the steps to train on.
func TrajectoryFields(spec env.Spec, chunks, logProbs, rewards, hiddenLen, latentLen, t, n int,
	mask bool) []tensor.Field {
	action := spec.Action
	each := []int{t, n}
	if rewards > 1 {
		each = append(each, rewards)
	}
	fs := ObservationFields(algo.Observations, spec, t, n)
	if latentLen > 0 {
		fs = append(fs, tensor.Field{Name: observedLatent, DType: tensor.F32, Shape: []int{t, n, latentLen}})
	}
	if mask {
		fs = append(fs, tensor.Field{Name: algo.FieldMask, DType: tensor.U8, Shape: []int{t, n}})
	}
	if hiddenLen > 0 {
		fs = append(fs, tensor.Field{Name: policy.HiddenState, DType: tensor.F32, Shape: []int{t, n, hiddenLen}})
	}
	return append(fs,
		tensor.Field{Name: algo.FieldAction, DType: action.DType, Shape: []int{t, n, chunks, action.Dim()}},
		tensor.Field{Name: algo.FieldLogProb, DType: tensor.F32, Shape: []int{t, n, logProbs}},
		tensor.Field{Name: algo.FieldValue, DType: tensor.F32, Shape: []int{t, n, rewards}},
		tensor.Field{Name: algo.FieldNextValue, DType: tensor.F32, Shape: []int{t, n}},
		tensor.Field{Name: algo.FieldReward, DType: tensor.F32, Shape: each},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8, Shape: each},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8, Shape: each},
		tensor.Field{Name: algo.FieldAdvantage, DType: tensor.F32, Shape: each},
		tensor.Field{Name: algo.FieldReturn, DType: tensor.F32, Shape: each},
	)
}

// TransitionFields returns the tensors of a trajectory for algorithms with a replay buffer, which split trajectories
// into transitions. If status is true, the tensors include the status of each step (for example env.Aborted).
func TransitionFields(spec env.Spec, chunks, t, n int, status bool) []tensor.Field {
	fs := slices.Concat(ObservationFields(algo.Observations, spec, t, n),
		ObservationFields(algo.NextObservations, spec, t, n))
	fs = append(fs,
		tensor.Field{Name: algo.FieldAction, DType: spec.Action.DType, Shape: []int{t, n, chunks, spec.Action.Dim()}},
		tensor.Field{Name: algo.FieldReward, DType: tensor.F32, Shape: []int{t, n}},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8, Shape: []int{t, n}},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8, Shape: []int{t, n}},
	)
	if spec.Intervene {
		fs = append(fs, tensor.Field{Name: algo.FieldIntervened, DType: tensor.U8, Shape: []int{t, n}})
	}
	if status {
		fs = append(fs, tensor.Field{Name: algo.FieldStatus, DType: tensor.U8, Shape: []int{t, n}})
	}
	return fs
}

// observedLatent is the name of Act.Latent among the observations, where the policy's Evaluate expects it.
const observedLatent = algo.Observations + "." + policy.Latent

// ObservationFields returns the observations of a spec. prefix and a dot come before each name, and dims come before
// each shape.
func ObservationFields(prefix string, spec env.Spec, dims ...int) (fs []tensor.Field) {
	for _, f := range spec.Obs {
		fs = append(fs, tensor.Field{Name: prefix + "." + f.Name, DType: f.DType, Shape: slices.Concat(dims, f.Shape)})
	}
	return fs
}
