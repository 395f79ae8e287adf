package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// PathTime is the time on critical paths, in seconds, by kind of Segment.
type PathTime struct {
	Busy, Transfer, Wait, Unknown float64
}

// Total returns the sum of all kinds, in seconds.
func (c PathTime) Total() float64 { return c.Busy + c.Transfer + c.Wait + c.Unknown }

// add adds weight times the length of s to the field for the kind of s.
func (c *PathTime) add(s *Segment, weight float64) {
	t := weight * seconds(s.End-s.Start)
	switch s.Kind {
	case Busy:
		c.Busy += t
	case Transfer:
		c.Transfer += t
	case Wait:
		c.Wait += t
	default:
		c.Unknown += t
	}
}

// Shares splits the time of critical paths by component, site and link. Each list begins with the largest entry.
// Components and Sites each add up to Total. A transfer counts for its receiver.
type Shares struct {
	Total      PathTime
	Components []ComponentCost
	Sites      []SiteCost
	Links      []LinkCost
}

// A ComponentCost is the cost of a component.
type ComponentCost struct {
	Component string
	Cost      PathTime
}

// A SiteCost is the cost of a site of a component, summed over all workers and keys.
type SiteCost struct {
	Component string
	Op        trace.SiteKind
	Name      string
	Cause     trace.Cause
	Cost      PathTime
}

// A LinkCost is the cost of the transfers from one worker to another, in seconds.
type LinkCost struct {
	From, To int
	Seconds  float64
}

// SharesOf returns the Shares of critical paths of an attempt.
func SharesOf(a *trace.Attempt, paths ...*Path) *Shares {
	c := newCosts(a)
	for _, p := range paths {
		for i := range p.Segments {
			c.add(&p.Segments[i], 1)
		}
	}
	return c.sorted()
}

// costs collects the entries of Shares.
type costs struct {
	Shares
	workers    []trace.Lane
	parts      map[int][]part // by worker
	components map[string]int
	sites      map[SiteCost]int
	links      map[LinkCost]int
}

func newCosts(a *trace.Attempt) *costs {
	return &costs{workers: a.Workers, parts: partsOf(a), components: map[string]int{}, sites: map[SiteCost]int{},
		links: map[LinkCost]int{}}
}

// add adds weight times the length of s to its site. If the work of s has parts, it divides the time among them.
func (c *costs) add(s *Segment, weight float64) {
	rest := *s
	if s.Kind == Busy && s.Op == trace.Work {
		for _, p := range c.parts[s.Worker] {
			if p.of == s.Name {
				one := *s
				one.Name, rest.Name = p.name, bookkeeping
				c.addTo(&one, weight*p.share)
				weight *= 1 - p.share
			}
		}
	}
	c.addTo(&rest, weight)
}

// addTo adds weight times the length of a segment to its site.
func (c *costs) addTo(s *Segment, weight float64) {
	component := c.workers[s.Worker].Component
	site := SiteCost{Component: component, Op: s.Op, Name: s.Name, Cause: s.Cause}
	c.Total.add(s, weight)
	entry(&c.Components, c.components, component, ComponentCost{Component: component}).Cost.add(s, weight)
	entry(&c.Sites, c.sites, site, site).Cost.add(s, weight)
	if s.Kind == Transfer && s.Peer != none {
		link := LinkCost{From: s.Peer, To: s.Worker}
		entry(&c.Links, c.links, link, link).Seconds += weight * seconds(s.End-s.Start)
	}
}

// sorted returns the Shares, with the largest entries first.
func (c *costs) sorted() *Shares {
	slices.SortStableFunc(c.Components, func(a, b ComponentCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(c.Sites, func(a, b SiteCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(c.Links, func(a, b LinkCost) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return &c.Shares
}

func largest(a, b PathTime) int { return cmp.Compare(b.Total(), a.Total()) }

// entry returns the entry of key in list. If there is none, it appends v. positions has the index of each key's entry.
// The pointer is valid until the list grows.
func entry[K comparable, V any](list *[]V, positions map[K]int, key K, v V) *V {
	i, ok := positions[key]
	if !ok {
		i = len(*list)
		positions[key], *list = i, append(*list, v)
	}
	return &(*list)[i]
}
