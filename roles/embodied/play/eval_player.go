package play

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// An EvalPlayer plays a policy in n environments, without learning from it.
type EvalPlayer struct {
	Policy policy.Policy // which acts
	Mode   policy.Mode   // how it chooses actions
	n      int
	work   policy.Work
	noise  policy.Noise // of actions that are drawn
	Hidden HiddenState  // of its environments
}

// NewEvalPlayer returns the player of pol's most likely actions in n environments, which are numbered
// from first on. The seed names the random numbers of actions that are drawn, in Mode Sample and by
// policies that draw in evaluation, too. They are not those of a training with the same seed.
func NewEvalPlayer(pol policy.Policy, n int, seed uint64, first int) *EvalPlayer {
	p := &EvalPlayer{Policy: pol, Mode: policy.Deterministic, n: n, work: pol.NewWork(n),
		Hidden: NewHiddenState(pol, n),
		noise:  policy.Noise{Seed: ^seed, Env: make([]uint64, n), Step: make([]uint64, n)}}
	for i := range p.noise.Env {
		p.noise.Env[i] = uint64(first + i)
	}
	return p
}

// Begin begins new episodes: the first ones of an evaluation, which has the same random numbers every
// time, where epoch is 0.
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
