package spmd_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

var pair = tensor.NewLayout(tensor.Field{Name: "x", DType: tensor.F32, Shape: []int{2}})

func self(m *spmd.Member) (*spmd.Member, error) { return m, nil }

// talk returns a program with a channel from a member on rank 0 to members on other ranks. It runs produce, and
// consume on the first of these, at the same time.
func talk(to []int, spec spmd.ChannelSpec, key spmd.Key, produce func(context.Context, *spmd.Sender) error,
	consume func(context.Context, *spmd.Receiver) error) func(context.Context, *spmd.World) error {
	return func(ctx context.Context, w *spmd.World) error {
		a, err := spmd.Launch(w, spmd.GroupSpec{Name: "env", Ranks: []int{0}}, self)
		if err != nil {
			return err
		}
		b, err := spmd.Launch(w, spmd.GroupSpec{Name: "rollout", Ranks: to}, self)
		if err != nil {
			return err
		}
		spec := spec // a copy for each rank
		spec.Name, spec.From, spec.To, spec.ItemBytes = "obs", a.Spec(), b.Spec(), pair.Size()
		ch, err := spmd.NewChannel(w, spec)
		if err != nil {
			return err
		}
		f := spmd.Call(a, ctx, "produce", func(ctx context.Context, m *spmd.Member) (int, error) {
			s, err := ch.Sender(m, key)
			if err != nil {
				return 0, err
			}
			return 0, produce(ctx, s)
		})
		g := spmd.Call(b.ExecuteOn(0), ctx, "consume", func(ctx context.Context, m *spmd.Member) (int, error) {
			r, err := ch.Receiver(m, key)
			if err != nil {
				return 0, err
			}
			return 0, consume(ctx, r)
		})
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
		_, err = g.Wait(ctx)
		return err
	}
}

// keys are the kinds of keys. The last two are shared: one is owned by the consumer's process, the other by another
// process.
var keys = []struct {
	name string
	to   []int
	key  spmd.Key
}{
	{"private, within a process", []int{0}, spmd.Key{Name: "k"}},
	{"private, between processes", []int{1}, spmd.Key{Name: "k"}},
	{"shared, within a process", []int{0}, spmd.Key{To: spmd.AnyMember, Name: "k"}},
	{"shared, between processes", []int{1}, spmd.Key{To: spmd.AnyMember, Name: "k"}},
	{"shared by two processes", []int{1, 0}, spmd.Key{To: spmd.AnyMember, Name: "k"}},
	{"shared by two other processes", []int{1, 0}, spmd.Key{To: spmd.AnyMember, Name: "l"}},
}

func TestUseAfterPutIsCaught(t *testing.T) {
	for _, k := range keys {
		for _, c := range []struct {
			name   string
			misuse func(ctx context.Context, s *spmd.Sender, it *spmd.Item, x []float32) error
			want   string
		}{
			{"a tensor is written", func(ctx context.Context, s *spmd.Sender, _ *spmd.Item, x []float32) error {
				x[1] = 7
				_, err := s.Take(ctx, pair)
				return err
			}, "take: an item was written after its Put"},
			{"the item is put again", func(ctx context.Context, s *spmd.Sender, it *spmd.Item, _ []float32) error {
				return s.Put(ctx, it)
			}, "put: it was not taken from this sender, or was put already"},
			{"the item is read", func(_ context.Context, _ *spmd.Sender, it *spmd.Item, x []float32) error {
				if !math.IsNaN(float64(x[0])) {
					return fmt.Errorf("it reads %v", x)
				}
				it.Dict.Must("x")
				return nil
			}, `panic: tensor: no "x" among []`},
		} {
			t.Run(k.name+"/"+c.name, func(t *testing.T) {
				f, _ := fail(t, 2, spmd.Options{Debug: true},
					talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
						it, err := s.Take(ctx, pair)
						if err != nil {
							return err
						}
						x := it.Dict.Must("x").F32()
						x[0], x[1] = 1, 2
						if err := s.Put(ctx, it); err != nil {
							return err
						}
						return c.misuse(ctx, s, it, x)
					}, func(ctx context.Context, r *spmd.Receiver) error {
						it, err := r.Get(ctx)
						if err != nil {
							return err
						}
						if x := it.Dict.Must("x").F32(); x[0] != 1 || x[1] != 2 {
							return fmt.Errorf("the item came as %v", x)
						}
						r.Release(it)
						<-ctx.Done()
						return nil
					}))
				if !strings.HasSuffix(f.Error(), c.want) || f.Component != "env" {
					t.Errorf("got %q, want …%q", f, c.want)
				}
			})
		}
	}
}

