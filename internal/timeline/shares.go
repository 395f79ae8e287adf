package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// Cost is time on critical paths by kind, in seconds.
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

// Shares divides critical paths. The largest part comes first in each list. Components, Sites, and Workers each add up
// to Total. A transfer counts for its receiver.
type Shares struct {
	Total      Cost
	Components []ComponentCost
	Sites      []SiteCost
	Links      []LinkCost
	Workers    []WorkerCost
}

// A ComponentCost is the cost of a component.
type ComponentCost struct {
	Component string
	Cost      Cost
}

// A SiteCost is the cost of a site of a component, on all its workers and under all keys.
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

// A WorkerCost is the cost of a worker.
type WorkerCost struct {
	Worker int
	Cost   Cost
}

// SharesOf divides critical paths of an attempt.
func SharesOf(a *trace.Attempt, paths ...*Path) *Shares {
	r := new(Shares)
	components, workers := map[string]int{}, map[int]int{}
	links, sites := map[[2]int]int{}, map[SiteCost]int{}
	for _, p := range paths {
		for i := range p.Segments {
			s := &p.Segments[i]
			component := a.Workers[s.Worker].Component
			r.Total.add(s)
			r.Components = grow(r.Components, components, component, ComponentCost{Component: component})
			r.Components[components[component]].Cost.add(s)
			site := SiteCost{Component: component, Op: s.Op, Name: s.Name, Cause: s.Cause}
			r.Sites = grow(r.Sites, sites, site, site)
			r.Sites[sites[site]].Cost.add(s)
			r.Workers = grow(r.Workers, workers, s.Worker, WorkerCost{Worker: s.Worker})
			r.Workers[workers[s.Worker]].Cost.add(s)
			if s.Kind == Transfer && s.Peer != none {
				link := [2]int{s.Peer, s.Worker}
				r.Links = grow(r.Links, links, link, LinkCost{From: s.Peer, To: s.Worker})
				r.Links[links[link]].Seconds += seconds(s.End - s.Start)
			}
		}
	}
	slices.SortStableFunc(r.Components, func(a, b ComponentCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(r.Sites, func(a, b SiteCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(r.Workers, func(a, b WorkerCost) int { return largest(a.Cost, b.Cost) })
	slices.SortStableFunc(r.Links, func(a, b LinkCost) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return r
}

// grow adds v to list, with its place in at, unless there is one for the key.
func grow[K comparable, V any](list []V, at map[K]int, key K, v V) []V {
	if _, ok := at[key]; ok {
		return list
	}
	at[key] = len(list)
	return append(list, v)
}

func largest(a, b Cost) int { return cmp.Compare(b.Total(), a.Total()) }
