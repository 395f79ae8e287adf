package spmd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// A producer sends three items to a consumer, which takes them in order. The queue holds one item, so the
// producer waits for the consumer.
func ExampleChannel() {
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
		layout := tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.F32, Shape: []int{2}})
		c, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "numbers", From: from.Spec(), To: to.Spec(),
			ItemBytes: layout.Size()})
		if err != nil {
			return err
		}
		put := spmd.Call(from, ctx, "produce", func(ctx context.Context, m *spmd.Member) (int, error) {
			return produce(ctx, m, c, layout)
		})
		get := spmd.Call(to, ctx, "consume", func(ctx context.Context, m *spmd.Member) (int, error) {
			return consume(ctx, m, c)
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

// produce puts three items under one key of c, and returns their number.
func produce(ctx context.Context, m *spmd.Member, c *spmd.Channel, layout *tensor.Layout) (int, error) {
	s, err := c.Sender(m, spmd.Key{To: 0, Name: "numbers"})
	if err != nil {
		return 0, err
	}
	for i := range 3 {
		item, err := s.Take(ctx, layout) // waits until the queue has room
		if err != nil {
			return i, err
		}
		copy(item.Dict.Must("x").F32(), []float32{float32(i), float32(i * i)})
		if err := s.Put(ctx, item); err != nil {
			return i, err
		}
	}
	return 3, s.Close()
}

// consume prints the items of that key until the producer has closed it, and returns their number.
func consume(ctx context.Context, m *spmd.Member, c *spmd.Channel) (n int, err error) {
	r, err := c.Receiver(m, spmd.Key{To: 0, Name: "numbers"})
	if err != nil {
		return 0, err
	}
	for {
		item, err := r.Get(ctx)
		if errors.Is(err, spmd.ErrClosed) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		fmt.Println(item.Dict.Must("x").F32())
		r.Release(item) // the producer may use its memory again
		n++
	}
}
