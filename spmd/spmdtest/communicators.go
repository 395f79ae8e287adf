package spmdtest

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// communicators returns the cases that test communicators, message spaces, memory and nodes.
func communicators() []Case {
	return []Case{
		{"ranks number the members in the order given", numbering},
		{"ranks may have several members each", several},
		{"communicators of the same ranks and tags are apart", apart},
		{"only the ranks concerned make a communicator", subsets},
		{"each group has a message space of its own, by name and members", spaces},
		{"members of groups that share ranks exchange messages side by side", groups},
		{"goroutines of a rank use their own communicators side by side", sideBySide},
		{"memory is aligned and zeroed", memory},
		{"the world knows its ranks and nodes", nodes},
	}
}

func numbering(ctx context.Context, w *spmd.World) error {
	ranks := world(w)
	for i := range ranks {
		ranks[i] = w.Size() - 1 - i
	}
	ends, err := w.NewComm(ranks, "reversed")
	if err != nil {
		return err
	}
	if len(ends) != 1 || ends[0].Rank() != w.Size()-1-w.Rank() || ends[0].Size() != w.Size() {
		return fmt.Errorf("%d ends, the first is member %d of %d", len(ends), ends[0].Rank(), ends[0].Size())
	}
	return exchange(ctx, ends)
}

func several(ctx context.Context, w *spmd.World) error {
	for _, ranks := range [][]int{uneven(w), {0, 0, 0, 0}, append(world(w), world(w)...)} {
		mine := 0
		for _, r := range ranks {
			if r == w.Rank() {
				mine++
			}
		}
		if mine == 0 {
			continue
		}
		ends, err := w.NewComm(ranks, "several")
		if err != nil {
			return err
		}
		if len(ends) != mine {
			return fmt.Errorf("ranks %v: %d ends, want %d", ranks, len(ends), mine)
		}
		for i, c := range ends {
			if c.Size() != len(ranks) || ranks[c.Rank()] != w.Rank() || i > 0 && c.Rank() <= ends[i-1].Rank() {
				return fmt.Errorf("ranks %v: end %d is member %d of %d", ranks, i, c.Rank(), c.Size())
			}
		}
		if err := exchange(ctx, ends); err != nil {
			return fmt.Errorf("ranks %v: %w", ranks, err)
		}
	}
	return nil
}

