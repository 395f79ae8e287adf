package mujoco

import "fmt"

// A model describes an MJCF model for tasks: its sizes and its named parts.
type model struct {
	file     string
	timestep float64 // s
	nq, nv   int
	parts    map[string][]part // by kind, as in env.Quantity, and "geom" for colours; in the model's order
	control  [][2]float64      // bounds of each actuator's input; infinite if there are none
	moves    []int             // [actuators]: index in qpos of the moved joint; -1 if it moves no joint with one number
}

// A part is a joint, a body or the like. It is a range of elements in an array of the physics; for
// an actuator, it is a range of the action.
type part struct {
	name   string // "" if it has none
	at, of int    // the first element, and the number of elements
}

// all returns the numbers of all actuators: 0, 1, 2, …
func (m *model) all() []int {
	list := make([]int, len(m.control))
	for i := range list {
		list[i] = i
	}
	return list
}

// body returns the number of the body of an embedded model.
func (m *model) body(name string) int { return m.number("body", name) }

// number returns the index of a part of an embedded model among the parts of its kind.
func (m *model) number(kind, name string) int {
	for i, p := range m.parts[kind] {
		if p.name == name {
			return i
		}
	}
	panic(fmt.Sprintf("mujoco: %s has no %s %s", m.file, kind, name))
}
