package mujoco

import (
	"fmt"
	"slices"
)

// A model is what tasks need to know of an MJCF model: sizes, and what its parts are called.
type model struct {
	file      string
	timestep  float64 // s
	nq, nv    int
	bodies    []string // "" where a part has no name
	sites     []string
	joints    []joint
	actuators []actuator
	sensors   []sensor
}

// A joint has a range of elements of qpos and one of qvel.
type joint struct {
	name      string
	qpos, nq  int
	qvel, nv  int
	hinge     bool
	low, high float64 // of its range, where it is limited; else infinite
}

// An actuator takes one number.
type actuator struct {
	name      string
	low, high float64 // infinite where it is not limited
}

// A sensor has a range of elements of sensordata.
type sensor struct {
	name    string
	at, dim int
}

// all returns the numbers of all actuators.
func (m *model) all() []int {
	list := make([]int, len(m.actuators))
	for i := range list {
		list[i] = i
	}
	return list
}

// body returns the number of the body of an embedded model.
func (m *model) body(name string) int {
	i := slices.Index(m.bodies, name)
	if i < 0 {
		panic(fmt.Sprintf("mujoco: %s has no body %s", m.file, name))
	}
	return i
}
