package config

import "github.com/rlinf/rlinf/spmd"

// ClusterSpec returns the section cluster in the form of package spmd.
func (c *Config) ClusterSpec() spmd.Cluster {
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

// Place computes the placement in a world whose rank r is on node nodes[r].
func (c *Config) Place(nodes []int) (*spmd.Placement, error) {
	return spmd.Place(c.ClusterSpec(), nodes)
}
