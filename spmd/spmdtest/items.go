package spmdtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// items returns the cases that test the contents of items, and their allocations.
func items() []Case {
	return []Case{
		{"layouts may change from item to item", layouts},
		{"an item does not allocate", noAllocationPerItem},
	}
}

// various returns layouts of items: a single number, no fields, several types, empty tensors, and the
// largest size.
func various() []*tensor.Layout {
	return []*tensor.Layout{
		number,
		tensor.NewLayout(),
		tensor.NewLayout(tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{2, 3}},
			tensor.Field{Name: "action", DType: tensor.I32, Shape: []int{2}}),
		tensor.NewLayout(tensor.Field{Name: "scalar", DType: tensor.F64}, tensor.Field{Name: "none", DType: tensor.BF16,
			Shape: []int{0, 5}}),
		tensor.NewLayout(tensor.Field{Name: strings.Repeat("long", 60), DType: tensor.U8, Shape: []int{256}}),
	}
}

func layouts(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from = s.from[:1]
		for _, key := range kinds {
			sc, err := stage(w, "layouts", s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				if err != nil {
					return err
				}
				return putVarious(ctx, snd)
			}, func(ctx context.Context, m *spmd.Member) error {
				if m.Index() != 0 {
					return nil
				}
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				return getVarious(ctx, rcv)
			})
			if err != nil {
				return fmt.Errorf("key %v: %w", key, err)
			}
		}
		return nil
	})
}

// putVarious puts items of every layout, and checks that Take rejects a layout that is too large.
func putVarious(ctx context.Context, snd *spmd.Sender) error {
	all := various()
	for i := range 10 * len(all) {
		it, err := snd.Take(ctx, all[i/2%len(all)])
		if err != nil {
			return err
		}
		for k := range it.Dict.Len() {
			_, t := it.Dict.Entry(k)
			fill(t.Bytes(), i+k)
		}
		if err := snd.Put(ctx, it); err != nil {
			return err
		}
	}
	_, err := snd.Take(ctx, tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.U8, Shape: []int{257}}))
	if err == nil {
		return errors.New("an item larger than ItemBytes was taken")
	}
	return nil
}

func getVarious(ctx context.Context, rcv *spmd.Receiver) error {
	all := various()
	for i := range 10 * len(all) {
		it, err := rcv.Get(ctx)
		if err != nil {
			return err
		}
		fields := all[i/2%len(all)].Fields()
		if it.Dict.Len() != len(fields) {
			return fmt.Errorf("item %d is %v", i, it.Dict)
		}
		for k, f := range fields {
			name, t := it.Dict.Entry(k)
			if name != f.Name || t.DType() != f.DType || !slices.Equal(t.Shape(), f.Shape) {
				return fmt.Errorf("item %d: %s is %v, want %+v", i, name, t, f)
			}
			if err := check(t.Bytes(), i+k); err != nil {
				return fmt.Errorf("item %d: %s: %w", i, name, err)
			}
		}
		rcv.Release(it)
	}
	return nil
}

func noAllocationPerItem(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from = s.from[:2]
		for _, key := range kinds {
			sc, err := stage(w, "allocation", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			const warm, items = 500, 4500 // totals of both producers
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < items/2 && err == nil; i++ {
					err = put(ctx, snd, i, 0)
				}
				return err
			}, func(ctx context.Context, m *spmd.Member) error {
				if m.Index() != 0 {
					return nil
				}
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				var before, after runtime.MemStats
				for i := range items {
					if i == warm {
						runtime.ReadMemStats(&before)
					}
					if _, _, err := get(ctx, rcv); err != nil {
						return err
					}
				}
				runtime.ReadMemStats(&after)
				// the runtime allocates a few hundred objects per processor for waiting goroutines
				if got := after.Mallocs - before.Mallocs; got > (items-warm)*2/3 {
					return fmt.Errorf("%d items allocated %d times", items-warm, got)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("key %v: %w", key, err)
			}
		}
		return nil
	})
}
