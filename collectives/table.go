package collectives

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/spmd"
)

// A TuningTable is a list of rules that choose the algorithm of an operation. A rule applies if it matches the
// operation and its algorithm can run the operation in the group. The first rule that applies decides. If
// no rule applies, the built-in table decides.
type TuningTable struct {
	Schema  int          `json:"schema"`            // must be 1
	Machine string       `json:"machine,omitempty"` // machine on which the table was measured, for human readers
	Rules   []TuningRule `json:"rules"`
}

// A TuningRule matches operations of one kind, by group and size.
type TuningRule struct {
	Kind      string `json:"kind"`              // name of the spmd.CollectiveKind, such as "allreduce"
	Members   int    `json:"members,omitempty"` // largest number of members; 0 means any
	Nodes     string `json:"nodes,omitempty"`   // "one" or "many"; "" means either
	Bytes     int    `json:"bytes,omitempty"`   // largest size of Data; 0 means any
	Algorithm string `json:"algorithm"`
}

// ReadTuningTable reads a TuningTable from a JSON file.
func ReadTuningTable(file string) (*TuningTable, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("table of algorithms: %w", err)
	}
	t := new(TuningTable)
	d := json.NewDecoder(bytes.NewReader(durable.WholeNumbers(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("table of algorithms %s: %w", file, err)
	}
	if _, err := t.resolve(registry()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Write writes the table to a JSON file for ReadTuningTable.
func (t *TuningTable) Write(file string) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("table of algorithms: %w", err)
	}
	return nil
}

// A rule is a TuningRule with its names resolved.
type rule struct {
	kind      spmd.CollectiveKind
	members   int
	one, many bool // whether the rule matches groups on one node, and groups on several nodes
	bytes     int
	algorithm *algorithm
}

func (r *rule) fits(g *Group, c *spmd.Collective) bool {
	nodes := g.heads.size()
	return r.kind == c.Kind && (r.members == 0 || g.Size() <= r.members) && (r.bytes == 0 || len(c.Data) <= r.bytes) &&
		(nodes == 1 && r.one || nodes > 1 && r.many)
}

// resolve looks up the kinds and algorithms that the Rules name.
func (t *TuningTable) resolve(all []*algorithm) ([]rule, error) {
	if t.Schema != 1 {
		return nil, fmt.Errorf("table of algorithms: schema %d: expected 1", t.Schema)
	}
	rules := make([]rule, len(t.Rules))
	for i, r := range t.Rules {
		k := slices.IndexFunc(kinds(), func(k spmd.CollectiveKind) bool { return k.String() == r.Kind })
		a := find(all, r.Algorithm)
		switch {
		case k < 0:
			return nil, fmt.Errorf("table of algorithms, rule %d: kind %q: expected one of %v", i+1, r.Kind, kinds())
		case a == nil:
			return nil, fmt.Errorf("table of algorithms, rule %d: algorithm %q: expected one of %v", i+1, r.Algorithm,
				Algorithms()[1:])
		case r.Nodes != "" && r.Nodes != "one" && r.Nodes != "many":
			return nil, fmt.Errorf("table of algorithms, rule %d: nodes %q: expected one, many or nothing", i+1,
				r.Nodes)
		case r.Members < 0 || r.Bytes < 0:
			return nil, fmt.Errorf("table of algorithms, rule %d: %d members, %d bytes: expected 0 or more", i+1,
				r.Members, r.Bytes)
		}
		rules[i] = rule{kinds()[k], r.Members, r.Nodes != "many", r.Nodes != "one", r.Bytes, a}
	}
	return rules, nil
}

func kinds() []spmd.CollectiveKind {
	all := make([]spmd.CollectiveKind, spmd.SendReceive+1)
	for i := range all {
		all[i] = spmd.CollectiveKind(i)
	}
	return all
}

// builtin returns the table for machines without measurements. Shared memory comes first, because it is fastest at
// every size. Between nodes the table minimizes the number of messages, then their length. At the size limits between
// message algorithms, the documented costs are equal for α = 2 µs and β = 0.1 ns per byte.
func builtin() *TuningTable {
	rules := []TuningRule{}
	for _, k := range kinds() {
		rules = append(rules, TuningRule{Kind: k.String(), Algorithm: "shared"})
	}
	return &TuningTable{Schema: 1, Rules: append(rules, []TuningRule{
		{Kind: "barrier", Algorithm: "doubling"},
		{Kind: "broadcast", Nodes: "many", Algorithm: "hierarchical"},
		{Kind: "broadcast", Algorithm: "tree"},
		{Kind: "reduce", Nodes: "many", Algorithm: "hierarchical"},
		{Kind: "reduce", Algorithm: "tree"},
		{Kind: "allreduce", Nodes: "many", Bytes: 4 << 10, Algorithm: "doubling"},
		{Kind: "allreduce", Nodes: "many", Algorithm: "hierarchical"},
		{Kind: "allreduce", Bytes: 16 << 10, Algorithm: "doubling"},
		{Kind: "allreduce", Algorithm: "ordered"},
		{Kind: "allreduce", Bytes: 512 << 10, Algorithm: "rabenseifner"},
		{Kind: "allreduce", Algorithm: "ring"},
		{Kind: "allreduce", Algorithm: "rabenseifner"},
		{Kind: "reduce_scatter", Algorithm: "ordered"},
		{Kind: "reduce_scatter", Algorithm: "ring"},
		{Kind: "reduce_scatter", Algorithm: "rabenseifner"},
		{Kind: "allgather", Bytes: 64 << 10, Algorithm: "direct"},
		{Kind: "allgather", Algorithm: "ring"},
		{Kind: "gather", Algorithm: "direct"},
		{Kind: "scatter", Algorithm: "direct"},
		{Kind: "alltoall", Algorithm: "direct"},
		{Kind: "sendrecv", Algorithm: "direct"},
	}...)}
}