func TestUseAfterReleaseIsCaught(t *testing.T) {
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			const items = 20
			produce := func(ctx context.Context, s *spmd.Sender) error {
				for range items {
					it, err := s.Take(ctx, pair)
					if err != nil {
						return err
					}
					if err := s.Put(ctx, it); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			}
			written := func(ctx context.Context, r *spmd.Receiver) error {
				for range items {
					it, err := r.Get(ctx)
					if err != nil {
						return err
					}
					x := it.Dict.Must("x").F32()
					r.Release(it)
					x[0] = 3
				}
				return errors.New("nobody noticed")
			}
			if raceDetector { // the race detector reports these two itself
				return
			}
			f, _ := fail(t, 2, spmd.Options{Debug: true}, talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, produce,
				written))
			if !strings.Contains(f.Error(), "an item was written after its release") {
				t.Errorf("got %q", f)
			}
			f, _ = fail(t, 2, spmd.Options{}, talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, produce,
				func(ctx context.Context, r *spmd.Receiver) error {
					it, err := r.Get(ctx)
					if err != nil {
						return err
					}
					r.Release(it)
					r.Release(it)
					return nil
				}))
			if !strings.Contains(f.Error(), "release of an item that is not held") {
				t.Errorf("got %q", f)
			}
		})
	}
}

// A Get that its caller gives up takes no item. The next Get returns the item that came in between.
func TestGetGivenUp(t *testing.T) {
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			given := make(chan struct{})
			enough := errors.New("enough")
			run(t, 2,
				talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
					<-given
					for i := range 5 {
						it, err := s.Take(ctx, pair)
						if err != nil {
							return err
						}
						it.Lo, it.Weight = i, 10
						if err := s.Put(ctx, it); err != nil {
							return err
						}
					}
					return s.Close()
				}, func(ctx context.Context, r *spmd.Receiver) error {
					short, cancel := context.WithCancelCause(ctx)
					cancel(enough)
					for range 3 {
						if _, err := r.Get(short); !errors.Is(err, enough) {
							return fmt.Errorf("a get that was given up returned %v", err)
						}
					}
					if _, err := r.TryGet(ctx); !errors.Is(err, spmd.ErrEmpty) {
						return fmt.Errorf("TryGet returned %v", err)
					}
					close(given)
					for i := range 5 {
						batch, err := r.GetBatch(ctx, 15) // with the second item the batch would weigh too much
						if err != nil || len(batch) != 1 || batch[0].Lo != i {
							return fmt.Errorf("batch %d has %d items, %v", i, len(batch), err)
						}
						r.Release(batch[0])
					}
					if _, err := r.Get(ctx); !errors.Is(err, spmd.ErrClosed) {
						return fmt.Errorf("at the end: %v", err)
					}
					return nil
				}))
		})
	}
}

