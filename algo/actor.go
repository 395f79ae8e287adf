package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An actor is a policy of continuous actions in training, with the memory for one micro-batch. The gradient of its loss
// passes through the actions that it chooses.
type actor struct {
	policy  *policy.SoftActor
	train   *trainState
	work    policy.Work
	dAction tensor.Tensor // [micro,C,A]
}

// newActor makes the actor for s.Policy, which must be a SoftActor. Its micro-batches have the shapes of b.
func newActor(s *Setup, b *Transitions) (*actor, error) {
	pol := s.Policy.(*policy.SoftActor)
	train, err := s.newTrainState(pol.Params(), s.Optim)
	if err != nil {
		return nil, err
	}
	return &actor{policy: pol, train: train, work: pol.NewWork(len(b.Reward)),
		dAction: tensor.New(tensor.F32, b.Action.Shape()...)}, nil
}

// halfWidths returns half the width of the box of pol's actions, in each dimension.
func halfWidths(pol policy.Policy) []float32 {
	_, space := pol.Spaces()
	half := make([]float32, len(space.Low))
	for k, low := range space.Low {
		half[k] = (space.High[k] - low) / 2
	}
	return half
}
