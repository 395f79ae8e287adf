package collectives

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// An algorithm implements some kinds of operations. Each algorithm has its own file, which documents its
// steps and its cost. In the costs, P is the number of members and S the number of bytes. α is the latency
// of a message, β the time to send a byte, and γ the time to reduce a byte, in seconds.
type algorithm struct {
	name    string
	kinds   uint16                                  // set of bits 1<<spmd.CollectiveKind
	ordered bool                                    // whether the algorithm reduces by the tree over members
	fits    func(g *Group, c *spmd.Collective) bool // whether the algorithm can run c in g; nil means always
	run     func(ctx context.Context, t *team, c *spmd.Collective) error
}

// Auto is the value of Options.Algorithm that lets the table choose the algorithm.
const Auto = "auto"

// registry returns all algorithms.
func registry() []*algorithm {
	return []*algorithm{newShared(), newLibrary(), newHierarchical(), newRing(), newRabenseifner(), newDoubling(),
		newTree(), newOrdered(), newDirect()}
}

// Algorithms returns the valid names for Options.Algorithm and the rules of a TuningTable.
func Algorithms() []string {
	names := []string{Auto}
	for _, a := range registry() {
		names = append(names, a.name)
	}
	return names
}

func find(all []*algorithm, name string) *algorithm {
	for _, a := range all {
		if a.name == name {
			return a
		}
	}
	return nil
}

func of(kinds ...spmd.CollectiveKind) (bits uint16) {
	for _, k := range kinds {
		bits |= 1 << k
	}
	return bits
}

func (a *algorithm) suits(g *Group, c *spmd.Collective) bool {
	return a.kinds>>c.Kind&1 != 0 && (a.fits == nil || a.fits(g, c))
}

// reduces reports whether operations of kind k are reductions.
func reduces(k spmd.CollectiveKind) bool {
	return k == spmd.Reduce || k == spmd.AllReduce || k == spmd.ReduceScatter
}

// Supports reports whether the named algorithm can run operations of this kind in this group.
func (g *Group) Supports(name string, kind spmd.CollectiveKind) bool {
	if name == Auto {
		return true
	}
	a := find(g.algorithms, name)
	return a != nil && a.suits(g, &spmd.Collective{Kind: kind})
}

// Choice returns the name of the algorithm that Run uses for c.
func (g *Group) Choice(c *spmd.Collective) string { return g.choose(c).name }

// choose returns the algorithm of Options.Algorithm if it supports c. Otherwise it returns the algorithm of
// the first rule that applies to c. The built-in rules come last.
func (g *Group) choose(c *spmd.Collective) *algorithm {
	if g.forced != nil && g.forced.suits(g, c) {
		return g.forced
	}
	for i := range g.rules {
		if r := &g.rules[i]; r.fits(g, c) && r.algorithm.suits(g, c) &&
			(r.algorithm.ordered || g.opts.Fast || !reduces(c.Kind)) {
			return r.algorithm
		}
	}
	panic(fmt.Sprintf("collectives: the built-in table has no algorithm for %v", c))
}