// A batch that its caller gives up keeps its items, and the pending request does not disturb the next batch.
func TestBatchGivenUp(t *testing.T) {
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			more := make(chan struct{})
			enough := errors.New("enough")
			run(t, 2,
				talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
					for i := range 2 {
						it, err := s.Take(ctx, pair)
						if err != nil {
							return err
						}
						it.Lo, it.Weight = i, 10
						if err := s.Put(ctx, it); err != nil {
							return err
						}
						<-more
					}
					return nil
				}, func(ctx context.Context, r *spmd.Receiver) error {
					var batch []*spmd.Item
					for len(batch) == 0 { // try again if the batch was given up before the first item came
						short, cancel := context.WithCancelCause(ctx)
						go func() {
							for range 1000 {
								runtime.Gosched()
							}
							cancel(enough)
						}()
						var err error
						if batch, err = r.GetBatch(short, 15); !errors.Is(err, enough) {
							return fmt.Errorf("a batch that was given up has %d items and error %v", len(batch), err)
						}
					}
					close(more)
					second, err := r.Get(ctx) // an item that weighs more than the batch had room for
					if err != nil {
						return err
					}
					if batch[0].Lo != 0 || second.Lo != 1 {
						return fmt.Errorf("got items %d and %d", batch[0].Lo, second.Lo)
					}
					r.Release(batch[0])
					r.Release(second)
					return nil
				}))
		})
	}
}

// A producer in another process gets its turn although one in this process never lets the key become empty.
func TestNobodyStarves(t *testing.T) {
	run(t, 2, func(ctx context.Context, w *spmd.World) error {
		from, err := spmd.Launch(w, spmd.GroupSpec{Name: "from", Ranks: []int{0, 1}}, self)
		if err != nil {
			return err
		}
		to, err := spmd.Launch(w, spmd.GroupSpec{Name: "to", Ranks: []int{0}}, self)
		if err != nil {
			return err
		}
		ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "c", From: from.Spec(), To: to.Spec(),
			ItemBytes: pair.Size(), MaxSize: 4})
		if err != nil {
			return err
		}
		put := func(m *spmd.Member) error {
			s, err := ch.Sender(m, spmd.Key{})
			if err != nil {
				return err
			}
			it, err := s.Take(ctx, pair)
			if err != nil {
				return err
			}
			return s.Put(ctx, it)
		}
		if w.Rank() == 1 {
			return put(from.Here()[0])
		}
		if err := put(from.Here()[0]); err != nil {
			return err
		}
		r, err := ch.Receiver(to.Here()[0], spmd.Key{})
		if err != nil {
			return err
		}
		for range 1_000_000 {
			if err := put(from.Here()[0]); err != nil { // two are queued now
				return err
			}
			it, err := r.Get(ctx)
			if err != nil {
				return err
			}
			from := it.From
			r.Release(it)
			if from == 1 {
				return nil
			}
			runtime.Gosched()
		}
		return errors.New("the other producer's item never came")
	})
}

// A wait on a channel ends if the job fails somewhere else.
func TestWaitersAreFreed(t *testing.T) {
	for _, k := range keys {
		t.Run(k.name, func(t *testing.T) {
			f, _ := fail(t, 2, spmd.Options{},
				talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
					return errBoom
				}, func(ctx context.Context, r *spmd.Receiver) error {
					_, err := r.Get(context.WithoutCancel(ctx))
					return err
				}))
			if !errors.Is(f, errBoom) {
				t.Errorf("the failure is %v", f)
			}
			f, _ = fail(t, 2, spmd.Options{},
				talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
					for {
						it, err := s.Take(context.WithoutCancel(ctx), pair)
						if err != nil {
							return err
						}
						if err := s.Put(ctx, it); err != nil {
							return err
						}
					}
				}, func(ctx context.Context, r *spmd.Receiver) error {
					return errBoom
				}))
			if !errors.Is(f, errBoom) {
				t.Errorf("the failure is %v", f)
			}
		})
	}
}

