//go:build mpi

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// spaces launches three groups that share ranks. In two of the groups, each member sends a byte to the next
// member. spaces prints the message spaces of each rank.
func spaces(ctx context.Context, t spmd.Transport, _ []string) error {
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
		last := w.Size() - 1
		var groups []*spmd.Group[*spmd.Member]
		for _, spec := range []spmd.GroupSpec{
			{Name: "actor", Ranks: []int{last, 0, 0}, Comms: []string{"gradients", "statistics"}},
			{Name: "rollout", Ranks: []int{last, 0}, Comms: []string{"gradients"}},
			{Name: "env", Ranks: []int{last}},
		} {
			g, err := spmd.Launch(w, spec, self)
			if err != nil {
				return err
			}
			groups = append(groups, g)
		}
		for _, g := range groups[:2] {
			_, err := spmd.Call(g, ctx, "exchange", func(ctx context.Context, m *spmd.Member) (struct{}, error) {
				return struct{}{}, passAround(ctx, m.Comm("gradients"))
			}).Wait(ctx)
			if err != nil {
				return err
			}
		}
		all, err := w.Spaces()
		if err != nil {
			return err
		}
		for _, s := range all {
			fmt.Printf("rank %d is in %q of ranks %v\n", w.Rank(), s.Name, s.Ranks)
		}
		return nil
	})
}

// groups measures how long it takes to make a group of all ranks, first in a new order of ranks, and then
// in the order of an earlier group.
func groups(_ context.Context, t spmd.Transport, _ []string) error {
	size := t.Size()
	var first, again time.Duration
	for shift := range size {
		order := make([]int, size)
		for i := range order {
			order[i] = (i + shift) % size
		}
		for _, took := range []*time.Duration{&first, &again} {
			start := time.Now()
			if _, err := t.NewGroup(order, fmt.Sprint("group ", shift), nil); err != nil {
				return err
			}
			*took += time.Since(start)
		}
	}
	if t.Rank() == 0 {
		n := time.Duration(size)
		fmt.Printf("a group of %d ranks: %v in a new order, %v in a known one\n", size,
			(first / n).Round(time.Microsecond), (again / n).Round(time.Microsecond))
	}
	return nil
}

// passAround sends a byte to the next member, and receives a byte from the previous member.
func passAround(ctx context.Context, c spmd.Comm) error {
	n, in := c.Size(), make([]byte, 1)
	r, err := c.Irecv(in, (c.Rank()+n-1)%n, 7)
	if err != nil {
		return err
	}
	s, err := c.Isend([]byte{byte(c.Rank())}, (c.Rank()+1)%n, 7)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, []spmd.Request{r, s}); err != nil {
		return err
	}
	if int(in[0]) != (c.Rank()+n-1)%n {
		return fmt.Errorf("member %d got %d", c.Rank(), in[0])
	}
	return nil
}
