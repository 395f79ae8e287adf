package algo

import (
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Witness receives the tensors that one phase of training passes to the next, in the order of the phases. With it,
// two runs can be compared phase by phase. The tensors are valid during the call. A nil Witness does nothing, at no
// cost.
type Witness func(phase string, tensors tensor.Dict)

// The phases for which a Witness is called.
const (
	PhaseRollout    = "rollout"    // what the environments and the policy did, [T,N,...]
	PhaseAnswers    = "answers"    // tokens, log-probs and rewards of answers
	PhaseAdvantages = "advantages" // advantages of a rollout or of answers
	PhaseGradient   = "gradient"   // gradient of an optimiser step, summed over the replicas
	PhaseWeights    = "weights"    // parameters after the optimiser step
)

// Show calls w, unless w is nil.
func (w Witness) Show(phase string, tensors tensor.Dict) {
	if w != nil {
		w(phase, tensors)
	}
}

// network calls w with the tensors of data: a gradient or the parameters, in the layout of p.
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
