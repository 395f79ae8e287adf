package spmdtest

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A site is a placement of a channel's producers and consumers in a world of n ranks.
type site struct {
	name     string
	from, to []int
}

// sites returns placements within a process, between processes, and mixed. It returns at most n placements.
func sites(n int) []site {
	last := n - 1
	all := []site{
		{"within", []int{0, 0, 0}, []int{0, 0}},
		{"mixed", []int{0, last, n / 2}, []int{last, 0}},
		{"between", []int{0, 0, 0}, []int{last, last}},
		{"spread", []int{0, 1 % n, 2 % n}, []int{3 % n, 4 % n}},
	}
	return all[:min(n, len(all))] // with fewer ranks some placements would be equal
}

// A scene is a channel between two launched groups, for the programs of a test.
type scene struct {
	w        *spmd.World
	from, to *spmd.Group[*spmd.Member]
	ch       *spmd.Channel
}

// stage launches the groups of a site and makes the channel between them. Their names begin with the given
// name.
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

// play runs the producers and the consumers at the same time. It returns on all ranks when all producers
// and consumers are done.
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

// kinds has one key of each kind: a key of consumer 0, a shared key that the first consumer's process owns,
// and a shared key that the second consumer's process owns.
var kinds = []spmd.Key{{To: 0, Name: "k"}, {To: spmd.AnyMember, Name: "k"}, {To: spmd.AnyMember, Name: "l"}}

// number is the layout of an item with one int64.
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

// get returns the number in the next item, and the item's sender. It checks the item's other fields.
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

// everywhere runs f on every site.
func everywhere(ctx context.Context, w *spmd.World, f func(ctx context.Context, w *spmd.World, s site) error) error {
	for _, s := range sites(w.Size()) {
		if err := f(ctx, w, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// playPair runs producer 0 and consumer 0. The second scene has a channel for replies from the consumer to the
// producer.
func playPair(ctx context.Context, sc, back *scene, produce func(context.Context, *spmd.Sender, *spmd.Receiver) error,
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
		if m.Index() != 0 {
			return nil
		}
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
