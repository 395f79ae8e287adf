package collectives_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/collectives"

	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// Every operation by every algorithm in every type, on groups of 1 to 8, by shared memory and by messages, on one node
// and on several.
func TestConformance(t *testing.T) {
	members := []int{1, 2, 3, 8}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		members = []int{1, 2, 3, 4, 5, 7, 8}
	}
	if raceDetector { // which makes it ten times as long
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
					if err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// TestOrdered: reductions in member order have the same bits 100 times, in any order of arrival.
func TestOrdered(t *testing.T) {
	for how, wrap := range hosts {
		for _, ranks := range [][]int{{1, 0, 1}, {0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}} {
			if raceDetector && len(ranks) != 3 {
				continue
			}
			err := spmd.Run(t.Context(), local.New(slices.Max(ranks)+1), spmd.Options{Log: t.Output()},
				func(ctx context.Context, w *spmd.World) error {
					return collectivestest.Ordered(ctx, w, ranks, wrap)
				})
			if err != nil {
				t.Errorf("%v by %s: %v", ranks, how, err)
			}
		}
	}
}

// The hierarchy lets each byte cross between nodes once: 2 nodes of 4 exchange 2(N-1)/N·S bytes each, on any of their
// ranks.
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
		if err != nil {
			t.Fatal(err)
		}
		if crossed.Load() != most {
			t.Errorf("%s: %d bytes crossed between nodes, want %d", algorithm, crossed.Load(), most)
		}
		if algorithm == "hierarchical" && sent.Load() > crossed.Load()+100 {
			t.Errorf("%d bytes were sent, want little more than the %d between nodes: the rest is in memory",
				sent.Load(), crossed.Load())
		}
	}
}

// A vector longer than a message travels in pieces.
func TestLongVectorsTravelInPieces(t *testing.T) {
	if raceDetector {
		return // nothing runs side by side here that does not in TestConformance
	}
	for _, n := range []int{2, 5} {
		err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				_, err := collectivestest.Conformance(ctx, w, upTo(n), hosts["messages"],
					collectives.Options{MaxMessage: 1 << 10})
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
	}
}
