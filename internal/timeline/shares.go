package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// Cost is the time on critical paths, in seconds, by kind of Segment.
type Cost struct {
	Busy, Transfer, Wait, Unknown float64
}

// Total returns the sum of all kinds, in seconds.
func (c Cost) Total() float64 { return c.Busy + c.Transfer + c.Wait + c.Unknown }

func (c *Cost) add(s *Segment) {
	t := seconds(s.End - s.Start)
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
	Total      Cost
	Components []ComponentCost
	Sites      []SiteCost
	Links      []LinkCost
}

// A ComponentCost is the cost of a component.
type ComponentCost struct {
	Component string
	Cost      Cost
}

// A SiteCost is the cost of a site of a component, summed over all workers and keys.
type SiteCost struct {
	Component string
	Op        trace.Op
	Name      string
	Cause     trace.Cause
	Cost      Cost
}

// A LinkCost is the cost of the transfers from one worker to another, in seconds.
type LinkCost struct {
	From, To int
	Seconds  float64
}

// SharesOf returns the Shares of critical paths of an attempt.
func SharesOf(a *trace.Attempt, paths ...*Path) *Shares {
	r := new(Shares)
	components, links, sites := map[string]int{}, map[LinkCost]int{}, map[SiteCost]int{}
	for _, p := range paths {
		for i := range p.Segments {
			s := &p.Segments[i]
			component := a.Workers[s.Worker].Component
			site := SiteCost{Component: component, Op: s.Op, Name: s.Name, Cause: s.Cause}
			r.Total.add(s)
			entry(&r.Components, components, component, ComponentCost{Component: component}).Cost.add(s)
			entry(&r.Sites, sites, site, site).Cost.add(s)
			if s.Kind == Transfer && s.Peer != none {
				link := LinkCost{From: s.Peer, To: s.Worker}
				entry(&r.Links, links, link, link).Seconds += seconds(s.End - s.Start)
			}
		}
	}
	slices.SortStableFunc(r.Components, func(a, b ComponentCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(r.Sites, func(a, b SiteCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(r.Links, func(a, b LinkCost) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return r
}

func largest(a, b Cost) int { return cmp.Compare(b.Total(), a.Total()) }

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
