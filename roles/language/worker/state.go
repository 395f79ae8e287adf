package worker

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// firstReplica reports whether m holds a part of the first replica, which adds its state to checkpoints.
func firstReplica(m *spmd.Member) bool {
	if len(m.Axes()) > 0 {
		return m.Coordinate(member.Data) == 0
	}
	return m.Index() == 0
}

// A network is a network in a trainer's state: a member's part of the parameters, and those of the whole network.
type network struct {
	name     string // begins the names of its tensors
	p, whole *nn.Params[float32]
}

// trainerParts returns the parts that the tensors of d are of a trainer's state. Every member of a replica returns the
// tensors of the state in the same order, including those of which it has no part.
func trainerParts(d tensor.Dict, networks ...network) (parts []member.Part) {
	for i := range d.Len() {
		name, t := d.Entry(i)
		parts = append(parts, trainerPart(name, t, networks)...)
	}
	return parts
}

// trainerPart returns the part that t is. The first parameter of a network stands for all that the whole network has.
func trainerPart(name string, t tensor.Tensor, networks []network) []member.Part {
	for _, n := range networks {
		own, ok := strings.CutPrefix(name, n.name+".")
		switch {
		case !ok:
		case algo.IsMoment(own):
			return []member.Part{member.FlatPart(member.TrainerPart, name, t, n.p, n.whole)}
		default:
			switch slices.IndexFunc(n.p.Fields, func(f nn.Field) bool { return f.Name == own }) {
			case -1:
			case 0:
				return member.PartsOf(member.TrainerPart, n.name+".", n.p, n.whole)
			default:
				return nil
			}
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
