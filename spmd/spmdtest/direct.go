package spmdtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// direct returns the cases that test direct messages between workers, after RLinf's tests/unit_tests/test_comm.py.
func direct() []Case {
	return []Case{
		{"workers send each other dicts", directDict},
		{"workers send each other lists of tensors", directList},
		{"workers receive in place", directInPlace},
		{"workers of one group send each other dicts", directWithin},
	}
}

// correspond launches two groups of different sizes. For each member of one group and each member of the other group,
// it runs the function talk on both members.
func correspond(ctx context.Context, w *spmd.World, name string, talk func(ctx context.Context, m *spmd.Member,
	group string, member int, first bool) error) error {
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	one, err := spmd.Launch(w, spmd.GroupSpec{Name: name + " one", Ranks: world(w)}, self)
	if err != nil {
		return err
	}
	two, err := spmd.Launch(w, spmd.GroupSpec{Name: name + " two", Ranks: []int{w.Size() - 1, 0, 0},
		Direct: []string{one.Name()}}, self)
	if err != nil {
		return err
	}
	exchange := func(peers *spmd.Group[*spmd.Member], first bool) func(context.Context, *spmd.Member) (struct{},
		error) {
		return func(ctx context.Context, m *spmd.Member) (struct{}, error) {
			for i := range peers.Size() {
				if err := talk(ctx, m, peers.Name(), i, first); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		}
	}
	f1 := spmd.Call(one, ctx, "write", exchange(two, true))
	f2 := spmd.Call(two, ctx, "answer", exchange(one, false))
	if _, err := f1.Wait(ctx); err != nil {
		return err
	}
	_, err = f2.Wait(ctx)
	return err
}

// sheet returns a dict with tensors of several types. The contents depend on seed.
func sheet(seed int) tensor.Dict {
	var d tensor.Dict
	d.Set("observation.image", tensor.New(tensor.U8, 3, 100, 100))
	d.Set("observation.state", tensor.New(tensor.F32, 3, 4))
	d.Set("done", tensor.New(tensor.U8, 3))
	d.Set("none", tensor.New(tensor.F64, 0))
	for i := range d.Len() {
		_, t := d.Entry(i)
		fill(t.Bytes(), seed+i)
	}
	return d
}

func sameSheet(d tensor.Dict, seed int) error {
	want := sheet(seed)
	if d.Len() != want.Len() {
		return fmt.Errorf("got %v, want %v", d, want)
	}
	for i := range want.Len() {
		name, t := want.Entry(i)
		gotName, got := d.Entry(i)
		if gotName != name || !got.SameShape(t) || !slices.Equal(got.Bytes(), t.Bytes()) {
			return fmt.Errorf("tensor %d is %s: %v, want %s: %v, or its contents differ", i, gotName, got, name, t)
		}
	}
	return nil
}

func directDict(ctx context.Context, w *spmd.World) error {
	return correspond(ctx, w, "dict", func(ctx context.Context, m *spmd.Member, group string, member int,
		first bool) error {
		if first {
			for i := range 3 { // several in transit, in order
				if err := m.SendTo(ctx, group, member, sheet(10*m.Index()+i)); err != nil {
					return err
				}
			}
			d, err := m.RecvFrom(ctx, group, member, tensor.Dict{})
			if err != nil {
				return err
			}
			return sameSheet(d, 100+member)
		}
		for i := range 3 {
			d, err := m.RecvFrom(ctx, group, member, tensor.Dict{})
			if err != nil {
				return err
			}
			if err := sameSheet(d, 10*member+i); err != nil {
				return err
			}
		}
		return m.SendTo(ctx, group, member, sheet(100+m.Index()))
	})
}

func directList(ctx context.Context, w *spmd.World) error {
	const n = 20
	return correspond(ctx, w, "list", func(ctx context.Context, m *spmd.Member, group string, member int,
		first bool) error {
		if first {
			var list tensor.Dict
			for i := range n {
				t := tensor.New(tensor.I32, i)
				fill(t.Bytes(), i)
				list.Set(fmt.Sprint(i), t)
			}
			return m.SendTo(ctx, group, member, list)
		}
		list, err := m.RecvFrom(ctx, group, member, tensor.Dict{})
		if err != nil {
			return err
		}
		for i := range n {
			name, t := list.Entry(i)
			if name != fmt.Sprint(i) || t.DType() != tensor.I32 || t.Len() != i {
				return fmt.Errorf("entry %d is %s: %v", i, name, t)
			}
			if err := check(t.Bytes(), i); err != nil {
				return err
			}
		}
		return nil
	})
}

func directInPlace(ctx context.Context, w *spmd.World) error {
	return correspond(ctx, w, "in place", func(ctx context.Context, m *spmd.Member, group string, member int,
		first bool) error {
		if first {
			return m.SendTo(ctx, group, member, sheet(m.Index()))
		}
		into := sheet(1000)
		got, err := m.RecvFrom(ctx, group, member, into)
		if err != nil {
			return err
		}
		if err := sameSheet(got, member); err != nil {
			return err
		}
		return sameSheet(into, member) // received in place
	})
}

func directWithin(ctx context.Context, w *spmd.World) error {
	ranks := uneven(w)
	g, err := spmd.Launch(w, spmd.GroupSpec{Name: "within", Ranks: ranks, Direct: []string{"within"}},
		func(m *spmd.Member) (*spmd.Member, error) { return m, nil })
	if err != nil || len(ranks) == 1 {
		return err
	}
	_, err = spmd.Call(g, ctx, "pass on", func(ctx context.Context, m *spmd.Member) (struct{}, error) {
		next, before := (m.Index()+1)%m.Size(), (m.Index()+m.Size()-1)%m.Size()
		if m.Index() > 0 { // the message goes around once, starting at member 0
			d, err := m.RecvFrom(ctx, "within", before, tensor.Dict{})
			if err == nil {
				err = sameSheet(d, before)
			}
			if err != nil {
				return struct{}{}, err
			}
		}
		if err := m.SendTo(ctx, "within", next, sheet(m.Index())); err != nil || m.Index() > 0 {
			return struct{}{}, err
		}
		d, err := m.RecvFrom(ctx, "within", before, tensor.Dict{})
		if err == nil {
			err = sameSheet(d, before)
		}
		return struct{}{}, err
	}).Wait(ctx)
	return err
}
