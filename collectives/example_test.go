package collectives_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// Three ranks add their vectors. Every member makes the same calls in the same order.
func ExampleGroup() {
	main := func(ctx context.Context, w *spmd.World) error {
		ends, err := w.NewComm([]int{0, 1, 2}, "example")
		if err != nil {
			return err
		}
		g, err := collectives.New(w, ends[0], collectives.Options{})
		if err != nil {
			return err
		}
		x := []float32{1, float32(w.Rank())}
		if err := g.Run(ctx, collectives.AllReduce(x, spmd.Sum)); err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Println(x)
		}
		return nil
	}
	if err := spmd.Run(context.Background(), local.New(3), spmd.Options{}, main); err != nil {
		log.Fatal(err)
	}
	// Output: [3 3]
}
