package spmdtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// queues returns the cases that test the capacity of keys, the methods that take items, and the end of a key.
func queues() []Case {
	return []Case{
		{"GetBatch takes items by weight", batches},
		{"Len, Empty, Full, Peek and the calls that do not wait", lengths},
		{"a key closes when all its producers have", closing},
		{"a consumer that holds items takes more", holding},
		{"the first item of a key waits for nobody", opening},
		{"a stalled consumer keeps its producer's memory flat", stalled},
	}
}

func batches(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from = s.from[:1]
		for _, key := range kinds {
			sc, err := stage(w, "batches", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			weights := []int{1, 2, 3, 3, 7, 2, 1, 1}
			want := [][]int{{1, 2}, {3}, {3}, {7}, {2, 1}, {1}} // a batch has one item, or a total weight of at most 3
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < len(weights) && err == nil; i++ {
					err = put(ctx, snd, i, weights[i])
				}
				if err != nil {
					return err
				}
				return sc.ch.Close(m)
			}, func(ctx context.Context, m *spmd.Member) error {
				if m.Index() != 0 {
					return nil
				}
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				for _, want := range want {
					batch, err := rcv.GetBatch(ctx, 3)
					if err != nil {
						return err
					}
					var got []int
					for _, it := range batch {
						got = append(got, it.Weight)
						rcv.Release(it)
					}
					if !slices.Equal(got, want) {
						return fmt.Errorf("a batch of weights %v, want %v", got, want)
					}
				}
				if batch, err := rcv.GetBatch(ctx, 3); len(batch) > 0 || !errors.Is(err, spmd.ErrClosed) {
					return fmt.Errorf("%d items and %v after the end", len(batch), err)
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

func lengths(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from = s.from[:1]
		for _, key := range kinds {
			sc, err := stage(w, "lengths", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			back, err := stage(w, "lengths back", site{s.name, s.to, s.from}, spmd.ChannelSpec{})
			if err != nil {
				return err
			}
			// The members take turns: the producer starts when the consumer's message arrives.
			consume := func(ctx context.Context, rcv *spmd.Receiver, word *spmd.Sender) error {
				if err := seesNothing(ctx, rcv); err != nil {
					return err
				}
				if err := put(ctx, word, 0, 0); err != nil {
					return err
				}
				return seesThree(ctx, rcv, key)
			}
			if err := playPair(ctx, sc, back, fillsTheKey, consume, key); err != nil {
				return fmt.Errorf("key %v: %w", key, err)
			}
		}
		return nil
	})
}

// fillsTheKey puts three items under a key with MaxSize 2, because one more item may be in transit. It
// checks that the key has no room for a fourth item.
func fillsTheKey(ctx context.Context, snd *spmd.Sender, word *spmd.Receiver) error {
	if _, _, err := get(ctx, word); err != nil { // the consumer has seen the empty key
		return err
	}
	for i := range 2 {
		if err := put(ctx, snd, i, 0); err != nil {
			return err
		}
	}
	third, err := snd.TryTake(number) // fails until the owner's credit arrives
	for errors.Is(err, spmd.ErrFull) && ctx.Err() == nil {
		runtime.Gosched()
		third, err = snd.TryTake(number)
	}
	if err != nil {
		return err
	}
	if _, err := snd.TryTake(number); !errors.Is(err, spmd.ErrFull) {
		return fmt.Errorf("take of a fourth item: %v, want ErrFull", err)
	}
	third.Dict.Must("n").I64()[0] = 2
	third.Lo, third.Hi, third.Version = 2, 3, -2
	return snd.Put(ctx, third)
}

func seesNothing(ctx context.Context, rcv *spmd.Receiver) error {
	empty, err := rcv.Empty(ctx)
	if err != nil || !empty {
		return fmt.Errorf("at first: empty %v, %v", empty, err)
	}
	if full, err := rcv.Full(ctx); err != nil || full {
		return fmt.Errorf("at first: full %v, %v", full, err)
	}
	if _, err := rcv.TryGet(ctx); !errors.Is(err, spmd.ErrEmpty) {
		return fmt.Errorf("TryGet of nothing: %v", err)
	}
	if _, err := rcv.Peek(ctx); !errors.Is(err, spmd.ErrEmpty) {
		return fmt.Errorf("a peek at nothing: %v", err)
	}
	return nil
}

// seesThree waits for three items. If the consumer owns the key, Peek must show the first item's data.
func seesThree(ctx context.Context, rcv *spmd.Receiver, key spmd.Key) (err error) {
	for n := 0; n < 3; runtime.Gosched() { // until three have arrived
		if n, err = rcv.Len(ctx); err != nil {
			return err
		}
	}
	if full, err := rcv.Full(ctx); err != nil || !full {
		return fmt.Errorf("with three items: full %v, %v", full, err)
	}
	first, err := rcv.Peek(ctx)
	if err != nil || first.Hi != 1 || (first.Dict.Len() == 1) != (key.To == 0) {
		return fmt.Errorf("peek: %+v, %v", first, err)
	}
	for i := range 3 {
		it, err := rcv.TryGet(ctx)
		if err != nil || it.Lo != i || it.Dict.Must("n").I64()[0] != int64(i) {
			return fmt.Errorf("item %d: %+v, %v", i, it, err)
		}
		rcv.Release(it)
	}
	return nil
}

func closing(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		for _, to := range []int{1, spmd.AnyMember} {
			sc, err := stage(w, "closing", s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				if m.Index() > 1 {
					return sc.ch.Close(m) // without having opened the key
				}
				snd, err := sc.ch.Sender(m, key)
				if err != nil {
					return err
				}
				if m.Index() == 1 {
					return snd.Close() // opens the key, but puts nothing
				}
				return putsAndCloses(ctx, snd)
			}, func(ctx context.Context, m *spmd.Member) error {
				if to != spmd.AnyMember && m.Index() != to {
					return nil
				}
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				return getsUntilClosed(ctx, rcv, to == spmd.AnyMember)
			})
			if err != nil {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}

// putsAndCloses puts 20 items and closes. Later puts must fail.
func putsAndCloses(ctx context.Context, snd *spmd.Sender) error {
	for i := range 20 {
		if err := put(ctx, snd, i, 0); err != nil {
			return err
		}
	}
	if err := snd.Close(); err != nil {
		return err
	}
	if _, err := snd.Take(ctx, number); !errors.Is(err, spmd.ErrClosed) {
		return fmt.Errorf("take after close: %v", err)
	}
	return snd.Close()
}

// getsUntilClosed gets the 20 items of producer 0. If consumers share the key, it gets some of these items.
func getsUntilClosed(ctx context.Context, rcv *spmd.Receiver, shared bool) error {
	for i := 0; ; i++ {
		n, from, err := get(ctx, rcv) // may wait for slow members to close
		if errors.Is(err, spmd.ErrClosed) {
			if !shared && i != 20 {
				return fmt.Errorf("closed after %d items", i)
			}
			break
		}
		if err != nil || from != 0 || !shared && n != i {
			return fmt.Errorf("item %d: %d from %d, %v", i, n, from, err)
		}
	}
	if _, err := rcv.TryGet(ctx); !errors.Is(err, spmd.ErrClosed) {
		return fmt.Errorf("TryGet at the end: %v", err)
	}
	return nil
}

func holding(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from = s.from[:1]
		for _, key := range kinds {
			sc, err := stage(w, "holding", s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < 60 && err == nil; i++ {
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
				var held []*spmd.Item
				for i := range 60 {
					it, err := rcv.Get(ctx)
					if err != nil {
						return err
					}
					held = append(held, it)
					if len(held) == 20 {
						for k, it := range held {
							if n := it.Dict.Must("n").I64()[0]; int(n) != i-19+k {
								return fmt.Errorf("held item %d became %d", i-19+k, n)
							}
							rcv.Release(it)
						}
						held = held[:0]
					}
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

// opening lets two members open keys to each other. A member must be able to open a key even while the other member
// opens a key and handles no messages.
func opening(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		there, err := stage(w, "opening", s, spmd.ChannelSpec{})
		if err != nil {
			return err
		}
		back, err := stage(w, "opening back", site{s.name, s.to, s.from}, spmd.ChannelSpec{})
		if err != nil {
			return err
		}
		ends := map[int]spmd.Comm{} // for the nod after the first Get
		if w.Rank() == s.from[0] || w.Rank() == s.to[0] {
			mine, err := w.NewComm([]int{s.from[0], s.to[0]}, "opening past")
			if err != nil {
				return err
			}
			for _, c := range mine {
				ends[c.Rank()] = c
			}
		}
		return there.play(ctx, func(ctx context.Context, m *spmd.Member) error {
			return opensTwo(ctx, m, there, back, ends[0])
		}, func(ctx context.Context, m *spmd.Member) error {
			return opensOne(ctx, m, there, back, ends[1])
		})
	})
}

// opensTwo puts an item under a first key, waits for the other member's nod, and puts an item under a second key. Then
// it gets an item.
func opensTwo(ctx context.Context, m *spmd.Member, there, back *scene, end spmd.Comm) error {
	for n := range 2 {
		snd, err := there.ch.Sender(m, spmd.Key{Name: fmt.Sprint(n)})
		if err != nil {
			return err
		}
		if err := put(ctx, snd, n, 0); err != nil {
			return err
		}
		if n == 0 {
			if err := nod(ctx, end, false); err != nil {
				return err
			}
		}
	}
	rcv, err := back.ch.Receiver(back.to.Here()[0], spmd.Key{Name: "back"})
	if err != nil {
		return err
	}
	return expect(ctx, rcv, 7)
}

// opensOne gets an item of the first key, puts an item, and gets an item of the second key.
func opensOne(ctx context.Context, m *spmd.Member, there, back *scene, end spmd.Comm) error {
	for n := range 2 {
		rcv, err := there.ch.Receiver(m, spmd.Key{Name: fmt.Sprint(n)})
		if err != nil {
			return err
		}
		if err := expect(ctx, rcv, n); err != nil || n == 1 {
			return err
		}
		if err := nod(ctx, end, true); err != nil {
			return err
		}
		snd, err := back.ch.Sender(back.from.Here()[0], spmd.Key{Name: "back"})
		if err != nil {
			return err
		}
		if err := put(ctx, snd, 7, 0); err != nil {
			return err
		}
	}
	return nil
}

// nod sends an empty message to the other member if send is true. Otherwise it receives an empty message.
func nod(ctx context.Context, c spmd.Comm, send bool) error {
	post := c.Irecv
	if send {
		post = c.Isend
	}
	r, err := post(nil, 1-c.Rank(), 0)
	if err != nil {
		return err
	}
	return c.Wait(ctx, []spmd.Request{r})
}

func expect(ctx context.Context, r *spmd.Receiver, want int) error {
	if n, _, err := get(ctx, r); err != nil || n != want {
		return fmt.Errorf("got %d, %v, want %d", n, err, want)
	}
	return nil
}

func stalled(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		const maxSize, bytes = 3, 200_000
		big := tensor.NewLayout(tensor.Field{Name: "frame", DType: tensor.U8, Shape: []int{bytes}})
		sc, err := stage(w, "stalled", s, spmd.ChannelSpec{MaxSize: maxSize, ItemBytes: big.Size()})
		if err != nil {
			return err
		}
		back, err := stage(w, "stalled back", site{s.name, s.to, s.from}, spmd.ChannelSpec{})
		if err != nil {
			return err
		}
		return playPair(ctx, sc, back, func(ctx context.Context, snd *spmd.Sender, word *spmd.Receiver) error {
			if _, _, err := get(ctx, word); err != nil {
				return err
			}
			for sent := range 40 {
				it, err := snd.Take(ctx, big)
				if err != nil {
					return err
				}
				fill(it.Dict.Must("frame").U8(), sent)
				if err := snd.Put(ctx, it); err != nil {
					return err
				}
			}
			return nil
		}, func(ctx context.Context, rcv *spmd.Receiver, word *spmd.Sender) error {
			if err := put(ctx, word, 0, 0); err != nil {
				return err
			}
			for n := 0; n < maxSize+1; runtime.Gosched() { // until the producer has used all credits
				var err error
				if n, err = rcv.Len(ctx); err != nil {
					return err
				}
			}
			for range 100 {
				if n, err := rcv.Len(ctx); err != nil || n != maxSize+1 {
					return fmt.Errorf("%d items queued, %v, want %d", n, err, maxSize+1)
				}
				runtime.Gosched()
			}
			for i := range 40 {
				it, err := rcv.Get(ctx)
				if err != nil {
					return err
				}
				if err := check(it.Dict.Must("frame").U8(), i); err != nil {
					return fmt.Errorf("item %d: %w", i, err)
				}
				rcv.Release(it)
			}
			return nil
		}, spmd.Key{Name: "k"})
	})
}
