package mesh

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
)

// TestPlaces: a replica's members are neighbours, and those that divide a layer are closest. Worked by hand.
func TestPlaces(t *testing.T) {
	m := Mesh{Stages: 2, Tensor: 2}
	for member, want := range []Coordinates{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0},
		{1, 1, 1}} {
		test.Equal(t, m.At(member), want, "member %d", member)
		if m.IsFirst(member) != (member == 0 || member == 4) || m.First(want.Replica) != 4*want.Replica {
			t.Errorf("member %d: first %v, of its replica %d", member, m.IsFirst(member), m.First(want.Replica))
		}
	}
	if at := (Mesh{}).At(3); at != (Coordinates{3, 0, 0}) {
		t.Errorf("member 3 of whole models is at %v", at)
	}
}

// TestAxes: a mesh and the axes of its group place members alike.
func TestAxes(t *testing.T) {
	got := Mesh{Stages: 2, Tensor: 3}.Axes(24)
	want := []spmd.Axis{{Name: Replica, Size: 4}, {Name: Stage, Size: 2}, {Name: Tensor, Size: 3}}
	test.EqualSlices(t, got, want, "axes")
}
