package plan

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// ActionLayout returns the layout of actions that a rollout worker sends over route l.
func (p *Plan) ActionLayout(l Route) *tensor.Layout {
	a := p.Spec.Action
	return tensor.NewLayout(tensor.Field{Name: algo.FieldAction, DType: a.DType, Shape: []int{l.Hi - l.Lo, p.Chunks,
		a.Dim()}})
}

// StepLayout returns the layout of an env.Step sent over route l.
func (p *Plan) StepLayout(l Route) *tensor.Layout {
	n, training := l.Hi-l.Lo, len(l.Shards) > 0
	spec := p.Spec
	if p.Labelled && training {
		spec = spec.Labelled()
	}
	fs := append(slices.Concat(play.ObservationFields(algo.Observations, spec, n),
		play.ObservationFields(algo.FinalObservations, spec, n)),
		tensor.Field{Name: algo.FieldReward, DType: tensor.F32, Shape: []int{n, p.Chunks}},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8, Shape: []int{n, p.Chunks}},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8, Shape: []int{n, p.Chunks}},
	)
	if p.fallible() && training {
		fs = append(fs, tensor.Field{Name: algo.FieldStatus, DType: tensor.U8, Shape: []int{n}})
	}
	if spec.Intervene && training {
		fs = append(fs, tensor.Field{Name: algo.FieldIntervened, DType: tensor.U8, Shape: []int{n, p.Chunks}},
			tensor.Field{Name: algo.FieldTaken, DType: spec.Action.DType, Shape: []int{n, p.Chunks, spec.Action.Dim()}})
	}
	if infos := len(p.Spec.Info); infos > 0 && p.Rewards > 0 && training { // reward workers need the infos
		rows := p.Chunks * spec.Repeats()
		fs = append(fs, tensor.Field{Name: algo.FieldInfo, DType: tensor.F32, Shape: []int{n, rows, infos}})
		if spec.Repeats() > 1 {
			fs = append(fs, tensor.Field{Name: algo.FieldSteps, DType: tensor.I32, Shape: []int{n}})
		}
	}
	return tensor.NewLayout(fs...)
}

// TrajectoryLayout returns the layout of a trajectory of n environments. Rollout workers send such trajectories to
// actors.
func (p *Plan) TrajectoryLayout(n int) *tensor.Layout {
	return tensor.NewLayout(p.trajectoryFields(n)...)
}

// trajectoryFields returns the tensors of a trajectory of n environments.
func (p *Plan) trajectoryFields(n int) []tensor.Field {
	spec, _ := p.Config.PolicySpec(p.Spec)
	if p.kept != nil {
		spec.Obs = p.kept
	}
	return p.fieldsOf(spec, n)
}

// fieldsOf returns the tensors of a trajectory with the observations of spec.
func (p *Plan) fieldsOf(spec env.Spec, n int) []tensor.Field {
	if p.OffPolicy || p.Offline {
		return play.TransitionFields(spec, p.Chunks, p.Epochs*p.Steps, n, p.fallible())
	}
	steps := p.Epochs * p.Steps
	fs := play.TrajectoryFields(spec, p.Chunks, p.logProbs, p.rewardsPerSample, p.hiddenLen, p.latentLen, steps, n,
		!p.AutoReset || p.fallible() || p.Spec.Intervene)
	for _, name := range p.Inferred() {
		fs = append(fs, tensor.Field{Name: name, DType: tensor.F32, Shape: []int{steps, n, p.logProbs}})
	}
	if p.Config.Algorithm.LossType == "decoupled_actor_critic" {
		fs = append(fs, tensor.Field{Name: algo.FieldVersion, DType: tensor.I64, Shape: []int{steps, n}})
	}
	return fs
}

// fallible reports whether a failed simulator only aborts episodes, and does not end the job.
func (p *Plan) fallible() bool { return p.Config.Env.Train.ID() == env.ExternalID }

// Name returns the name of the route in channels and messages.
func (l Route) Name() string { return fmt.Sprintf("route %d", l.ID) }

// Name returns the name of the shard in channels and messages.
func (s ActorShard) Name() string { return fmt.Sprintf("environments %d-%d", s.Lo, s.Hi-1) }
