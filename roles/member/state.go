package member

import "github.com/rlinf/rlinf/tensor"

// State is the whole state of a run, as a checkpoint stores it.
type State struct {
	Model   tensor.Dict // parameters and buffers of the model
	Trainer tensor.Dict // the rest of the algorithm's state: optimiser, counters, statistics
	Rollout tensor.Dict // weights of the next rollout, if they are older than the model
	Envs    tensor.Dict // states of environments and of their episodes; all tensors are [N, ...]
}

// A Share is one member's part of the state.
type Share struct {
	Kind   string      // "model", "trainer", "rollout", "envs"
	Lo, Hi int         // the range of environments, if Kind is envs
	Dict   tensor.Dict // the part itself
}

// TakenRollouts is the name of a tensor in the trainer's state. It counts how many rollouts of each environment the
// actors of an asynchronous run have received.
const TakenRollouts = "rollouts"

// Rollouts returns how many rollouts of each environment the actors have received. If the state has no such count, the
// result is step, because each iteration had one rollout.
func (st State) Rollouts(step int64) int64 {
	if t, ok := st.Trainer.Get(TakenRollouts); ok {
		return t.I64()[0]
	}
	return step
}
