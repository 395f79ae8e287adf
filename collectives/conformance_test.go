package collectives_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/collectives"

	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestConformance runs every operation by every algorithm in every type, on groups of 1 to 8 members, through shared
// memory and through messages, on one node and on several.
func TestConformance(t *testing.T) {
	members := []int{1, 2, 3, 8}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		members = []int{1, 2, 3, 4, 5, 7, 8}
	}
	if raceDetector { // the race detector makes the test ten times as long
		members = []int{3}
	}
	for _, n := range members {
		for how, wrap := range hosts {
			for _, nodes := range []int{1, 2, 3} {
				if nodes > n || nodes > 1 && nodes == n {
					continue
				}
				t.Run(fmt.Sprintf("%d members, %d nodes, %s", n, nodes, how), func(t *testing.T) {
					err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output(), VirtualNodes: nodes},
						func(ctx context.Context, w *spmd.World) error {
							made, err := collectivestest.Conformance(ctx, w, upTo(n), wrap, collectives.Options{})
							if w.Rank() == 0 {
								t.Logf("%d operations", made)
							}
							return err
						})
					test.OK(t, err)
				})
			}
		}
	}
}

// TestOrdered: all algorithms that the table may choose give the bits of the tree over members, in any order of
// arrival and on any nodes. No member sends too many messages.
func TestOrdered(t *testing.T) {
	all := map[string]int{}
	for _, c := range []struct {
		how   string
		nodes int
		ranks [][]int
	}{
		{"memory", 1, append(sizes(2, 9), upTo(17), []int{1, 0, 1}, []int{0, 0, 1, 1, 1})},
		{"messages", 1, append(sizes(1, 9), upTo(13), upTo(16), upTo(17), []int{1, 0, 1, 0}, upTo(34))},
		{"memory", 2, [][]int{upTo(4), upTo(6), upTo(8), {0, 1, 4, 5, 2, 3}, {0, 1, 4}, {1, 0, 3, 2}}},
		{"memory", 3, [][]int{upTo(3), upTo(6), upTo(12), {0, 1, 2, 3, 4}}},
		{"messages", 4, [][]int{upTo(8)}},
		{"memory", 5, [][]int{upTo(10), upTo(9)}},
	} {
		for _, ranks := range c.ranks {
			if raceDetector && len(ranks) != 3 && len(ranks) != 6 && c.nodes*len(ranks) != 7 {
				continue
			}
			n := slices.Max(ranks) + 1
			n += (c.nodes - n%c.nodes) % c.nodes
			err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output(), VirtualNodes: c.nodes},
				func(ctx context.Context, w *spmd.World) error {
					if !slices.Contains(ranks, w.Rank()) {
						return nil
					}
					made, err := collectivestest.Ordered(ctx, w, ranks, hosts[c.how])
					if w.Rank() == ranks[0] {
						for name, k := range made {
							all[name] += k
						}
					}
					return err
				})
			if err != nil {
				t.Errorf("%v by %s on %d nodes: %v", ranks, c.how, c.nodes, err)
			}
		}
	}
	t.Log(all)
	want := []string{"doubling allreduce", "hierarchical allreduce", "hierarchical reduce", "ordered allreduce",
		"ordered reduce_scatter", "rabenseifner allreduce", "rabenseifner reduce_scatter", "shared allreduce",
		"shared reduce", "shared reduce_scatter", "tree allreduce", "tree reduce"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("compared %q, want %q", got, want)
	}
}

// sizes returns the group sizes from least to most.
func sizes(least, most int) (groups [][]int) {
	for n := least; n <= most; n++ {
		groups = append(groups, upTo(n))
	}
	return groups
}

// Each byte crosses between nodes only once: 2 nodes of 4 ranks exchange 2(N-1)/N·S bytes each, spread over any of
// their ranks.
func TestBytesBetweenNodes(t *testing.T) {
	const n, nodes = 1 << 16, 2
	for algorithm, most := range map[string]int64{"hierarchical": 2 * 4 * n, "ring": 2 * 2 * 4 * n * 7 / 8} {
		var crossed, sent atomic.Int64
		err := spmd.Run(t.Context(), local.New(8), spmd.Options{Log: t.Output(), VirtualNodes: nodes},
			func(ctx context.Context, w *spmd.World) error {
				ends, err := w.NewComm(upTo(8), "traffic")
				if err != nil {
					return err
				}
				g, err := collectives.New(w, ends[0], collectives.Options{Algorithm: algorithm, Fast: true})
				if err != nil {
					return err
				}
				err = g.Run(ctx, collectives.AllReduce(make([]float32, n), spmd.Sum))
				crossed.Add(g.Traffic().BytesBetweenNodes)
				sent.Add(g.Traffic().Bytes)
				return err
			})
		test.OK(t, err)
		test.Equal(t, crossed.Load(), most, "%s: bytes crossed between nodes", algorithm)
		if algorithm == "hierarchical" && sent.Load() > crossed.Load()+100 {
			t.Errorf("%d bytes were sent, want little more than the %d between nodes: the rest is in memory",
				sent.Load(), crossed.Load())
		}
	}
}

// A vector that is longer than a message is sent in pieces.
func TestLongVectorsTravelInPieces(t *testing.T) {
	if raceDetector {
		return // nothing is concurrent here that is not in TestConformance
	}
	for _, n := range []int{2, 5} {
		err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				_, err := collectivestest.Conformance(ctx, w, upTo(n), hosts["messages"],
					collectives.Options{MaxMessage: 1 << 10})
				return err
			})
		test.OK(t, err)
	}
}
