package advice

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/spmd"
)

// Nodes has measurements of a job's nodes, made on the first rank of each node.
type Nodes struct {
	network *planner.Link // nil if not measured
	// Unequal has a warning for each host that is slower or faster than the first host. A plan measures only the first
	// host.
	Unequal []string
}

// MeasureNodes measures the links between nodes, and the speed of their hosts. The members of c are the first ranks of
// all nodes, and every member calls MeasureNodes. It returns nil on all members but member 0.
func MeasureNodes(ctx context.Context, c spmd.Comm) (*Nodes, error) {
	sites, err := probe.Sites(ctx, c)
	if err != nil || c.Rank() != 0 {
		return nil, err
	}
	n := &Nodes{Unequal: unequalHosts(sites)}
	if link, ok := probe.Network(sites); ok {
		n.network = &link
	}
	return n, nil
}

// warnRatio is the ratio of the speeds of two hosts above which Unequal has a warning.
const warnRatio = 1.2

// unequalHosts returns the warnings of Nodes.Unequal.
func unequalHosts(sites []probe.NodeProbe) (list []string) {
	first, seen := sites[0], map[string]bool{sites[0].Host: true}
	for _, x := range sites[1:] {
		if seen[x.Host] {
			continue
		}
		seen[x.Host] = true
		for _, rate := range []struct {
			what        string
			here, there float64
		}{{"computes", first.Core, x.Core}, {"copies memory", first.Copy, x.Copy}} {
			if max(rate.here, rate.there) > warnRatio*min(rate.here, rate.there) {
				list = append(list, fmt.Sprintf("host %s %s %.2f times as fast as host %s: a plan takes all hosts to "+
					"be as fast as %s", x.Host, rate.what, rate.there/rate.here, first.Host, first.Host))
			}
		}
	}
	return list
}