func TestChannelRefuses(t *testing.T) {
	run(t, 2, func(ctx context.Context, w *spmd.World) error {
		env, err := spmd.Launch(w, spmd.GroupSpec{Name: "env", Ranks: []int{0, 1}}, self)
		if err != nil {
			return err
		}
		rollout, err := spmd.Launch(w, spmd.GroupSpec{Name: "rollout", Ranks: []int{1, 0}}, self)
		if err != nil {
			return err
		}
		e, r := env.Here()[0], rollout.Here()[0]
		for _, spec := range []spmd.ChannelSpec{
			{Name: "c", From: env.Spec()},
			{Name: "c", From: env.Spec(), To: rollout.Spec(), MaxSize: -1},
			{Name: "c", From: env.Spec(), To: rollout.Spec(), ItemBytes: -1},
		} {
			if _, err := spmd.NewChannel(w, spec); err == nil {
				return fmt.Errorf("%+v was taken", spec)
			}
		}
		ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "c", From: env.Spec(), To: rollout.Spec(), ItemBytes: 64,
			Pairs: func(from, to int) bool { return from == to }})
		if err != nil {
			return err
		}
		sender := func(m *spmd.Member, key spmd.Key) error { _, err := ch.Sender(m, key); return err }
		receiver := func(m *spmd.Member, key spmd.Key) error { _, err := ch.Receiver(m, key); return err }
		for _, c := range []struct {
			got  error
			want string
		}{
			{sender(r, spmd.Key{}), `sender of key "" of member 0: expected a member of group "env" of this rank, ` +
				`not of "rollout"`},
			{receiver(e, spmd.Key{}), `receiver of key "" of member 0: expected a member of group "rollout" of this ` +
				`rank, not of "env"`},
			{sender(e, spmd.Key{To: 2}), `sender of key "" of member 2: expected a consumer of 0..1`},
			{sender(e, spmd.Key{To: -2}), `sender of key "" of member -2: expected a consumer of 0..1`},
			{sender(e, spmd.Key{To: spmd.AnyMember, Name: "a"}), `sender of key "a" of any member: expected ` +
				`ChannelSpec.Shared for keys of any member`},
			{sender(e, spmd.Key{To: e.Index(), Name: strings.Repeat("x", 256)}),
				`expected a name of at most 255 bytes`},
			{sender(e, spmd.Key{To: 1 - e.Index()}), fmt.Sprintf("Pairs does not let producer %d send to consumer %d",
				e.Index(), 1-e.Index())},
			{receiver(r, spmd.Key{To: 1 - r.Index()}), fmt.Sprintf("it belongs to member %d, not to %d", 1-r.Index(),
				r.Index())},
			{ch.Close(r), `expected a member of group "env" of this rank, not of "rollout"`},
		} {
			if c.got == nil || !strings.HasSuffix(c.got.Error(), c.want) {
				return fmt.Errorf("got %q, want …%q", c.got, c.want)
			}
		}
		return sameSender(ch, e)
	})
}

func sameSender(ch *spmd.Channel, m *spmd.Member) error {
	one, err := ch.Sender(m, spmd.Key{To: m.Index()})
	if err != nil {
		return err
	}
	if two, err := ch.Sender(m, spmd.Key{To: m.Index()}); two != one {
		return fmt.Errorf("the second handle of a key is another, %v", err)
	}
	return nil
}

// Without Pairs a key waits until all producers have closed; with Pairs, only until those have that may send to it.
func TestPairsDecideWhoCloses(t *testing.T) {
	for _, ranks := range [][]int{{0, 0}, {0, 1}, {1, 1}} {
		run(t, 2, func(ctx context.Context, w *spmd.World) error {
			from, err := spmd.Launch(w, spmd.GroupSpec{Name: "from", Ranks: ranks}, self)
			if err != nil {
				return err
			}
			to, err := spmd.Launch(w, spmd.GroupSpec{Name: "to", Ranks: []int{0, 0}}, self)
			if err != nil {
				return err
			}
			ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "c", From: from.Spec(), To: to.Spec(), ItemBytes: 64,
				Pairs: func(from, to int) bool { return from == to }})
			if err != nil {
				return err
			}
			key := spmd.Key{To: 1}
			p := spmd.Call(from.ExecuteOn(1), ctx, "close", func(ctx context.Context, m *spmd.Member) (int, error) {
				s, err := ch.Sender(m, key)
				if err != nil {
					return 0, err
				}
				return 0, s.Close()
			})
			c := spmd.Call(to.ExecuteOn(1), ctx, "get", func(ctx context.Context, m *spmd.Member) (int, error) {
				r, err := ch.Receiver(m, key)
				if err != nil {
					return 0, err
				}
				if _, err := r.Get(ctx); !errors.Is(err, spmd.ErrClosed) {
					return 0, fmt.Errorf("got %v", err)
				}
				return 0, nil
			})
			if _, err := p.Wait(ctx); err != nil {
				return err
			}
			_, err = c.Wait(ctx)
			return err
		})
	}
}

