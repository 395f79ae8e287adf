package advice

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/spmd"
)

// Nodes are the nodes of a job as their first ranks have measured them.
type Nodes struct {
	network *planner.Link // nil: not measured
	// Unequal has a warning for each host that is slower or faster than the first one, which a plan measures.
	Unequal []string
}

// MeasureNodes measures the links between nodes and how fast their hosts are. The members of c are the first ranks of
// all nodes, and each of them calls it. It returns nil but on member 0.
func MeasureNodes(ctx context.Context, c spmd.Comm) (*Nodes, error) {
	sites, err := probe.Sites(ctx, c)
	if err != nil || c.Rank() != 0 {
		return nil, err
	}
	n := &Nodes{Unequal: unequal(sites)}
	if link, ok := probe.Network(sites); ok {
		n.network = &link
	}
	return n, nil
}

// unlike is the ratio of the rates of two hosts from which a plan that takes them for equal may be wrong.
const unlike = 1.2

// unequal returns the warnings of Nodes.Unequal.
func unequal(sites []probe.Site) (list []string) {
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
			if max(rate.here, rate.there) > unlike*min(rate.here, rate.there) {
				list = append(list, fmt.Sprintf("host %s %s %.2f times as fast as host %s: a plan takes all hosts to "+
					"be as fast as %s", x.Host, rate.what, rate.there/rate.here, first.Host, first.Host))
			}
		}
	}
	return list
}
