package spmd_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected parts of testdata")

// TestPlacementScript runs testdata/placement.txt, which has blocks of commands, a line of dashes, and the expected
// output.
func TestPlacementScript(t *testing.T) {
	const file = "testdata/placement.txt"
	text := test.Must(os.ReadFile(file))(t)
	var out []string
	blocks := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		in, want, ok := strings.Cut(block, "\n----")
		if !ok { // the block is a comment
			out = append(out, block)
			continue
		}
		blocks++
		got := strings.TrimSpace(placeScript(t, in))
		out = append(out, in+"\n----\n"+got)
		if got != strings.TrimSpace(want) && !*rewrite {
			t.Errorf("%s\n---- got\n%s\n---- want\n%s", in, got, want)
		}
	}
	if blocks < 30 {
		t.Errorf("%s holds %d blocks only", file, blocks)
	}
	if *rewrite {
		test.OK(t, os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644))
	}
}

// placeScript computes the placement of a block. The default is a world of 16 ranks on 4 nodes.
func placeScript(t *testing.T, in string) string {
	t.Helper()
	nodes := worldOf(16, 4)
	var c spmd.Components
	for line := range strings.Lines(in) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "#":
		case "world": // ranks nodes
			f := numbers(t, rest)
			nodes = worldOf(f[0], f[1])
		case "num_nodes":
			c.NumNodes = numbers(t, rest)[0]
		case "idle":
			c.AllowIdleRanks = true
		case "group": // label nodes…
			label, ns, _ := strings.Cut(rest, " ")
			c.NodeGroups = append(c.NodeGroups, spmd.NodeGroup{Label: label, NodeRanks: numbers(t, ns)})
		default: // components [@group] = placement
			left, placement, ok := strings.Cut(line, "=")
			if !ok {
				t.Fatalf("no such line: %q", line)
			}
			key, group, _ := strings.Cut(left, "@")
			c.Components = append(c.Components, spmd.ComponentPlacement{
				Key: strings.TrimSpace(key), NodeGroup: strings.TrimSpace(group),
				Placement: strings.TrimSpace(placement)})
		}
	}
	p, err := spmd.Place(c, nodes)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, p.Mode())
	for _, name := range p.Components() {
		fmt.Fprintf(&b, "%s %s\n", name, runs(p.Group(name).Ranks))
	}
	return b.String()
}

// runs formats the rank of each member. A rank with n consecutive members is rank×n.
func runs(ranks []int) string {
	var words []string
	for i := 0; i < len(ranks); {
		n := 1
		for i+n < len(ranks) && ranks[i+n] == ranks[i] {
			n++
		}
		word := strconv.Itoa(ranks[i])
		if n > 1 {
			word += "×" + strconv.Itoa(n)
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, " ")
}

func numbers(t *testing.T, s string) (ns []int) {
	t.Helper()
	for f := range strings.FieldsSeq(s) {
		n := test.Must(strconv.Atoi(f))(t)
		ns = append(ns, n)
	}
	return ns
}

func worldOf(ranks, nodes int) []int {
	n := make([]int, ranks)
	for r := range n {
		n[r] = r * nodes / ranks
	}
	return n
}

func TestPlacementErrorsAreTyped(t *testing.T) {
	_, err := spmd.Place(spmd.Components{NumNodes: 2,
		Components: []spmd.ComponentPlacement{{Key: "actor", Placement: "0-9"}}}, worldOf(4, 1))
	var pe *spmd.PlacementError
	if !errors.As(err, &pe) ||
		*pe != (spmd.PlacementError{Key: "cluster.num_nodes", Value: "2",
			Want: "expected 1, the nodes of this world"}) {
		t.Errorf("got %#v", pe)
	}
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n != 2 {
		t.Errorf("%d errors, want 2: %v", n, err)
	}
}

func TestPlacementTable(t *testing.T) {
	p := test.Must(spmd.Place(spmd.Components{Components: []spmd.ComponentPlacement{{Key: "actor", Placement: "all"},
		{Key: "env", Placement: "1:0-1"}}}, worldOf(2, 2)))(t)
	if got, want := p.String(), "0 node 0: actor[0]\n1 node 1: actor[1] env[0] env[1]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !p.Has("env") || p.Has("reward") {
		t.Error("Has is wrong")
	}
}

func TestExtent(t *testing.T) {
	for _, c := range []struct {
		comps []spmd.ComponentPlacement
		ranks int
		whole bool
	}{
		{[]spmd.ComponentPlacement{{Key: "actor", Placement: "0-7"}, {Key: "env", Placement: "0-3"}}, 8, false},
		{[]spmd.ComponentPlacement{{Key: "actor", Placement: "ALL"}, {Key: "env", Placement: "0-1:0-3"}}, 2, true},
		{[]spmd.ComponentPlacement{{Key: "actor", Placement: "all:0-3"}}, 0, true},
		{[]spmd.ComponentPlacement{{Key: "env", NodeGroup: "node", Placement: "0-9"}}, 0, true},
		{[]spmd.ComponentPlacement{{Key: "env", NodeGroup: "cluster", Placement: "5"}}, 6, false},
		{[]spmd.ComponentPlacement{{Key: "env", Placement: "rubbish"}}, 0, false},
	} {
		if ranks, whole := (spmd.Components{Components: c.comps}).Extent(); ranks != c.ranks || whole != c.whole {
			t.Errorf("%+v: %d, %v, want %d, %v", c.comps, ranks, whole, c.ranks, c.whole)
		}
	}
}

// FuzzPlacement: in a placement that parses, every member is on a rank of the world, ranks ascend, and the ranks of a
// segment have equally many members.
func FuzzPlacement(f *testing.F) {
	for _, s := range []string{"all", "0-3", "0:0-3", "0-1:0-3,3-5,7-10:7-14", "0-7:0-3", "3,2", "a", "0::1", "-", "0-",
		":", "99999999999", "0:0-1048576"} {
		f.Add(s, uint8(16))
	}
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		nodes := worldOf(int(size), 1)
		p, err := spmd.Place(spmd.Components{AllowIdleRanks: true,
			Components: []spmd.ComponentPlacement{{Key: "c", Placement: s}}}, nodes)
		if err != nil {
			if strings.Contains(err.Error(), "{what}") {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		ranks := p.Group("c").Ranks
		if len(ranks) == 0 || !slices.IsSorted(ranks) || ranks[0] < 0 || ranks[len(ranks)-1] >= int(size) {
			t.Errorf("%q in a world of %d: %v", s, size, ranks)
		}
	})
}
