package spmd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
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

// A producer sends three items to a consumer, who takes them in order. The queue holds one, so the
// producer waits for the consumer.
func ExampleChannel() {
	layout := tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.F32, Shape: []int{2}})
	key := spmd.Key{To: 0, Name: "numbers"}
	produce := func(ctx context.Context, c *spmd.Channel, m *spmd.Member) error {
		s, err := c.Sender(m, key)
		if err != nil {
			return err
		}
		for i := range 3 {
			item, err := s.Take(ctx, layout) // waits until the queue has room
			if err != nil {
				return err
			}
			copy(item.Dict.Must("x").F32(), []float32{float32(i), float32(i * i)})
			if err := s.Put(ctx, item); err != nil {
				return err
			}
		}
		return s.Close()
	}
	consume := func(ctx context.Context, c *spmd.Channel, m *spmd.Member) error {
		r, err := c.Receiver(m, key)
		if err != nil {
			return err
		}
		for range 3 {
			item, err := r.Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println(item.Dict.Must("x").F32())
			r.Release(item) // its memory goes back
		}
		return nil
	}
	main := func(ctx context.Context, w *spmd.World) error {
		self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
		from, err := spmd.Launch(w, spmd.GroupSpec{Name: "producer", Ranks: []int{0}}, self)
		if err != nil {
			return err
		}
		to, err := spmd.Launch(w, spmd.GroupSpec{Name: "consumer", Ranks: []int{1}}, self)
		if err != nil {
			return err
		}
		c, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "numbers", From: from.Spec(), To: to.Spec(),
			ItemBytes: layout.Size()})
		if err != nil {
			return err
		}
		type none struct{}
		put := spmd.Call(from, ctx, "produce", func(ctx context.Context, m *spmd.Member) (none, error) {
			return none{}, produce(ctx, c, m)
		})
		get := spmd.Call(to, ctx, "consume", func(ctx context.Context, m *spmd.Member) (none, error) {
			return none{}, consume(ctx, c, m)
		})
		if _, err := put.Wait(ctx); err != nil {
			return err
		}
		_, err = get.Wait(ctx)
		return err
	}
	if err := spmd.Run(context.Background(), local.New(2), spmd.Options{}, main); err != nil {
		log.Fatal(err)
	}
	// Output:
	// [0 0]
	// [1 1]
	// [2 4]
}
