package spmdtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// A Case tests one property of a transport. Run is called on every rank and returns the rank's error. If
// the error is spmd.Again, Run is called again in the next world.
type Case struct {
	Name string
	Run  func(ctx context.Context, w *spmd.World) error
}

// Cases returns the whole suite, for any number of ranks.
func Cases() []Case {
	return slices.Concat(messages(), requests(), communicators(), axes(), channels(), queues(), items(), direct(),
		shared(), recording(), worlds())
}

// Run runs every case in worlds of 1, 2, 3, 4, 5 and 8 ranks, or of 3 and 8 ranks with -short. newWorld
// makes a world of n ranks and returns their transports.
func Run(t *testing.T, newWorld func(n int) []spmd.Transport) {
	sizes := []int{1, 2, 3, 4, 5, 8}
	if testing.Short() {
		sizes = []int{3, 8}
	}
	for _, n := range sizes {
		for _, c := range Cases() {
			t.Run(fmt.Sprintf("%s/%d", c.Name, n), func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute,
					fmt.Errorf("hangs: a minute has passed"))
				defer cancel()
				if err := spmd.Run(ctx, newWorld(n), spmd.Options{Log: t.Output(), Debug: true}, c.Run); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// world returns all ranks of w, in order.
func world(w *spmd.World) []int {
	all := make([]int, w.Size())
	for r := range all {
		all[r] = r
	}
	return all
}

// uneven returns the ranks of a group with 1 + r mod 3 members on each rank r. If there are several ranks, the members
// of a rank do not have consecutive numbers.
func uneven(w *spmd.World) []int {
	var ranks []int
	for round := range 3 {
		for r := range w.Size() {
			if round <= r%3 {
				ranks = append(ranks, r)
			}
		}
	}
	return ranks
}

// fill fills b with a pattern that depends on seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*31 + i>>8 + seed*101)
	}
}

// check returns an error if b differs from the pattern of seed.
func check(b []byte, seed int) error {
	for i := range b {
		if want := byte(i*31 + i>>8 + seed*101); b[i] != want {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, len(b), b[i], want)
		}
	}
	return nil
}
