package job

import (
	"fmt"
	"slices"
	"strings"
)

// A TextPlan says which workers have which groups of an iteration of the task reasoning: the prompts
// in their order, each with its answers. It follows from counts alone, so every rank computes the
// same one, and nothing depends on the order of arrival.
//
// Groups go from hop to hop. The workers of each hop divide them into ranges, one after the other. A
// rollout worker makes its range in stages, one after the other. A group goes on when all answers to
// its prompt have ended, while other groups grow.
type TextPlan struct {
	Groups int
	Stages int
	Hops   []TextHop // rollout, where they have a place reward, inference and critic, then actor
}

// A TextHop is a component on the way of the groups.
type TextHop struct {
	Component string
	Workers   int
}

// Hop returns the place of a component on the way; -1 if it has none.
func (p *TextPlan) Hop(component string) int {
	return slices.IndexFunc(p.Hops, func(h TextHop) bool { return h.Component == component })
}

// Range returns the groups [lo, hi) of a worker of a hop.
func (p *TextPlan) Range(hop, worker int) (lo, hi int) {
	return span(p.Groups, p.Hops[hop].Workers, worker)
}

// Owner returns the worker of a hop that has a group.
func (p *TextPlan) Owner(hop, group int) int { return owner(p.Groups, p.Hops[hop].Workers, group) }

// Stage returns the stage in which a group's rollout worker makes it.
func (p *TextPlan) Stage(group int) int {
	lo, hi := p.Range(0, p.Owner(0, group))
	return owner(hi-lo, p.Stages, group-lo)
}

// Pairs reports whether a worker of a hop sends groups to a worker of the next.
func (p *TextPlan) Pairs(hop, from, to int) bool {
	a, b := p.Range(hop, from)
	c, d := p.Range(hop+1, to)
	return max(a, c) < min(b, d)
}

// lines says who has how many groups of so many answers; nothing without groups.
func (p *TextPlan) lines(size int) []string {
	if p.Groups == 0 {
		return nil
	}
	each := make([]string, len(p.Hops))
	for i, h := range p.Hops {
		least, most := p.Groups/h.Workers, (p.Groups+h.Workers-1)/h.Workers
		each[i] = fmt.Sprintf("%d on each of %d %s workers", least, h.Workers, h.Component)
		if most > least {
			each[i] = fmt.Sprintf("%d or %d on each of %d %s workers", least, most, h.Workers, h.Component)
		}
		if h.Workers == 1 {
			each[i] = fmt.Sprintf("%d on 1 %s worker", least, h.Component)
		}
	}
	if p.Stages > 1 {
		each[0] += fmt.Sprintf(" in %d stages", p.Stages)
	}
	return []string{fmt.Sprintf("answers: %d to each of %d prompts; prompts: %s", size, p.Groups,
		strings.Join(each, ", then "))}
}

// span returns part number i of n things that are divided into so many parts, as evenly as can be.
func span(n, parts, i int) (lo, hi int) { return i * n / parts, (i + 1) * n / parts }

// owner returns the part that thing number i is in.
func owner(n, parts, i int) int { return ((i+1)*parts - 1) / n }

// LevelGroups returns the actor of each group, as many groups for each. The longest group that is
// left goes to the actor with the fewest tokens, of equals the first, among those that have room.
// tokens are those of the groups.
func LevelGroups(tokens []float64, actors int) []int {
	longest := make([]int, len(tokens))
	for g := range longest {
		longest[g] = g
	}
	slices.SortStableFunc(longest, func(a, b int) int {
		if tokens[a] == tokens[b] {
			return 0
		} else if tokens[a] > tokens[b] {
			return -1
		}
		return 1
	})
	load, room := make([]float64, actors), make([]int, actors)
	for a := range room {
		room[a] = len(tokens) / actors
	}
	of := make([]int, len(tokens))
	for _, g := range longest {
		least := -1
		for a := range load {
			if room[a] > 0 && (least < 0 || load[a] < load[least]) {
				least = a
			}
		}
		of[g] = least
		load[least] += tokens[g]
		room[least]--
	}
	return of
}
