package graph

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write writes the tree to w, one line for each node. A line has the operation, the name, the shape of a row, constants
// and parameters.
func (n *Node) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n.Each(func(n *Node, depth int) {
		what := strings.Repeat("  ", depth) + string(n.Op)
		if n.Name != "" {
			what += " " + n.Name
		}
		line := what + "\t" + shape(n.Out) + "\t" + n.details()
		fmt.Fprintln(t, strings.TrimRight(line, "\t "))
	})
	return t.Flush()
}

func shape(dims []int) string {
	if dims == nil {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(dims), " ", "×")
}

// details returns constants and parameters. Names of parameters lack the name of the node. In place of a long list of
// parameters, it returns their number.
func (n *Node) details() string {
	var all []string
	for _, c := range n.Consts {
		all = append(all, fmt.Sprintf("%s %v", c.Name, brief(c.Value)))
	}
	if len(n.Params) > 4 {
		elements := 0
		for _, p := range n.Params {
			elements += p.Len()
		}
		all = append(all, fmt.Sprintf("%d tensors of %d numbers, %s to %s", len(n.Params), elements, n.Params[0].Name,
			n.Params[len(n.Params)-1].Name))
		return strings.Join(all, ", ")
	}
	for _, p := range n.Params {
		all = append(all, strings.TrimPrefix(p.Name, n.Name+".")+" "+shape(p.Shape))
	}
	return strings.Join(all, ", ")
}

// brief shortens a list of equal numbers to one of them.
func brief(value any) any {
	switch v := value.(type) {
	case []float32:
		return first(v, value)
	case []int:
		return first(v, value)
	}
	return value
}

func first[T comparable](list []T, otherwise any) any {
	for _, v := range list {
		if v != list[0] {
			return otherwise
		}
	}
	if len(list) == 0 {
		return otherwise
	}
	return list[0]
}
