package spmd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// adder is a worker.
type adder struct{ m *spmd.Member }

func newAdder(m *spmd.Member) (*adder, error) { return &adder{m}, nil }

// Add is a method that a group calls on all its members.
func (a *adder) Add(_ context.Context, x int) (int, error) { return x + a.m.Index(), nil }

// Four ranks, as goroutines of this process, launch a group on three of them and call it.
func ExampleRun() {
	main := func(ctx context.Context, w *spmd.World) error {
		group, err := spmd.Launch(w, spmd.GroupSpec{Name: "adder", Ranks: []int{1, 2, 3}}, newAdder)
		if err != nil {
			return err
		}
		call := spmd.Call(group, ctx, "add", func(ctx context.Context, a *adder) (int, error) { return a.Add(ctx, 10) })
		results, err := call.Wait(ctx) // those of this rank's members
		for _, r := range results {
			if r.Member == 2 {
				fmt.Printf("member %d says %d\n", r.Member, r.Value)
			}
		}
		return err
	}
	if err := spmd.Run(context.Background(), local.New(4), spmd.Options{}, main); err != nil {
		log.Fatal(err)
	}
	// Output: member 2 says 12
}
