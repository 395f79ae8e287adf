package algo

import (
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Witness is shown what passes between the phases of training, in the order of the phases. So two runs can be
// compared phase by phase. The tensors are valid during the call. A nil Witness is shown nothing, at no cost.
type Witness func(phase string, tensors tensor.Dict)

// The phases that a Witness is shown.
const (
	PhaseRollout    = "rollout"    // what the environments and the policy did, [T,N,...]
	PhaseAnswers    = "answers"    // tokens, log-probs and rewards of answers
	PhaseAdvantages = "advantages" // of a rollout or of answers
	PhaseGradient   = "gradient"   // of an optimiser step, summed over the replicas
	PhaseWeights    = "weights"    // after the optimiser step
)

// Show shows tensors.
func (w Witness) Show(phase string, tensors tensor.Dict) {
	if w != nil {
		w(phase, tensors)
	}
}

// network shows data, which has the layout of p: a gradient or the parameters.
func (w Witness) network(phase string, p *nn.Params[float32], data []float32) {
	if w == nil {
		return
	}
	var d tensor.Dict
	for _, f := range p.Fields {
		d.Set(f.Name, tensor.FromF32(data[f.Off:f.Off+f.Len()], f.Shape...))
	}
	w(phase, d)
}
