package mujoco

import "fmt"

// A model describes an MJCF model for tasks: sizes, and the places of named parts.
type model struct {
	file     string
	timestep float64 // s
	nq, nv   int
	parts    map[string][]part // by the kinds of env.Quantity, and "geom" for their colours, in the model's order
	control  [][2]float64      // bounds of what each actuator takes, infinite where there are none
	moves    []int             // [actuators]: where in qpos the joint is that it moves; -1 where that is not one number
}

// A part is a joint, a body, …: elements of an array of the physics (an action, for an actuator).
type part struct {
	name   string // "" without one
	at, of int    // the first element, and how many
}

// all returns the numbers of all actuators.
func (m *model) all() []int {
	list := make([]int, len(m.control))
	for i := range list {
		list[i] = i
	}
	return list
}

// body returns the number of the body of an embedded model.
func (m *model) body(name string) int { return m.number("body", name) }

// number returns the number of a part of an embedded model among those of its kind.
func (m *model) number(kind, name string) int {
	for i, p := range m.parts[kind] {
		if p.name == name {
			return i
		}
	}
	panic(fmt.Sprintf("mujoco: %s has no %s %s", m.file, kind, name))
}
