package planner

import (
	"errors"
	"fmt"
)

// A Machine is a set of equal nodes, and the links between their ranks.
type Machine struct {
	Build string `json:"build"` // build of the program that measured; "" fits every build
	Host  string `json:"host"`  // host that was measured; "" for a machine that a user describes
	Cores int    `json:"cores"` // cores of a node
	Nodes int    `json:"nodes"`
	// Memory is the number of bytes that the ranks of a node may use. It is 0 if the number is unknown; then every
	// layout fits.
	Memory int64 `json:"memory"`
	// Copy is the rate at which a core copies memory, in bytes per second.
	Copy float64 `json:"copy"`
	// Process, SameNode and Network are the links between members on one rank, on two ranks of a node, and on two
	// nodes.
	Process  Link `json:"process"`
	SameNode Link `json:"node"`
	Network  Link `json:"network"`
	// Disk is the time to write a checkpoint into the run's folder: Latency for its files, and PerByte. It is 0 if it
	// is unknown.
	Disk Link `json:"disk,omitzero"`
}

// A Link carries an item of b bytes in Latency + b·PerByte seconds.
type Link struct {
	Latency float64 `json:"latency"`  // seconds
	PerByte float64 `json:"per_byte"` // seconds
}

// Time returns the seconds that an item of this many bytes takes.
func (l Link) Time(bytes float64) float64 { return l.Latency + bytes*l.PerByte }

// Usual returns the default for a network that was not measured: 50 µs, 10⁹ bytes per second.
func Usual() Link { return Link{Latency: 50e-6, PerByte: 1e-9} }

// between returns the link between two ranks.
func (m *Machine) between(a, b int, nodes []int) Link { return m.link(distance(a, b, nodes)) }

// check returns an error if m has an impossible number.
func (m *Machine) check() error {
	var errs []error
	want := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: expected %s", key, value, want))
		}
	}
	want(m.Cores > 0, "cores", m.Cores, "a number > 0")
	want(m.Nodes > 0, "nodes", m.Nodes, "a number > 0")
	want(m.Copy > 0, "copy", m.Copy, "bytes per second > 0")
	want(m.Memory >= 0, "memory", m.Memory, "bytes, or 0 for no limit")
	for _, l := range []struct {
		key string
		Link
	}{{"process", m.Process}, {"node", m.SameNode}, {"network", m.Network}, {"disk", m.Disk}} {
		want(l.Latency >= 0 && l.PerByte >= 0, l.key, l.Link, "seconds ≥ 0")
	}
	return errors.Join(errs...)
}
