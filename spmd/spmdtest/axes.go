package spmdtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
)

// axes returns the cases that test groups with axes.
func axes() []Case {
	return []Case{{"members of a mesh reach the others of each line", lines}}
}

// meshes are the axes of the tested groups, the outermost axis first.
var meshes = [][]spmd.Axis{
	{{Name: "data", Size: 2}, {Name: "stage", Size: 2}, {Name: "shard", Size: 2}},
	{{Name: "data", Size: 3}, {Name: "stage", Size: 1}, {Name: "shard", Size: 2}},
	{{Name: "only", Size: 5}},
}

// points returns the coordinates of all members of a mesh, in member order.
func points(mesh []spmd.Axis) [][]int {
	all := [][]int{{}}
	for _, a := range mesh {
		var longer [][]int
		for _, p := range all {
			for i := range a.Size {
				longer = append(longer, append(slices.Clone(p), i))
			}
		}
		all = longer
	}
	return all
}

// lines launches each mesh in three placements: members on the ranks in turn, in blocks of members, and all members on
// one rank.
func lines(ctx context.Context, w *spmd.World) error {
	for i, mesh := range meshes {
		at := points(mesh)
		for how, rank := range []func(m int) int{
			func(m int) int { return m % w.Size() },
			func(m int) int { return w.Size() - 1 - m*w.Size()/len(at) },
			func(int) int { return w.Size() / 2 },
		} {
			spec := spmd.GroupSpec{Name: fmt.Sprintf("mesh %d/%d", i, how), Comms: []string{"sums", "messages"},
				Axes: mesh}
			for m := range at {
				spec.Ranks = append(spec.Ranks, rank(m))
			}
			// The communicators exist while the workers are made, so newWorker may use them.
			if _, err := spmd.Launch(w, spec, func(m *spmd.Member) (struct{}, error) {
				return struct{}{}, greet(ctx, m, at)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// greet checks a member's lines. Then it sends the member's number to all members of its lines, on all axes and
// purposes at the same time, and checks the received numbers.
func greet(ctx context.Context, m *spmd.Member, at [][]int) error {
	var finish []func() error
	for a, axis := range m.Axes() {
		if got, want := m.Coordinate(axis.Name), at[m.Index()][a]; got != want {
			return fmt.Errorf("member %d has coordinate %d on %s, want %d", m.Index(), got, axis.Name, want)
		}
		others := make([]int, axis.Size) // the members of the line
		for i := range others {
			point := slices.Clone(at[m.Index()])
			point[a] = i
			others[i] = slices.IndexFunc(at, func(p []int) bool { return slices.Equal(p, point) })
		}
		if got := m.Line(axis.Name); !slices.Equal(got, others) {
			return fmt.Errorf("member %d is in the line %v on %s, want %v", m.Index(), got, axis.Name, others)
		}
		for p, purpose := range []string{"sums", "messages"} {
			c := m.AxisComm(axis.Name, purpose)
			wait, err := greetLine(ctx, c, others, byte(100*p), m.Comm(purpose))
			if err != nil {
				return fmt.Errorf("member %d, axis %s, %s: %w", m.Index(), axis.Name, purpose, err)
			}
			finish = append(finish, wait)
		}
	}
	for _, wait := range finish {
		if err := wait(); err != nil {
			return fmt.Errorf("member %d: %w", m.Index(), err)
		}
	}
	return nil
}

// greetLine starts the messages along one line, and returns a function that waits for the messages and checks them.
// members lists the line's members by their numbers in the group. group is the communicator of the whole group.
func greetLine(ctx context.Context, c spmd.Comm, members []int, mark byte, group spmd.Comm) (wait func() error,
	err error) {
	me := c.Rank()
	if c.Size() != len(members) || me < 0 || me >= len(members) || members[me] != group.Rank() {
		return nil, fmt.Errorf("member %d of %d, in a line of members %v", me, c.Size(), members)
	}
	out, in := []byte{mark + byte(group.Rank())}, make([]byte, len(members))
	var reqs []spmd.Request
	for i, member := range members {
		if got, want := c.WorldRank(i), group.WorldRank(member); got != want {
			return nil, fmt.Errorf("member %d is on rank %d, want %d", i, got, want)
		}
		if i == me {
			continue
		}
		send, err := c.Isend(out, i, 3)
		if err != nil {
			return nil, err
		}
		receive, err := c.Irecv(in[i:i+1], i, 3)
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, send, receive)
	}
	for _, peer := range []int{-1, c.Size()} {
		if _, err := c.Isend(out, peer, 3); err == nil {
			return nil, fmt.Errorf("a message to member %d was sent", peer)
		}
		if _, err := c.Irecv(out, peer, 3); err == nil {
			return nil, fmt.Errorf("a message of member %d may come", peer)
		}
	}
	return func() error {
		if err := c.Wait(ctx, reqs); err != nil {
			return err
		}
		for i, member := range members {
			if i != me && in[i] != mark+byte(member) {
				return fmt.Errorf("%d came from member %d of the line, want %d", in[i], i, mark+byte(member))
			}
		}
		return nil
	}, nil
}
