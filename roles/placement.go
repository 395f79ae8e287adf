package roles

import (
	"errors"
	"strings"

	"github.com/rlinf/rlinf/spmd"
)

// cluster returns the section cluster as spmd knows it.
func (c *Config) cluster() spmd.Cluster {
	s := spmd.Cluster{NumNodes: c.Cluster.NumNodes, AllowIdleRanks: c.Cluster.AllowIdleRanks}
	for _, e := range c.Cluster.ComponentPlacement {
		s.Components = append(s.Components, spmd.ComponentPlacement{Key: e.Key, NodeGroup: e.Value.NodeGroup.String(),
			Placement: e.Value.Placement})
	}
	for _, g := range c.Cluster.NodeGroups {
		s.NodeGroups = append(s.NodeGroups, spmd.NodeGroup{Label: g.Label, NodeRanks: g.NodeRanks})
	}
	return s
}

// place works the placement out for a world whose rank r is on node nodes[r].
func (c *Config) place(nodes []int) (*spmd.Placement, error) {
	place, err := spmd.Place(c.cluster(), nodes)
	if err == nil {
		return place, nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, err
	}
	for _, e := range joined.Unwrap() {
		var p *spmd.PlacementError
		if !errors.As(e, &p) {
			return nil, err
		}
		var value any
		if p.Value != "" {
			value = p.Value
		}
		c.Problem(p.Key, value, strings.TrimPrefix(p.Want, "want "))
	}
	return nil, c.check.Err()
}
