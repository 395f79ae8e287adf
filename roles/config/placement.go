package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/spmd"
	"gopkg.in/yaml.v3"
)

// ClusterSpec returns the section cluster as an spmd.Components.
func (c *Config) ClusterSpec() spmd.Components {
	s := spmd.Components{NumNodes: c.Cluster.NumNodes, AllowIdleRanks: c.Cluster.AllowIdleRanks}
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

// At returns a copy of c with another placement. The new placement names the rank of every member, so the job makes no
// pool of its ranks. Ranks may be idle.
func (c *Config) At(place *spmd.Placement) *Config {
	at := *c
	at.fixed, at.Cluster.ComponentPlacement, at.Cluster.AllowIdleRanks = true, nil, true
	for _, name := range place.Components() {
		at.Cluster.ComponentPlacement = append(at.Cluster.ComponentPlacement, config.Entry[PlacementConfig]{Key: name,
			Value: PlacementConfig{Placement: spmd.PlacementOf(place.Ranks(name))}})
	}
	return &at
}

// Fixed reports whether the placement is from At. Such a placement names every member.
func (c *Config) Fixed() bool { return c.fixed }

// Deals reports whether ranks are a pool over which prompts are distributed.
func (c *Config) Deals() bool { return c.Reasons() && c.Cluster.AutoScheduler }

// PlacementText returns cluster.component_placement in one line of YAML, such as {actor: 0-3, env: 4-7}.
func (c *Config) PlacementText() string {
	var y yaml.Node
	err := y.Encode(c.Cluster.ComponentPlacement)
	inLine(&y)
	text, err2 := yaml.Marshal(&y)
	if err := errors.Join(err, err2); err != nil {
		panic(fmt.Sprintf("placement as YAML: %v", err)) // a map of texts has a YAML form
	}
	return strings.TrimSpace(string(text))
}

// inLine makes a node print in one line, with numbers without quotes.
func inLine(y *yaml.Node) {
	switch {
	case y.Kind != yaml.ScalarNode:
		y.Style = yaml.FlowStyle
	case y.Value != "" && strings.Trim(y.Value, "0123456789") == "":
		y.Style, y.Tag = 0, "!!int"
	}
	for _, below := range y.Content {
		inLine(below)
	}
}

// Moved returns the configuration of the job after a move to the places in text, such as {actor: 0-3, env: 4-7}. Other
// components keep their places. Ranks may be idle. The error has all mistakes, like the error of Load. The Config is
// nil if text is no placement.
func (c *Config) Moved(reg Registries, text string) (*Config, error) {
	var asked map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(text), &asked); err != nil || len(asked) == 0 {
		want := "expected the places of components, as {actor: 0-3, env: 4-7}"
		if wrong := new(yaml.TypeError); errors.As(err, &wrong) && strings.Contains(wrong.Errors[0], "mapping key") {
			want += ": " + wrong.Errors[0] // the error names the key that comes twice
		}
		return nil, &config.FieldError{Origin: "command line", Key: placementKey, Value: quoted(text), Want: want}
	}
	var moving, order []string
	for key := range asked {
		moving = append(moving, config.Names(key)...)
	}
	slices.Sort(moving)
	rest := *c
	rest.Cluster.ComponentPlacement, rest.Cluster.AllowIdleRanks = nil, true
	for _, e := range c.Cluster.ComponentPlacement {
		order = append(order, config.Names(e.Key)...)
		stay := slices.DeleteFunc(config.Names(e.Key), func(name string) bool { return slices.Contains(moving, name) })
		if e.Key = strings.Join(stay, ","); len(stay) > 0 {
			rest.Cluster.ComponentPlacement = append(rest.Cluster.ComponentPlacement, e)
		}
	}
	m, _, err := LoadText(reg, "config.yaml", rest.Resolved(), []string{placementKey + "=" + text}, false)
	if m == nil {
		return nil, err
	}
	slices.SortStableFunc(m.Cluster.ComponentPlacement, func(a, b config.Entry[PlacementConfig]) int {
		return slices.Index(order, config.Names(a.Key)[0]) - slices.Index(order, config.Names(b.Key)[0])
	})
	for _, name := range moving { // without an entry, rollout is with the actors
		if !slices.Contains(order, name) && name != "rollout" && !m.Reported(placementKey) {
			m.found.Problem(placementKey+"."+name, name,
				"one of the components that the run has: "+strings.Join(order, ", "))
		}
	}
	if auto, _ := m.Auto(); len(auto) > 0 {
		m.found.Problem(placementKey, PlacementAuto, "ranks: auto is for the start of a job")
	}
	return m, m.Err()
}

// quoted returns the beginning of a text as one line that a terminal can show.
func quoted(text string) string {
	const most = 80
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + " …"
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}

// KeepMembers gives each component as many members as it has in p. If c names fewer ranks for a component, KeepMembers
// distributes the members evenly over these ranks, in order. It does nothing if the placement of c does not fit a world
// with these nodes.
func (c *Config) KeepMembers(p *spmd.Placement, nodes []int) {
	now, err := c.Place(nodes)
	if err != nil {
		return
	}
	var changed bool
	places := c.Cluster.ComponentPlacement
	c.Cluster.ComponentPlacement = nil
	for _, e := range places {
		for _, name := range config.Names(e.Key) {
			own := config.Entry[PlacementConfig]{Key: name, Value: e.Value}
			n, ranks := len(p.Ranks(own.Key)), slices.Compact(slices.Clone(now.Ranks(own.Key)))
			if n > len(ranks) && n != len(now.Ranks(own.Key)) {
				changed = true
				members := make([]int, n)
				for m := range members {
					members[m] = ranks[m*len(ranks)/n]
				}
				own.Value = PlacementConfig{Placement: spmd.PlacementOf(members)}
			}
			c.Cluster.ComponentPlacement = append(c.Cluster.ComponentPlacement, own)
		}
	}
	if !changed {
		c.Cluster.ComponentPlacement = places
	}
}
