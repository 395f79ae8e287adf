package spmd

import (
	"fmt"
	"strings"
)

// An Axis is one dimension of a group's mesh; see GroupSpec.Axes.
type Axis struct {
	Name string
	Size int
}

// checkAxes checks the axes of spec. If there are axes, the mesh must have one point for each member.
func checkAxes(spec GroupSpec) error {
	points, known := 1, make(map[string]bool)
	sizes := make([]string, len(spec.Axes))
	for i, a := range spec.Axes {
		switch {
		case a.Name == "" || known[a.Name]:
			return fmt.Errorf("axis %d has the name %q: expected a name of its own", i, a.Name)
		case a.Size < 1:
			return fmt.Errorf("axis %q has the size %d: expected 1 or more", a.Name, a.Size)
		}
		known[a.Name] = true
		points *= a.Size
		sizes[i] = fmt.Sprintf("%s %d", a.Name, a.Size)
	}
	if len(spec.Axes) > 0 && points != len(spec.Ranks) {
		return fmt.Errorf("the mesh %s has %d points: expected one for each of the %d members",
			strings.Join(sizes, " × "), points, len(spec.Ranks))
	}
	return nil
}

// Axes returns the axes of the group's mesh, outermost first. The result is empty if the group has no mesh.
func (m *Member) Axes() []Axis { return m.group.spec.Axes }

// Coordinate returns the member's place on an axis of GroupSpec.Axes, from 0. It panics for an unknown axis.
func (m *Member) Coordinate(axis string) int {
	size, stride := m.axis(axis)
	return m.index / stride % size
}

// Line returns the numbers of the members that have this member's coordinates on all axes but the given one. The
// numbers ascend and include this member's. Line panics for an unknown axis.
func (m *Member) Line(axis string) []int {
	size, stride := m.axis(axis)
	members := make([]int, size)
	for i := range members {
		members[i] = m.index + (i-m.index/stride%size)*stride
	}
	return members
}

// AxisComm returns a communicator of the members that Line returns, in the same order. It sends over Comm(purpose), so
// only the goroutine of Comm(purpose) may use it, and closing one closes the other. Messages along different axes do
// not mix, because two members have at most one line in common. AxisComm panics for an unknown axis or purpose.
func (m *Member) AxisComm(axis, purpose string) Comm {
	return &line{Comm: m.Comm(purpose), axis: axis, me: m.Coordinate(axis), members: m.Line(axis)}
}

// axis returns the size of an axis and its stride. The stride is the difference between the numbers of two neighbours
// on the axis.
func (m *Member) axis(name string) (size, stride int) {
	axes := m.group.spec.Axes
	stride = 1
	for i := len(axes) - 1; i >= 0; i-- {
		if axes[i].Name == name {
			return axes[i].Size, stride
		}
		stride *= axes[i].Size
	}
	panic(fmt.Sprintf("spmd: group %q has no axis %q, only %v", m.Group(), name, axes))
}

// A line is a Comm of the members on one line of the mesh. It sends over the communicator of the whole group.
type line struct {
	Comm
	axis    string
	me      int
	members []int // numbers in the group
}

func (l *line) Rank() int           { return l.me }
func (l *line) Size() int           { return len(l.members) }
func (l *line) WorldRank(m int) int { return l.Comm.WorldRank(l.members[m]) }

func (l *line) Isend(b []byte, to, tag int) (Request, error) {
	if err := l.check("send to", to); err != nil {
		return Request{}, err
	}
	return l.Comm.Isend(b, l.members[to], tag)
}

func (l *line) Irecv(b []byte, from, tag int) (Request, error) {
	if err := l.check("receive from", from); err != nil {
		return Request{}, err
	}
	return l.Comm.Irecv(b, l.members[from], tag)
}

func (l *line) check(what string, peer int) error {
	if peer < 0 || peer >= len(l.members) {
		return fmt.Errorf("axis %q, member %d: %s member %d: expected a member of 0..%d", l.axis, l.me, what, peer,
			len(l.members)-1)
	}
	return nil
}
