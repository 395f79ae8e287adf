package roles

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A performer plays a policy's most likely actions in n environments.
type performer struct {
	policy policy.Policy
	work   policy.Work
	memory memory
}

func newPerformer(pol policy.Policy, n int) *performer {
	return &performer{policy: pol, work: pol.NewWork(n), memory: newMemory(pol, n)}
}

// begin begins new episodes.
func (p *performer) begin() { p.memory.clear() }

// act chooses actions for obs.
func (p *performer) act(obs tensor.Dict) (policy.Act, error) {
	act, err := p.policy.Forward(p.work, p.memory.with(obs), policy.Deterministic, policy.Noise{})
	if err == nil {
		p.memory.keep(act)
	}
	return act, err
}
