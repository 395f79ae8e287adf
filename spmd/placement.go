package spmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Components lists the components of a job and their placements. Its fields correspond to the configuration's section
// cluster.
type Components struct {
	// NumNodes must equal the number of nodes of the world; 0 accepts any number.
	NumNodes int
	// Components are the entries of component_placement, in order.
	Components []ComponentPlacement
	// NodeGroups are named sets of nodes that a placement can refer to.
	NodeGroups []NodeGroup
	// AllowIdleRanks allows ranks that no component uses.
	AllowIdleRanks bool
}

// A ComponentPlacement places one component, or several on the same ranks.
type ComponentPlacement struct {
	// Key is the name of the component, or several names joined by commas: "actor" or "actor,env".
	Key string
	// NodeGroup selects the resources to which the numbers in Placement refer. "" and "cluster" select all ranks of the
	// world, and "node" selects the nodes of the world. Any other value is a list of labels of NodeGroups, joined by
	// commas; it selects the ranks of their nodes, in order.
	NodeGroup string
	// Placement is a list of segments "resources:processes" or "resources", joined by commas. The resources are "n",
	// "a-b" or "all", in ascending order. The processes are "n" or "a-b", numbered from 0 without a gap. The default
	// is one process for each resource. If there are more processes than resources, consecutive processes share a
	// resource: "0-1:0-3" puts processes 0 and 1 on rank 0 and processes 2 and 3 on rank 1.
	Placement string
}

// A NodeGroup is a named set of nodes.
type NodeGroup struct {
	Label     string
	NodeRanks []int
}

// A PlacementError is one mistake in a Components. Its Want describes the expected value.
type PlacementError struct{ Key, Value, Want string }

func (e *PlacementError) Error() string {
	if e.Value == "" {
		return e.Key + ": " + e.Want
	}
	return e.Key + ": " + e.Value + ": " + e.Want
}

// An ExecutionMode describes how the components of a job share ranks.
type ExecutionMode int

const (
	Hybrid        ExecutionMode = iota // some ranks are shared, others are not
	Collocated                         // all components are on the same ranks
	Disaggregated                      // no rank holds two components
)

// String returns "hybrid", "collocated" or "disaggregated".
func (m ExecutionMode) String() string {
	return [...]string{"hybrid", "collocated", "disaggregated"}[m]
}

// A Placement assigns a rank to every member of every component.
type Placement struct {
	nodes []int
	specs []GroupSpec
}

