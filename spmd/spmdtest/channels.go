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

// channels: the semantics of RLinf's channels, and that they hold between any two ranks.
func channels() []Case {
	return []Case{
		{"a key keeps the order of 1000 items", oneKey},
		{"1000 keys are apart and in order", manyKeys},
		{"consumers share a key: nothing is lost, doubled or overtaken", sharedKey},
		{"every producer sends to every consumer", privateKeys},
		{"GetBatch takes items by weight", batches},
		{"Len, Empty, Full, Peek and the calls that do not wait", lengths},
		{"a key closes when all its producers have", closing},
		{"a consumer that holds items takes more", holding},
		{"a stalled consumer keeps its producer's memory flat", stalled},
		{"layouts may change from item to item", layouts},
		{"an item does not allocate", noAllocationPerItem},
	}
}

// A site places a channel's ends in a world of n ranks.
type site struct {
	name     string
	from, to []int
}

// sites are within a process, between processes, and mixed, as far as n allows.
func sites(n int) []site {
	last := n - 1
	return []site{
		{"within", []int{0, 0, 0}, []int{0, 0}},
		{"between", []int{0, 0, 0}, []int{last, last}},
		{"mixed", []int{0, last, n / 2}, []int{last, 0}},
		{"spread", []int{0, 1 % n, 2 % n}, []int{3 % n, 4 % n}},
	}
}

// A scene is a channel between two groups, ready for programs to run on it.
type scene struct {
	w        *spmd.World
	from, to *spmd.Group[*spmd.Member]
	ch       *spmd.Channel
}

// stage launches the groups of a site and the channel between them. name is of the case.
func stage(w *spmd.World, name string, s site, spec spmd.ChannelSpec) (*scene, error) {
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	launched, _ := w.Calls()
	unique := fmt.Sprintf("%s %s %d", name, s.name, launched)
	from, err := spmd.Launch(w, spmd.GroupSpec{Name: unique + " from", Ranks: s.from}, self)
	if err != nil {
		return nil, err
	}
	to, err := spmd.Launch(w, spmd.GroupSpec{Name: unique + " to", Ranks: s.to}, self)
	if err != nil {
		return nil, err
	}
	spec.Name, spec.From, spec.To = unique, from.Spec(), to.Spec()
	if spec.ItemBytes == 0 {
		spec.ItemBytes = 256
	}
	ch, err := spmd.NewChannel(w, spec)
	if err != nil {
		return nil, err
	}
	return &scene{w, from, to, ch}, nil
}

// play runs the producers and the consumers at the same time; no rank goes on before all are done.
func (s *scene) play(ctx context.Context, produce, consume func(ctx context.Context, m *spmd.Member) error) error {
	void := func(f func(context.Context, *spmd.Member) error) func(context.Context, *spmd.Member) (struct{}, error) {
		return func(ctx context.Context, m *spmd.Member) (struct{}, error) { return struct{}{}, f(ctx, m) }
	}
	p := spmd.Call(s.from, ctx, "produce", void(produce))
	c := spmd.Call(s.to, ctx, "consume", void(consume))
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	if _, err := c.Wait(ctx); err != nil {
		return err
	}
	ends, err := s.w.NewComm(world(s.w), "played")
	if err != nil {
		return err
	}
	return exchange(ctx, ends)
}

// number is the layout of an item that carries one int64.
var number = tensor.NewLayout(tensor.Field{Name: "n", DType: tensor.I64, Shape: []int{1}})

func put(ctx context.Context, s *spmd.Sender, n int, weight int) error {
	it, err := s.Take(ctx, number)
	if err != nil {
		return err
	}
	it.Dict.Must("n").I64()[0] = int64(n)
	it.Lo, it.Hi, it.Version, it.Weight = n, n+1, int64(-n), weight
	return s.Put(ctx, it)
}

