package config

import (
	"strings"

	"github.com/rlinf/rlinf/spmd"
)

// PlacementAuto is the placement of components whose place is planned when training starts.
const PlacementAuto = "auto"

// Auto returns the components with the placement auto, and the section cluster without them.
func (c *Config) Auto() (auto []string, others spmd.Cluster) {
	others = c.ClusterSpec()
	own := others.Components
	others.Components, others.AllowIdleRanks = nil, true
	for _, e := range own {
		if strings.TrimSpace(e.Placement) != PlacementAuto {
			others.Components = append(others.Components, e)
			continue
		}
		for name := range strings.SplitSeq(e.Key, ",") {
			auto = append(auto, strings.TrimSpace(name))
		}
	}
	return auto, others
}