// Place computes the placement of c in a world whose rank r is on node nodes[r]. The error joins a
// *PlacementError for every mistake.
func Place(c Components, nodes []int) (*Placement, error) {
	p := &placer{cluster: c, nodes: nodes, ranksOf: make(map[int][]int), placed: make(map[string]bool)}
	for r, n := range nodes {
		p.ranksOf[n] = append(p.ranksOf[n], r)
	}
	p.checkNodes()
	for _, comp := range c.Components {
		p.place(comp)
	}
	if len(c.Components) == 0 {
		p.wrong("cluster.component_placement", "", "expected at least one component")
	}
	if len(p.errs) == 0 && !c.AllowIdleRanks {
		p.checkIdle()
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return &Placement{nodes: slices.Clone(nodes), specs: p.specs}, nil
}

// Extent returns the smallest number of world ranks that the placements of c need. It also reports whether a placement
// depends on the size of the world, because the placement uses all ranks or a node group. Extent ignores mistakes in
// c; Place reports them.
func (c Components) Extent() (ranks int, whole bool) {
	for _, comp := range c.Components {
		if g := strings.TrimSpace(comp.NodeGroup); g != "" && g != "cluster" {
			whole = true
			continue
		}
		const beyond = 1 << 30
		segs, _ := parsePlacement(comp.Placement, beyond)
		for _, s := range segs {
			if s.last == beyond-1 {
				whole = true
			} else {
				ranks = max(ranks, s.last+1)
			}
		}
	}
	return ranks, whole
}

// Components returns the names of the components, in the order of the configuration.
func (p *Placement) Components() []string {
	names := make([]string, len(p.specs))
	for i, s := range p.specs {
		names[i] = s.Name
	}
	return names
}

// Has reports whether a component has this name.
func (p *Placement) Has(name string) bool {
	return slices.ContainsFunc(p.specs, func(s GroupSpec) bool { return s.Name == name })
}

// Add adds a component with members on these ranks. It panics if the name is taken.
func (p *Placement) Add(name string, ranks []int) {
	if p.Has(name) {
		panic(fmt.Sprintf("spmd: component %q has a place already", name))
	}
	p.specs = append(p.specs, GroupSpec{Name: name, Ranks: slices.Clone(ranks)})
}

// Ranks returns the ranks of a component's members, in member order. It returns nil for an unknown component.
func (p *Placement) Ranks(name string) []int {
	if !p.Has(name) {
		return nil
	}
	return p.Group(name).Ranks
}

// Group returns a spec with the name and the ranks of a component. It panics if there is no such component.
func (p *Placement) Group(name string) GroupSpec {
	i := slices.IndexFunc(p.specs, func(s GroupSpec) bool { return s.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("spmd: no component %q, only %q", name, p.Components()))
	}
	s := p.specs[i]
	s.Ranks = slices.Clone(s.Ranks)
	return s
}

// Mode returns how the components share the ranks. A single component is collocated.
func (p *Placement) Mode() ExecutionMode {
	same, apart := true, true
	for i, a := range p.specs {
		for _, b := range p.specs[:i] {
			same = same && maps.Equal(set(a.Ranks), set(b.Ranks))
			apart = apart && !slices.ContainsFunc(a.Ranks, func(r int) bool { return slices.Contains(b.Ranks, r) })
		}
	}
	switch {
	case same:
		return Collocated
	case apart:
		return Disaggregated
	}
	return Hybrid
}

// String lists the ranks, one per line, each with its number, its node and its workers: "5 node 1:
// actor[5] rollout[1]".
func (p *Placement) String() string {
	var b strings.Builder
	for r, n := range p.nodes {
		fmt.Fprintf(&b, "%d node %d:", r, n)
		for _, s := range p.specs {
			for m, at := range s.Ranks {
				if at == r {
					fmt.Fprintf(&b, " %s[%d]", s.Name, m)
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A placer computes the Placement of a Components. It collects the groups and the mistakes.
type placer struct {
	cluster Components
	nodes   []int
	ranksOf map[int][]int // ranks of each node
	placed  map[string]bool
	specs   []GroupSpec
	errs    []error
}

func (p *placer) wrong(key, value, want string, args ...any) {
	p.errs = append(p.errs, &PlacementError{Key: key, Value: value, Want: fmt.Sprintf(want, args...)})
}

func (p *placer) checkNodes() {
	if n := p.cluster.NumNodes; n != 0 && n != len(p.ranksOf) {
		p.wrong("cluster.num_nodes", strconv.Itoa(n), "expected %d, the nodes of this world", len(p.ranksOf))
	}
	labels := make(map[string]bool)
	for _, g := range p.cluster.NodeGroups {
		key := "cluster.node_groups." + g.Label
		switch {
		case g.Label == "cluster" || g.Label == "node":
			p.wrong(key, "", "expected another label: this one is reserved")
		case g.Label == "" || strings.ContainsRune(g.Label, ','):
			p.wrong(key, strconv.Quote(g.Label), "expected a label that is not empty and has no comma")
		case labels[g.Label]:
			p.wrong(key, "", "expected a label of its own: it stands twice")
		}
		labels[g.Label] = true
		seen := make(map[int]bool)
		for _, n := range g.NodeRanks {
			if len(p.ranksOf[n]) == 0 {
				p.wrong(key, fmt.Sprint(g.NodeRanks), "expected nodes 0..%d, the nodes of this world", len(p.ranksOf)-1)
			}
			if seen[n] {
				p.wrong(key, fmt.Sprint(g.NodeRanks), "expected every node once")
			}
			seen[n] = true
		}
	}
}

// place adds the components of one entry.
func (p *placer) place(comp ComponentPlacement) {
	key := "cluster.component_placement." + comp.Key
	resources, description, err := p.resources(comp.NodeGroup)
	if err != "" {
		p.wrong(key+".node_group", comp.NodeGroup, "%s", err)
		return
	}
	segs, wrongs := parsePlacement(comp.Placement, len(resources))
	for _, want := range wrongs {
		p.wrong(key, comp.Placement, "%s", strings.ReplaceAll(want, "{what}", description))
	}
	var ranks []int
	for _, s := range segs {
		each := s.processes / (s.last - s.first + 1) // processes per resource
		for r := s.first; r <= s.last && each > 0; r++ {
			for k := range each {
				ranks = append(ranks, resources[r][k*len(resources[r])/each])
			}
		}
	}
	for name := range strings.SplitSeq(comp.Key, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
			p.wrong(key, "", "expected the names of components, joined by commas")
		case p.placed[name]:
			p.wrong(key, "", "expected component %q once: it is placed above", name)
		default:
			p.placed[name] = true
			p.specs = append(p.specs, GroupSpec{Name: name, Ranks: ranks})
		}
	}
}

// resources returns the resources of a node group. A resource is a list of world ranks: a single rank, or all ranks of
// a node. The description of the resources is for messages. If the group is invalid, problem describes the expected
// value.
func (p *placer) resources(group string) (res [][]int, description, problem string) {
	switch group = strings.TrimSpace(group); group {
	case "", "cluster":
		for r := range p.nodes {
			res = append(res, []int{r})
		}
		needed, _ := p.cluster.Extent()
		return res, fmt.Sprintf("ranks that were started (-np %d; the placement has %d)", len(p.nodes), needed), ""
	case "node":
		for n := range len(p.ranksOf) {
			res = append(res, p.ranksOf[n])
		}
		return res, "nodes of the world", ""
	}
	var used []int
	for label := range strings.SplitSeq(group, ",") {
		label = strings.TrimSpace(label)
		i := slices.IndexFunc(p.cluster.NodeGroups, func(g NodeGroup) bool { return g.Label == label })
		if i < 0 {
			return nil, "", fmt.Sprintf("expected cluster, node, or labels of cluster.node_groups, which has no %q",
				label)
		}
		for _, n := range p.cluster.NodeGroups[i].NodeRanks {
			if slices.Contains(used, n) {
				return nil, "", fmt.Sprintf("expected groups that share no node: node %d is in two", n)
			}
			used = append(used, n)
			for _, r := range p.ranksOf[n] {
				res = append(res, []int{r})
			}
		}
	}
	return res, "ranks of node group " + group, ""
}

// checkIdle reports ranks that no component uses.
func (p *placer) checkIdle() {
	used := make(map[int]bool)
	for _, s := range p.specs {
		maps.Copy(used, set(s.Ranks))
	}
	var idle []int
	for r := range p.nodes {
		if !used[r] {
			idle = append(idle, r)
		}
	}
	if idle != nil {
		p.wrong("cluster.component_placement", "", "expected a component on every one of the %d ranks, there is "+
			"none on %s: start fewer ranks, or set cluster.allow_idle_ranks", len(p.nodes), spans(idle))
	}
}

// spans formats ascending ranks as a list. Three or more consecutive ranks become a range: 1, 2, 5-9.
func spans(ranks []int) string {
	var parts []string
	for lo := 0; lo < len(ranks); {
		hi := lo + 1
		for hi < len(ranks) && ranks[hi] == ranks[hi-1]+1 {
			hi++
		}
		if hi-lo < 3 {
			hi = lo + 1
			parts = append(parts, strconv.Itoa(ranks[lo]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[lo], ranks[hi-1]))
		}
		lo = hi
	}
	return strings.Join(parts, ", ")
}

func set(ranks []int) map[int]bool {
	s := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		s[r] = true
	}
	return s
}
