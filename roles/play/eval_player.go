package play

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An EvalPlayer plays a policy's most likely actions in n environments.
type EvalPlayer struct {
	Policy policy.Policy // which acts
	work   policy.Work
	Hidden HiddenState // of its environments
}

// NewEvalPlayer returns the player of pol in n environments.
func NewEvalPlayer(pol policy.Policy, n int) *EvalPlayer {
	return &EvalPlayer{Policy: pol, work: pol.NewWork(n), Hidden: NewHiddenState(pol, n)}
}

// Begin begins new episodes.
func (p *EvalPlayer) Begin() { p.Hidden.Clear() }

// Act chooses actions for obs.
func (p *EvalPlayer) Act(obs tensor.Dict) (policy.Act, error) {
	act, err := p.Policy.Forward(p.work, p.Hidden.with(obs), policy.Deterministic, policy.Noise{})
	if err == nil {
		p.Hidden.keep(act)
	}
	return act, err
}
