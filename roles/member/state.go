package member

import "github.com/rlinf/rlinf/tensor"

// State is all of a run that a checkpoint holds.
type State struct {
	Model   tensor.Dict // parameters and buffers of the policy
	Trainer tensor.Dict // what the algorithm keeps beside them
	Rollout tensor.Dict // weights that the next rollout uses, where they are older than the model
	Envs    tensor.Dict // states of environments and of their episodes; all [N, ...]
}

// A Share is one member's part of the state.
type Share struct {
	Kind   string      // "model", "trainer", "rollout", "envs"
	Lo, Hi int         // for envs: the environments
	Dict   tensor.Dict // the part itself
}

// TakenRollouts is the name, in the trainer's state, of the rollouts of each environment that the actors of an
// asynchronous run have taken.
const TakenRollouts = "rollouts"

// Rollouts returns how many rollouts of each environment the actors have taken in a run at this
// step.
func (st State) Rollouts(step int64) int64 {
	if t, ok := st.Trainer.Get(TakenRollouts); ok {
		return t.I64()[0]
	}
	return step
}
