package mujoco

import "fmt"

// A model describes an MJCF model for the tasks: its sizes and its named parts.
type model struct {
	file     string
	timestep float64 // s
	nq, nv   int
	parts    map[string][]part // by kind ("geom" or a kind of env.Quantity), in the model's order
	control  [][2]float64      // bounds of each actuator's input; ±Inf means no bound
	servo    []bool            // [actuators]: whether the input is a position
	moves    []int             // [actuators]: index in qpos of the moved joint; -1 if its position is not one number
}

// A part is a joint, a sensor, a body, a site, a geom or an actuator of a model. It has a range of
// elements in an array of the physics, or in the action for an actuator.
type part struct {
	name   string // "" if the part is unnamed
	at, of int    // the first element, and the number of elements
}

// all returns the indices of all actuators: 0, 1, 2, …
func (m *model) all() []int {
	list := make([]int, len(m.control))
	for i := range list {
		list[i] = i
	}
	return list
}

// body returns the index of the body called name, which the model must have.
func (m *model) body(name string) int { return m.number("body", name) }

// number returns the index of the part called name among the parts of its kind. It panics if there
// is none, which cannot happen for embedded models.
func (m *model) number(kind, name string) int {
	for i, p := range m.parts[kind] {
		if p.name == name {
			return i
		}
	}
	panic(fmt.Sprintf("mujoco: %s has no %s %s", m.file, kind, name))
}
