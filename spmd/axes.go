package spmd

import (
	"fmt"
	"strings"
)

// An Axis is one dimension of the mesh whose points are the members of a group: see GroupSpec.Axes.
type Axis struct {
	Name string
	Size int
}

// checkAxes returns an error unless the members of spec are the points of its mesh, if it has one.
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

// Axes returns the axes of the group's mesh, outermost first; none if it has no mesh.
func (m *Member) Axes() []Axis { return m.group.spec.Axes }

// Coordinate returns the member's place on an axis of GroupSpec.Axes, from 0. It panics for an unknown axis.
func (m *Member) Coordinate(axis string) int {
	size, stride := m.axis(axis)
	return m.index / stride % size
}

// AxisComm returns the member's end of a communicator along an axis. Its members are those that differ from this one
// in the coordinate on that axis alone, which is their rank. It is a part of Comm(purpose): it belongs to the same
// goroutine, and Close closes both. The axes of a purpose are apart, because two members are together on one line at
// most. AxisComm panics for an unknown axis or purpose.
func (m *Member) AxisComm(axis, purpose string) Comm {
	size, stride := m.axis(axis)
	first := m.index - m.Coordinate(axis)*stride
	return &line{Comm: m.Comm(purpose), axis: axis, first: first, stride: stride, size: size}
}

// axis returns the size of an axis, and how far neighbours on it are apart in the group.
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

// A line is the part of a group's communicator along an axis. Its member i is member first + i·stride of the group.
type line struct {
	Comm
	axis                string
	first, stride, size int
}

func (l *line) Rank() int { return (l.Comm.Rank() - l.first) / l.stride }
func (l *line) Size() int { return l.size }

func (l *line) WorldRank(m int) int { return l.Comm.WorldRank(l.first + m*l.stride) }

func (l *line) Isend(b []byte, to, tag int) (Request, error) {
	if err := l.check("send to", to); err != nil {
		return Request{}, err
	}
	return l.Comm.Isend(b, l.first+to*l.stride, tag)
}

func (l *line) Irecv(b []byte, from, tag int) (Request, error) {
	if err := l.check("receive from", from); err != nil {
		return Request{}, err
	}
	return l.Comm.Irecv(b, l.first+from*l.stride, tag)
}

func (l *line) check(what string, peer int) error {
	if peer < 0 || peer >= l.size {
		return fmt.Errorf("axis %q, member %d: %s member %d: expected a member of 0..%d", l.axis, l.Rank(), what, peer,
			l.size-1)
	}
	return nil
}