// get returns the number of the next item, checked against what travels beside it, and who sent it.
func get(ctx context.Context, r *spmd.Receiver) (n, from int, err error) {
	it, err := r.Get(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer r.Release(it)
	n = int(it.Dict.Must("n").I64()[0])
	if it.Dict.Len() != 1 || it.Lo != n || it.Hi != n+1 || it.Version != int64(-n) {
		return 0, 0, fmt.Errorf("item %d came as %+v", n, it)
	}
	return n, it.From, nil
}

// everywhere runs f at every site.
func everywhere(ctx context.Context, w *spmd.World, f func(ctx context.Context, w *spmd.World, s site) error) error {
	for _, s := range sites(w.Size()) {
		if err := f(ctx, w, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func oneKey(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		for _, maxSize := range []int{0, 1, 7} {
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
	const items = 10_000
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		sc, err := stage(w, "shared key", s, spmd.ChannelSpec{MaxSize: 4, Shared: true})
		if err != nil {
			return err
		}
		key := spmd.Key{To: spmd.AnyMember, Name: "k"}
		per := items / len(s.from)
		counts := make([]byte, per*len(s.from)) // of this rank's consumers, each in its own turn
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

// onceEach adds the counts of all ranks and checks that each is 1 then.
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
			const items = 300
			stages := []string{"s0", "s1"}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				for i := range items {
					for to := range s.to {
						for _, name := range stages {
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
			}, func(ctx context.Context, m *spmd.Member) error {
				next := map[string][]int{}
				for i := 0; ; i++ {
					name := stages[i%2]
					rcv, err := sc.ch.Receiver(m, spmd.Key{To: m.Index(), Name: name})
					if err != nil {
						return err
					}
					if next[name] == nil {
						next[name] = make([]int, len(s.from))
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
				for _, name := range stages {
					for from, n := range next[name] {
						if n != items {
							return fmt.Errorf("key %s: %d items from producer %d, want %d", name, n, from, items)
						}
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func batches(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[1:]
		for _, to := range []int{0, spmd.AnyMember} {
			sc, err := stage(w, "batches", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			weights := []int{1, 2, 3, 3, 7, 2, 1, 1}
			want := [][]int{{1, 2}, {3}, {3}, {7}, {2, 1}, {1}} // at most 3 in a batch, but one item is always taken
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
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}

func lengths(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		for _, to := range []int{0, spmd.AnyMember} {
			sc, err := stage(w, "lengths", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			back, err := stage(w, "lengths back", site{s.name, s.to, s.from}, spmd.ChannelSpec{})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			// The two take turns: the producer starts at the consumer's word.
			err = both(ctx, sc, back, func(ctx context.Context, snd *spmd.Sender, word *spmd.Receiver) error {
				if _, _, err := get(ctx, word); err != nil { // the consumer has seen the key empty
					return err
				}
				for i := range 2 {
					if err := put(ctx, snd, i, 0); err != nil {
						return err
					}
				}
				third, err := snd.TryTake(number) // one more may be under way
				if err != nil {
					return err
				}
				if _, err := snd.TryTake(number); !errors.Is(err, spmd.ErrFull) {
					return fmt.Errorf("take of a fourth item: %v, want ErrFull", err)
				}
				third.Dict.Must("n").I64()[0] = 2
				third.Lo, third.Hi, third.Version = 2, 3, -2
				return snd.Put(ctx, third)
			}, func(ctx context.Context, rcv *spmd.Receiver, word *spmd.Sender) error {
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
				if err := put(ctx, word, 0, 0); err != nil {
					return err
				}
				for n := 0; n < 3; runtime.Gosched() { // until all have arrived
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
			}, key)
			if err != nil {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}

// both plays one producer and one consumer, with back for what the consumer has to say to the producer.
func both(ctx context.Context, sc, back *scene, produce func(context.Context, *spmd.Sender, *spmd.Receiver) error,
	consume func(context.Context, *spmd.Receiver, *spmd.Sender) error, key spmd.Key) error {
	reply := spmd.Key{Name: "reply"}
	return sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
		snd, err := sc.ch.Sender(m, key)
		if err != nil {
			return err
		}
		rcv, err := back.ch.Receiver(back.to.Here()[0], reply)
		if err != nil {
			return err
		}
		return produce(ctx, snd, rcv)
	}, func(ctx context.Context, m *spmd.Member) error {
		rcv, err := sc.ch.Receiver(m, key)
		if err != nil {
			return err
		}
		snd, err := back.ch.Sender(back.from.Here()[0], reply)
		if err != nil {
			return err
		}
		return consume(ctx, rcv, snd)
	})
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
				switch m.Index() {
				case 0: // puts, closes, and is refused then
					snd, err := sc.ch.Sender(m, key)
					if err != nil {
						return err
					}
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
				case 1: // opens the key and never puts
					snd, err := sc.ch.Sender(m, key)
					if err != nil {
						return err
					}
					return snd.Close()
				}
				return sc.ch.Close(m) // never opened it
			}, func(ctx context.Context, m *spmd.Member) error {
				if to != spmd.AnyMember && m.Index() != to {
					return nil
				}
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				for i := 0; ; i++ {
					n, from, err := get(ctx, rcv) // waits where others are slow to close
					if errors.Is(err, spmd.ErrClosed) {
						if to != spmd.AnyMember && i != 20 {
							return fmt.Errorf("closed after %d items", i)
						}
						break
					}
					if err != nil || from != 0 || to != spmd.AnyMember && n != i {
						return fmt.Errorf("item %d: %d from %d, %v", i, n, from, err)
					}
				}
				if _, err := rcv.TryGet(ctx); !errors.Is(err, spmd.ErrClosed) {
					return fmt.Errorf("TryGet at the end: %v", err)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}

func holding(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:1], s.to[:1]
		for _, to := range []int{0, spmd.AnyMember} {
			sc, err := stage(w, "holding", s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < 60 && err == nil; i++ {
					err = put(ctx, snd, i, 0)
				}
				return err
			}, func(ctx context.Context, m *spmd.Member) error {
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
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
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
		return both(ctx, sc, back, func(ctx context.Context, snd *spmd.Sender, word *spmd.Receiver) error {
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
			for n := 0; n < maxSize+1; runtime.Gosched() { // the producer fills what there is, and stops
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

func layouts(ctx context.Context, w *spmd.World) error {
	all := []*tensor.Layout{
		number,
		tensor.NewLayout(),
		tensor.NewLayout(tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{2, 3}}, tensor.Field{Name: "action", DType: tensor.I32, Shape: []int{2}}),
		tensor.NewLayout(tensor.Field{Name: "scalar", DType: tensor.F64}, tensor.Field{Name: "none", DType: tensor.BF16, Shape: []int{0, 5}}),
		tensor.NewLayout(tensor.Field{Name: strings.Repeat("long", 60), DType: tensor.U8, Shape: []int{256}}),
	}
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		for _, to := range []int{0, spmd.AnyMember} {
			s.from, s.to = s.from[:1], s.to[:1]
			sc, err := stage(w, "layouts", s, spmd.ChannelSpec{Shared: true})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				if err != nil {
					return err
				}
				for i := range 10 * len(all) {
					it, err := snd.Take(ctx, all[i/2%len(all)]) // each twice in a row
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
				_, err = snd.Take(ctx, tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.U8, Shape: []int{257}}))
				if err == nil {
					return errors.New("an item larger than ItemBytes was taken")
				}
				return nil
			}, func(ctx context.Context, m *spmd.Member) error {
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
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
			})
			if err != nil {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}

func noAllocationPerItem(ctx context.Context, w *spmd.World) error {
	return everywhere(ctx, w, func(ctx context.Context, w *spmd.World, s site) error {
		s.from, s.to = s.from[:2], s.to[:1]
		for _, to := range []int{0, spmd.AnyMember} {
			sc, err := stage(w, "allocation", s, spmd.ChannelSpec{MaxSize: 2, Shared: true})
			if err != nil {
				return err
			}
			key := spmd.Key{To: to, Name: "k"}
			const items = 1000 // of each producer; the first half warms up
			err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
				snd, err := sc.ch.Sender(m, key)
				for i := 0; i < items && err == nil; i++ {
					err = put(ctx, snd, i, 0)
				}
				return err
			}, func(ctx context.Context, m *spmd.Member) error {
				rcv, err := sc.ch.Receiver(m, key)
				if err != nil {
					return err
				}
				var before, after runtime.MemStats
				for i := range 2 * items {
					if i == items {
						runtime.ReadMemStats(&before)
					}
					if _, _, err := get(ctx, rcv); err != nil {
						return err
					}
				}
				runtime.ReadMemStats(&after)
				if got := after.Mallocs - before.Mallocs; got > items/2 { // the runtime warms its own pools: up to 128 of what waiting takes, on each processor
					return fmt.Errorf("%d items allocated %d times", items, got)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("to %d: %w", to, err)
			}
		}
		return nil
	})
}