func apart(ctx context.Context, w *spmd.World) error {
	var comms [3]spmd.Comm
	for i := range comms {
		ends, err := w.NewComm(world(w), "twin") // all have the same label
		if err != nil {
			return err
		}
		comms[i] = ends[0]
	}
	next, prev := neighbours(comms[0])
	var sends [3]spmd.Request
	var err error
	for i, c := range comms {
		if sends[i], err = c.Isend([]byte{byte(10 + i)}, next, 0); err != nil {
			return err
		}
	}
	for i := len(comms) - 1; i >= 0; i-- {
		in := make([]byte, 1)
		r, err := comms[i].Irecv(in, prev, 0)
		if err != nil {
			return err
		}
		if err := comms[i].Wait(ctx, []spmd.Request{r}); err != nil {
			return err
		}
		if in[0] != byte(10+i) {
			return fmt.Errorf("communicator %d got the message of %d", i, in[0]-10)
		}
		if err := comms[i].Wait(ctx, sends[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func subsets(ctx context.Context, w *spmd.World) error {
	// rank r is in part r mod parts; the parts make their communicators at the same time
	for parts := 1; parts <= w.Size(); parts++ {
		var ranks []int
		for r := range w.Size() {
			if r%parts == w.Rank()%parts {
				ranks = append(ranks, r)
			}
		}
		ends, err := w.NewComm(ranks, fmt.Sprintf("part %d of %d", w.Rank()%parts, parts))
		if err != nil {
			return err
		}
		if err := exchange(ctx, ends); err != nil {
			return err
		}
	}
	return nil
}

func sideBySide(ctx context.Context, w *spmd.World) error {
	const goroutines = 4
	done := make(chan error, goroutines)
	for g := range goroutines {
		ends, err := w.NewComm(world(w), fmt.Sprint("side ", g))
		if err != nil {
			return err
		}
		w.Go(fmt.Sprint("side ", g), func() error {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				err = exchange(ctx, ends)
			}
			done <- err
			return nil
		})
	}
	for range goroutines {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

// placements returns groups with different ranks: all, reversed, a subset, one rank, and a mixed order with
// several members on a rank. Their names begin with a prefix of the case, because cases may share a world.
func placements(w *spmd.World, prefix string) []spmd.GroupSpec {
	last, reversed := w.Size()-1, world(w)
	slices.Reverse(reversed)
	return []spmd.GroupSpec{
		{Name: prefix + " actor", Ranks: world(w), Comms: []string{"gradients", "statistics"}},
		{Name: prefix + " rollout", Ranks: world(w)},
		{Name: prefix + " critic", Ranks: reversed, Comms: []string{"gradients"}},
		{Name: prefix + " half", Ranks: world(w)[w.Size()/2:], Comms: []string{"gradients"}},
		{Name: prefix + " one", Ranks: []int{last, last}, Comms: []string{"gradients"},
			Direct: []string{prefix + " one"}},
		{Name: prefix + " env", Ranks: []int{last, 0, last, last / 2}, Comms: []string{"gradients", "statistics"}},
	}
}

func spaces(_ context.Context, w *spmd.World) error {
	before, err := w.Spaces()
	if err != nil {
		return err
	}
	if first := fmt.Sprint(before[0]); first != fmt.Sprint(spmd.MessageSpace{Name: "world", Ranks: world(w)}) {
		return fmt.Errorf("the first is %v, want all ranks", first)
	}
	want := before
	for _, g := range placements(w, "spaces") {
		if _, err := spmd.Launch(w, g, func(m *spmd.Member) (*spmd.Member, error) { return m, nil }); err != nil {
			return err
		}
		var once []int
		for _, r := range g.Ranks {
			if !slices.Contains(once, r) {
				once = append(once, r)
			}
		}
		if slices.Contains(once, w.Rank()) {
			want = append(want, spmd.MessageSpace{Name: g.Name, Ranks: once})
		}
	}
	got, err := w.Spaces()
	if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
		err = fmt.Errorf("rank %d is in %v, want %v", w.Rank(), got, want)
	}
	return err
}

func groups(ctx context.Context, w *spmd.World) error {
	var calls []*spmd.Future[struct{}]
	for _, g := range placements(w, "groups") {
		launched, err := spmd.Launch(w, g, func(m *spmd.Member) (*spmd.Member, error) { return m, nil })
		if err != nil {
			return err
		}
		calls = append(calls, spmd.Call(launched, ctx, "exchange", func(ctx context.Context, m *spmd.Member) (struct{},
			error) {
			for _, purpose := range g.Comms {
				c := m.Comm(purpose)
				if c.Rank() != m.Index() || c.Size() != len(g.Ranks) || c.WorldRank(c.Rank()) != w.Rank() {
					return struct{}{}, fmt.Errorf("%s/%s: member %d of %d, on rank %d", g.Name, purpose, c.Rank(),
						c.Size(), c.WorldRank(c.Rank()))
				}
				for range 20 {
					if err := exchange(ctx, []spmd.Comm{c}); err != nil {
						return struct{}{}, fmt.Errorf("%s/%s: %w", g.Name, purpose, err)
					}
				}
			}
			return struct{}{}, nil
		}))
	}
	for _, c := range calls {
		if _, err := c.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func memory(_ context.Context, w *spmd.World) error {
	var last []byte
	for _, n := range []int{0, 1, 63, 64, 1000, 1 << 16, 3<<20 + 1} {
		b, err := w.Alloc(n)
		if err != nil {
			return err
		}
		if len(b) != n || n > 0 && uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
			return fmt.Errorf("alloc(%d) gave %d bytes at %p", n, len(b), unsafe.SliceData(b))
		}
		for i := range b {
			if b[i] != 0 {
				return fmt.Errorf("alloc(%d): byte %d is %d", n, i, b[i])
			}
			b[i] = 0xff
		}
		for i := range last {
			if last[i] != 0xff {
				return fmt.Errorf("alloc(%d) gave memory that is in use", n)
			}
		}
		last = b
	}
	return nil
}

func nodes(_ context.Context, w *spmd.World) error {
	all := w.Nodes()
	if len(all) != w.Size() || all[w.Rank()] != w.Node() {
		return fmt.Errorf("rank %d of %d on node %d of %v", w.Rank(), w.Size(), w.Node(), all)
	}
	highest, local, size := -1, 0, 0
	for r, n := range all {
		if n > highest+1 {
			return fmt.Errorf("nodes %v: not numbered by their lowest ranks", all)
		}
		highest = max(highest, n)
		if n == w.Node() {
			size++
			if r < w.Rank() {
				local++
			}
		}
	}
	if w.LocalRank() != local || w.LocalSize() != size {
		return fmt.Errorf("local rank %d of %d, want %d of %d", w.LocalRank(), w.LocalSize(), local, size)
	}
	if w.Host() == "" || w.Describe().Transport == "" {
		return fmt.Errorf("an empty description: %+v", w.Describe())
	}
	return nil
}
