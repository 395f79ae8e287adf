package spmdtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// channels returns the cases that test whether every item arrives once, in order and under its key.
func channels() []Case {
	return []Case{
		{"a key keeps the order of 1000 items", oneKey},
		{"1000 keys are apart and in order", manyKeys},
		{"consumers share a key: nothing is lost, doubled or overtaken", sharedKey},
		{"every producer sends to every consumer", privateKeys},
	}
}

func oneKey(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		for _, maxSize := range []int{0, 7} {
			sc, err := stage(w, "one key", s, spmd.ChannelSpec{MaxSize: maxSize})
			if err != nil {
				return err
			}
			key := spmd.Key{Name: "k"}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < 1000 && err == nil; i++ {
					err = put(ctx, snd, i, 0)
				}
				return err
			}, func(ctx context.Context, m *spmd.Member) error {
				rcv, err := sc.ch.Receiver(m, key)
				for i := 0; i < 1000 && err == nil; i++ {
					var n int
					if n, _, err = get(ctx, rcv); err == nil && n != i {
						err = fmt.Errorf("got %d, want %d", n, i)
					}
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func manyKeys(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		sc, err := stage(w, "many keys", s, spmd.ChannelSpec{MaxSize: 2})
		if err != nil {
			return err
		}
		const keys = 1000
		key := func(i int) spmd.Key { return spmd.Key{Name: fmt.Sprint("key ", i)} }
		return sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
			for i := range 2 * keys {
				snd, err := sc.ch.Sender(m, key(i%keys))
				if err != nil {
					return err
				}
				if err := put(ctx, snd, i, 0); err != nil {
					return err
				}
			}
			return nil
		}, func(ctx context.Context, m *spmd.Member) error {
			for i := range 2 * keys {
				rcv, err := sc.ch.Receiver(m, key(i%keys))
				if err != nil {
					return err
				}
				if n, _, err := get(ctx, rcv); err != nil || n != i {
					return fmt.Errorf("got %d, %v, want %d", n, err, i)
				}
			}
			return nil
		})
	})
}

func sharedKey(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		items := 1000
		if s.name == "mixed" {
			items = 10_000
		}
		sc, err := stage(w, "shared key", s, spmd.ChannelSpec{MaxSize: 4, Shared: true})
		if err != nil {
			return err
		}
		key := spmd.Key{To: spmd.AnyMember, Name: "k"}
		per := items / len(s.from)
		counts := make([]byte, per*len(s.from)) // counts[n] is the number of times that this rank got item n
		got := make(chan []int, len(s.to))
		err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
			snd, err := sc.ch.Sender(m, key)
			for i := 0; i < per && err == nil; i++ {
				err = put(ctx, snd, m.Index()*per+i, 0)
			}
			if err != nil {
				return err
			}
			return sc.ch.Close(m)
		}, func(ctx context.Context, m *spmd.Member) error {
			rcv, err := sc.ch.Receiver(m, key)
			if err != nil {
				return err
			}
			var mine []int
			last := make([]int, len(s.from))
			for {
				n, from, err := get(ctx, rcv)
				if errors.Is(err, spmd.ErrClosed) {
					got <- mine
					return nil
				}
				if err != nil {
					return err
				}
				if from != n/per || n%per < last[from] {
					return fmt.Errorf("got %d of producer %d after %d", n%per, from, last[from])
				}
				last[from] = n % per
				mine = append(mine, n)
			}
		})
		if err != nil {
			return err
		}
		close(got)
		for mine := range got {
			for _, n := range mine {
				counts[n]++
			}
		}
		return onceEach(ctx, w, counts)
	})
}

// onceEach adds the counts of all ranks and checks that each sum is 1.
func onceEach(ctx context.Context, w *spmd.World, counts []byte) error {
	ends, err := w.NewComm(world(w), "counts")
	if err != nil {
		return err
	}
	c := ends[0]
	if c.Rank() != 0 {
		r, err := c.Isend(counts, 0, 0)
		if err != nil {
			return err
		}
		return c.Wait(ctx, []spmd.Request{r})
	}
	for m := 1; m < c.Size(); m++ {
		in := make([]byte, len(counts))
		r, err := c.Irecv(in, m, 0)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{r}); err != nil {
			return err
		}
		for i := range in {
			counts[i] += in[i]
		}
	}
	for i, n := range counts {
		if n != 1 {
			return fmt.Errorf("item %d was received %d times", i, n)
		}
	}
	return nil
}

func privateKeys(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		for _, maxSize := range []int{1, 5} {
			sc, err := stage(w, "private keys", s, spmd.ChannelSpec{MaxSize: maxSize})
			if err != nil {
				return err
			}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				for i := range privateItems {
					for to := range s.to {
						for _, name := range privateStages {
							snd, err := sc.ch.Sender(m, spmd.Key{To: to, Name: name})
							if err != nil {
								return err
							}
							if err := put(ctx, snd, i*10+to, 0); err != nil {
								return err
							}
						}
					}
				}
				return sc.ch.Close(m)
			}, func(ctx context.Context, m *spmd.Member) error { return getPrivate(ctx, sc, m, len(s.from)) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// privateItems is the number of items that each producer puts into each stage of each consumer.
const privateItems = 40

var privateStages = [2]string{"s0", "s1"}

// getPrivate gets items from m's two stages in turn until both are closed. It checks that all items of each
// producer arrive, in order.
func getPrivate(ctx context.Context, sc *scene, m *spmd.Member, producers int) error {
	next := map[string][]int{} // next[stage][i] is the number of the next item from producer i
	for _, name := range privateStages {
		next[name] = make([]int, producers)
	}
	for i := 0; ; i++ {
		name := privateStages[i%2]
		rcv, err := sc.ch.Receiver(m, spmd.Key{To: m.Index(), Name: name})
		if err != nil {
			return err
		}
		n, from, err := get(ctx, rcv)
		if errors.Is(err, spmd.ErrClosed) && i%2 == 1 {
			break
		}
		if errors.Is(err, spmd.ErrClosed) {
			continue
		}
		if err != nil {
			return err
		}
		if want := next[name][from]*10 + m.Index(); n != want {
			return fmt.Errorf("key %s: got %d from producer %d, want %d", name, n, from, want)
		}
		next[name][from]++
	}
	for _, name := range privateStages {
		for from, n := range next[name] {
			if n != privateItems {
				return fmt.Errorf("key %s: %d items from producer %d, want %d", name, n, from, privateItems)
			}
		}
	}
	return nil
}
