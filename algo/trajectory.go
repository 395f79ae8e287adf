package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// A rolloutView reads from rollouts what estimators need.
type rolloutView struct {
	steps, envs int       // T and N
	units       int       // number of advantages per sample: C with reward_type action_level, else 1
	critic      bool      // rollouts must have values
	always      bool      // Trajectory.BootstrapAlways
	chunks      *chunks   // with units > 1
	none        []float32 // zeros, the values without a critic
}

func newRolloutView(s *Setup) *rolloutView {
	v := &rolloutView{
		steps: s.Steps, envs: s.Envs, units: 1,
		critic: s.Config.LossType != "actor", always: s.Config.BootstrapType == BootstrapAlways,
	}
	if s.Config.RewardType == ActionLevel {
		v.units = max(s.Chunk, 1)
	}
	if v.units > 1 {
		v.chunks = newChunks(s.Steps, s.Envs, v.units)
	}
	return v
}

// samples returns the number of samples in a rollout.
func (v *rolloutView) samples() int { return v.steps * v.envs }

// trajectory returns the steps of a rollout. With units > 1, each action is a step, so there are T·C steps. mask is 0
// for steps that are not trained on; nil means 1 everywhere. Without a critic, all values are 0.
func (v *rolloutView) trajectory(rollout tensor.Dict) (tr *Trajectory, mask []uint8, err error) {
	if tr, mask, err = v.view(rollout); err == nil {
		tr, mask = v.actions(tr, mask)
	}
	return tr, mask, err
}

// view returns the same as trajectory, but in the layout of the rollout: [T,N,C] with units > 1.
func (v *rolloutView) view(rollout tensor.Dict) (tr *Trajectory, mask []uint8, err error) {
	needs := func(name string, dtype tensor.DType, units int) (t tensor.Tensor) {
		t, ok := rollout.Get(name)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("no %s", name)
		case t.DType() != dtype || t.Rank() < 2 || t.Dim(0) != v.steps || t.Dim(1) != v.envs ||
			t.Len() != v.steps*v.envs*units:
			shape := []int{v.steps, v.envs}
			if units > 1 {
				shape = append(shape, units)
			}
			err = fmt.Errorf("%s is %v, expected %v%v", name, t, dtype, shape)
		}
		if err != nil {
			return tensor.New(dtype, 0)
		}
		return t
	}
	need := func(name string, dtype tensor.DType) tensor.Tensor { return needs(name, dtype, v.units) }
	tr = &Trajectory{
		T: v.steps, N: v.envs, BootstrapAlways: v.always,
		Reward:     need(FieldReward, tensor.F32).F32(),
		Terminated: need(FieldTerminated, tensor.U8).U8(),
		Truncated:  need(FieldTruncated, tensor.U8).U8(),
	}
	if _, ok := rollout.Get(FieldValue); ok || v.critic {
		tr.Value, tr.Next = need(FieldValue, tensor.F32).F32(), needs(FieldNextValue, tensor.F32, 1).F32()
	} else {
		if v.none == nil {
			v.none = make([]float32, v.samples()*v.units)
		}
		tr.Value, tr.Next = v.none, v.none[:v.samples()]
	}
	if _, ok := rollout.Get(FieldMask); ok {
		mask = needs(FieldMask, tensor.U8, 1).U8()
	}
	return tr, mask, err
}

// actions turns the result of view into a trajectory of actions, if units > 1.
func (v *rolloutView) actions(tr *Trajectory, mask []uint8) (*Trajectory, []uint8) {
	if v.units == 1 {
		return tr, mask
	}
	v.chunks.unroll(tr.Reward, tr.Terminated, tr.Truncated, tr.Value, tr.Next, mask)
	of := v.chunks.Trajectory
	of.BootstrapAlways = tr.BootstrapAlways
	return &of, v.chunks.mask
}

// perAction returns x, [T,N,C], in the order of a trajectory of single actions.
func (v *rolloutView) perAction(x []float32) []float32 {
	if v.units == 1 {
		return x
	}
	y := make([]float32, len(x))
	toActions(y, x, v.envs, v.units)
	return y
}
