package play

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An EvalPlayer plays a policy in n environments, and records nothing.
type EvalPlayer struct {
	Policy policy.Policy // chooses actions
	Mode   policy.Mode   // how the policy chooses actions
	work   policy.Work
	noise  policy.Noise // random numbers of sampled actions
	Hidden HiddenState  // hidden states of the environments
}

// NewEvalPlayer returns a player for the environments [lo, lo+n). It chooses pol's most likely actions, unless the
// caller sets Mode. seed determines the random numbers of policies that sample. These random numbers differ from those
// of training with the same seed.
func NewEvalPlayer(pol policy.Policy, n int, seed uint64, lo int) *EvalPlayer {
	p := &EvalPlayer{Policy: pol, Mode: policy.Deterministic, work: pol.NewWork(n),
		Hidden: NewHiddenState(pol, n),
		noise:  policy.Noise{Seed: ^seed, Env: make([]uint64, n), Step: make([]uint64, n)}}
	for i := range p.noise.Env {
		p.noise.Env[i] = uint64(lo + i)
	}
	return p
}

// Begin starts new episodes. epoch is 0 for the first episodes of an evaluation. If epoch is 0, Begin also restarts the
// random numbers, so that every evaluation is the same.
func (p *EvalPlayer) Begin(epoch int) {
	p.Hidden.Clear()
	if epoch == 0 {
		clear(p.noise.Step)
	}
}

// Act chooses actions for obs.
func (p *EvalPlayer) Act(obs tensor.Dict) (policy.Act, error) {
	act, err := p.Policy.Forward(p.work, p.Hidden.with(obs), p.Mode, p.noise)
	if err == nil {
		p.Hidden.keep(act)
	}
	for i := range p.noise.Step {
		p.noise.Step[i]++
	}
	return act, err
}
