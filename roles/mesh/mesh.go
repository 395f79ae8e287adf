// Package mesh answers: who has which part of a model? The members of a component that divides a model are the points
// of a mesh with three axes. Members with consecutive numbers differ on the innermost axis first.
package mesh

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/spmd"
)

// The axes of a mesh, outermost first. They name the axes of groups: see spmd.GroupSpec.
const (
	Replica = "replica" // the members have copies of the same model, or of the same part of a model
	Stage   = "stage"   // each member has some of the layers
	Tensor  = "tensor"  // each member has a share of every layer
)

// A Mesh arranges the members of a replica, which have one model together. The layers of the model are divided into
// Stages, and every layer of a stage is divided among Tensor members. The members of a replica have consecutive
// numbers, and so have the members of a stage. The number of replicas follows from the number of members. A size of 0
// means 1: in the zero Mesh each member has a whole model.
type Mesh struct {
	Stages int `json:"pipeline"`
	Tensor int `json:"tensor"`
}

// Coordinates are the position of a member on each axis, from 0.
type Coordinates struct{ Replica, Stage, Tensor int }

// Full returns m with sizes of 1 in place of 0, so that equal meshes have equal values.
func (m Mesh) Full() Mesh { return Mesh{max(1, m.Stages), max(1, m.Tensor)} }

// Members returns the number of members of a replica.
func (m Mesh) Members() int { return max(1, m.Stages) * max(1, m.Tensor) }

// At returns the coordinates of a member.
func (m Mesh) At(member int) Coordinates {
	f := m.Full()
	return Coordinates{member / f.Members(), member / f.Tensor % f.Stages, member % f.Tensor}
}

// First returns the first member of a replica. This member exchanges messages with other components.
func (m Mesh) First(replica int) int { return replica * m.Members() }

// IsFirst reports whether a member is the first of its replica.
func (m Mesh) IsFirst(member int) bool { return member%m.Members() == 0 }

// Axes returns the axes of a group of this many members.
func (m Mesh) Axes(members int) []spmd.Axis {
	f := m.Full()
	return []spmd.Axis{{Name: Replica, Size: members / f.Members()}, {Name: Stage, Size: f.Stages},
		{Name: Tensor, Size: f.Tensor}}
}

// String describes a replica, for example "2 stages × 4 tensor parts". It returns "" if each member has a whole model.
func (m Mesh) String() string {
	var parts []string
	if m.Stages > 1 {
		parts = append(parts, fmt.Sprintf("%d stages", m.Stages))
	}
	if m.Tensor > 1 {
		parts = append(parts, fmt.Sprintf("%d tensor parts", m.Tensor))
	}
	return strings.Join(parts, " × ")
}
