package worker

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/tensor"
)

// state returns the parts of the model and of the trainer's state. trainer has the algorithm's parts of the trainer's
// state. Replicas are equal, so only the first one saves parts, unless replicas shard the optimiser's moments.
func (t *tuner) state(p state.Purpose, trainer []state.Part) []state.Part {
	parts := slices.Concat(state.PartsOf(state.ModelFile, "", t.model.Params, t.model.Whole().Params), trainer)
	if !p.Move {
		parts = append(parts, state.Part{File: state.TrainerFile, Make: t.inputs})
	}
	t.spare(parts)
	return append(parts, t.iterations())
}

// inputs returns hashes of the texts and of the base weights.
func (t *tuner) inputs() ([]state.Part, error) {
	var d tensor.Dict
	d.Set(plan.TextsHash, tensor.FromI64([]int64{int64(t.plan.Train.Hash)}, 1))
	if base := int64(t.plan.BaseWeights.Hash); base != 0 {
		d.Set(plan.BaseHash, tensor.FromI64([]int64{base}, 1))
	}
	return trainerParts(d), nil
}

// iterations returns the state.Part that carries the number of iterations of this run in a move.
func (t *tuner) iterations() state.Part {
	return state.Number(state.Moves, "iterations", t.replicas.Iterations, func(n int64) { t.replicas.Iterations = n })
}

// spare marks the parts that the first replica saves.
func (t *tuner) spare(parts []state.Part) {
	model, critic := t.plan.Config.Optimisers()
	for i := range parts {
		parts[i].Spare = t.replica.index > 0 && !model.UseDistributedOptimizer && !critic.UseDistributedOptimizer
	}
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
func trainerParts(d tensor.Dict, networks ...network) (parts []state.Part) {
	for i := range d.Len() {
		name, t := d.Entry(i)
		parts = append(parts, trainerPart(name, t, networks)...)
	}
	return parts
}

// trainerPart returns the parts for the tensor t. For the first parameter of a network it returns the parts of all
// parameters of the network. For the other parameters it returns none.
func trainerPart(name string, t tensor.Tensor, networks []network) []state.Part {
	for _, n := range networks {
		own, ok := strings.CutPrefix(name, n.name+".")
		if !ok {
			continue
		}
		if algo.IsMoment(own) {
			return []state.Part{state.FlatPart(state.TrainerFile, name, t, n.lo, n.p, n.whole)}
		}
		switch i := slices.IndexFunc(n.p.Fields, func(f nn.ParamTensor) bool { return f.Name == own }); {
		case i == 0:
			return state.PartsOf(state.TrainerFile, n.name+".", n.p, n.whole)
		case i > 0:
			return nil
		}
	}
	return []state.Part{state.PartOf(state.TrainerFile, name, t, nn.Slice{})}
}

// weightParts returns the weights of m as parts of a model in a file of weights.
func weightParts(m *lm.Model) (parts []state.Part) {
	for _, t := range m.Tensors() {
		parts = append(parts, state.PartOf(state.ModelFile, t.Name, tensor.FromF32(t.Data, t.Shape...), t.Slice))
	}
	return parts
}

// fromWeights returns the part for the weights of m. It loads them if there is a model but no state of the trainer.
func fromWeights(m *lm.Model) state.Part {
	return state.Part{Fill: func(given state.Given) ([]state.Part, func() error) {
		if given.Has(state.TrainerFile) || !given.Has(state.ModelFile) {
			return nil, nil
		}
		return weightParts(m), nil
	}}
}

// stateless is embedded in workers without state.
type stateless struct{}

// State returns nil.
func (stateless) State(state.Purpose) []state.Part { return nil }

// retire closes w, unless part is w itself.
func retire(w interface{ Close() error }, part any) error {
	if part == any(w) {
		return nil
	}
	return w.Close()
}
