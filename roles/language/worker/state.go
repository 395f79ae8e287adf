package worker

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// partsToSave returns those of the given parts that this member adds to checkpoints. Replicas are equal, so only the
// first replica adds parts. If replicas shard the optimiser's moments, each replica adds its flat tensors.
func (t *tuner) partsToSave(parts []member.Part) []member.Part {
	if t.replica.index == 0 {
		return parts
	}
	if model, critic := t.plan.Config.Optimisers(); !model.UseDistributedOptimizer && !critic.UseDistributedOptimizer {
		return nil
	}
	for i := range parts {
		if p := &parts[i]; !p.Gaps {
			p.Memory, p.Blocks = nil, nil
		}
	}
	return parts
}

// A network is a member's part of a trained network, whose tensors are in the trainer's state.
type network struct {
	name  string              // begins the names of the tensors
	p     *nn.Params[float32] // the member's part of the parameters
	whole *nn.Params[float32] // declares the parameters of the whole network
	lo    int                 // index in p.Data; the member has the moments from this index on
}

// network returns the member's part of m as a network. o is the configuration of the optimiser that trains m.
func (t *tuner) network(name string, m *lm.Model, o algo.OptimConfig) network {
	lo, _ := o.Share(len(m.Params.Data), t.replicas)
	return network{name, m.Params, m.Whole().Params, lo}
}

// trainerParts returns the tensors of d as parts of a trainer's state. All members of a replica return the same tensors
// in the same order, with empty parts for tensors of other members.
func trainerParts(d tensor.Dict, networks ...network) (parts []member.Part) {
	for i := range d.Len() {
		name, t := d.Entry(i)
		parts = append(parts, trainerPart(name, t, networks)...)
	}
	return parts
}

// trainerPart returns the parts for the tensor t. For the first parameter of a network it returns the parts of all
// parameters of the network. For the other parameters it returns none.
func trainerPart(name string, t tensor.Tensor, networks []network) []member.Part {
	for _, n := range networks {
		own, ok := strings.CutPrefix(name, n.name+".")
		if !ok {
			continue
		}
		if algo.IsMoment(own) {
			return []member.Part{member.FlatPart(member.TrainerPart, name, t, n.lo, n.p, n.whole)}
		}
		switch i := slices.IndexFunc(n.p.Fields, func(f nn.Field) bool { return f.Name == own }); {
		case i == 0:
			return member.PartsOf(member.TrainerPart, n.name+".", n.p, n.whole)
		case i > 0:
			return nil
		}
	}
	return []member.Part{member.PartOf(member.TrainerPart, name, t, nn.Slice{})}
}

// weightParts returns the weights of m as parts of a model in a file of weights.
func weightParts(m *lm.Model) (parts []member.Part) {
	for _, t := range m.Tensors() {
		parts = append(parts, member.PartOf(member.ModelPart, t.Name, tensor.FromF32(t.Data, t.Shape...), t.Slice))
	}
	return parts
}

// stateless is embedded in workers without state.
type stateless struct{}

// Save returns nil.
func (stateless) Save() []member.Part { return nil }

// Load returns nil.
func (stateless) Load(weights bool) []member.Part { return nil }