func TestDirectRefuses(t *testing.T) {
	run(t, 1, func(ctx context.Context, w *spmd.World) error {
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "g", Ranks: []int{0, 0}, Direct: []string{"g"}}, self)
		if err != nil {
			return err
		}
		a, b := g.Here()[0], g.Here()[1]
		var d, other tensor.Dict
		d.Set("x", tensor.New(tensor.F32, 2))
		other.Set("x", tensor.New(tensor.F32, 3))
		recv := func(into tensor.Dict) error { _, err := b.RecvFrom(ctx, "g", 0, into); return err }
		for _, c := range []struct {
			got  error
			want string
		}{
			{a.SendTo(ctx, "h", 0, d), `g[0]: send to h[0]: expected a group of GroupSpec.Direct, on either side`},
			{a.SendTo(ctx, "g", 2, d), `g[0]: send to g[2]: expected a member of 0..1`},
			{a.SendTo(ctx, "g", 0, d), `g[0]: send to g[0]: expected another member, not oneself`},
			{errors.Join(a.SendTo(ctx, "g", 1, d), recv(other)), `g[1]: receive from g[0]: "x" came as F32[2], ` +
				`expected one of {x: F32[3]}`},
		} {
			if c.got == nil || c.got.Error() != c.want {
				return fmt.Errorf("got %q, want %q", c.got, c.want)
			}
		}
		return nil
	})
}

// A spy is a transport that records the length of every message with the tag of a key.
type spy struct {
	spmd.Transport
	seen *[]int
}

func (s spy) NewComm(ranks []int, label string) ([]spmd.Comm, error) {
	ends, err := s.Transport.NewComm(ranks, label)
	for i := range ends {
		ends[i] = spyComm{ends[i], s.seen}
	}
	return ends, err
}

type spyComm struct {
	spmd.Comm
	seen *[]int
}

func (s spyComm) Isend(b []byte, to, tag int) (spmd.Request, error) {
	if len(b) >= pair.Size() {
		*s.seen = append(*s.seen, len(b))
	}
	return s.Comm.Isend(b, to, tag)
}

// Between processes an item is one message of header and tensors. Only the first item, and the first with another
// layout, include the schema.
func TestSchemaTravelsWhenItIsNews(t *testing.T) {
	other := tensor.NewLayout(tensor.Field{Name: "y", DType: tensor.F32, Shape: []int{3}})
	for _, k := range keys {
		if k.to[0] == 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			seen := make([][]int, 2)
			ranks := local.New(2)
			for r := range ranks {
				ranks[r] = spy{ranks[r], &seen[r]}
			}
			err := spmd.Run(context.Background(), ranks, spmd.Options{Log: t.Output()},
				talk(k.to, spmd.ChannelSpec{Shared: true}, k.key, func(ctx context.Context, s *spmd.Sender) error {
					for _, l := range []*tensor.Layout{pair, pair, pair, other, other} {
						it, err := s.Take(ctx, l)
						if err != nil {
							return err
						}
						if err := s.Put(ctx, it); err != nil {
							return err
						}
					}
					return s.Close()
				}, func(ctx context.Context, r *spmd.Receiver) error {
					for range 5 {
						it, err := r.Get(ctx)
						if err != nil {
							return err
						}
						r.Release(it)
					}
					return nil
				}))
			test.OK(t, err)
			// 64 header, 64 tensors; schema: 2 + 3 + 1 + 4
			if want := []int{138, 128, 128, 138, 128}; !slices.Equal(seen[0], want) {
				t.Errorf("messages of %v bytes, want %v", seen[0], want)
			}
		})
	}
}
