//go:build mpi

package mpi

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/rlinf/rlinf/spmd"
)

// NewComm makes a communicator; see spmd.Transport. It makes no MPI communicator, because that takes longer and MPICH
// allows at most 2048. Instead the communicator gets a block of tags in a duplicate of the world's communicator. Until
// Renew, no other communicator of these processes uses that block.
func (t *transport) NewComm(ranks []int, label string) (ends []spmd.Comm, err error) {
	defer annotate(&err, "new communicator %q", label)
	t.making.Lock()
	defer t.making.Unlock()
	l, err := t.layOut(ranks)
	if err != nil {
		return nil, err
	}
	first, err := t.agree(l, label, ranks)
	if err != nil {
		return nil, err
	}
	blocks, perPlane := uint64(l.width*l.width), uint64(t.blocks)
	if first%perPlane+blocks > perPlane { // the blocks of a communicator must lie in one plane
		first += perPlane - first%perPlane
	}
	l.space, l.plane, l.block = first, int(first/perPlane), int(first%perPlane)
	if l.plane >= t.planes || blocks > perPlane {
		return nil, fmt.Errorf("the tags of this MPI are used up: %d planes of %d communicators; one with k members "+
			"on a rank counts as k²", t.planes, t.blocks)
	}
	t.next = first + blocks
	return t.newEnds(l, label)
}

// annotate prefixes *err with a formatted text, unless *err is nil.
func annotate(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// newEnds makes one Comm for each member on this process, in order.
func (t *transport) newEnds(l layout, label string) (ends []spmd.Comm, err error) {
	for m, s := range l.members {
		if s.rank != t.rank {
			continue
		}
		end, err := t.newEnd(l, m, label)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.open[end] = struct{}{}
		t.mu.Unlock()
		ends = append(ends, end)
	}
	return ends, nil
}

// agree returns the maximum of t.next over all processes of l. All blocks of tags from there on are free on all these
// processes. It exchanges messages like a dissemination barrier: in round k process i receives from process i-2^k.
// agree returns an error if a process makes another communicator.
func (t *transport) agree(l layout, label string, ranks []int) (first uint64, err error) {
	const words = 16
	mine, theirs := t.agreeing[:words], t.agreeing[words:2*words]
	h := fnv.New64a()
	fmt.Fprint(h, label, ranks)
	what, first, n := h.Sum64(), t.next, len(l.processes)
	for d := 1; d < n; d *= 2 {
		binary.NativeEndian.PutUint64(mine, what)
		binary.NativeEndian.PutUint64(mine[8:], first)
		from := l.processes[(l.here-d+n)%n]
		in, err := t.control.Irecv(theirs, from, 0)
		if err != nil {
			return 0, err
		}
		out, err := t.control.Isend(mine, l.processes[(l.here+d)%n], 0)
		if err != nil {
			return 0, err
		}
		if err := t.control.Wait(context.Background(), []spmd.Request{in, out}); err != nil {
			return 0, err
		}
		if binary.NativeEndian.Uint64(theirs) != what {
			return 0, fmt.Errorf("rank %d makes another communicator at this point (another label or other members)",
				from)
		}
		first = max(first, binary.NativeEndian.Uint64(theirs[8:]))
	}
	return first, nil
}

// A layout maps the members of a communicator to MPI's ranks and tags.
type layout struct {
	members      []member
	processes    []int       // the ranks that have members
	here         int         // this process's index in processes
	width        int         // the largest number of members on one rank
	group        *C.rl_group // the MPI communicator for messages; nil if they use the plane
	plane, block int         // the plane, and the first block of tags in the plane or group
	space        uint64      // a number that is unique among these processes; the purposes of a group share it
}

// A member is a member of a communicator. rank is its world rank, process is its rank in the MPI communicator, and
// local is its number among the members on its world rank.
type member struct{ rank, process, local int }

// layOut returns the layout of a communicator whose member m is on ranks[m]. This process must have a member.
func (t *transport) layOut(ranks []int) (l layout, err error) {
	if len(ranks) == 0 {
		return l, errors.New("no members")
	}
	count := make(map[int]int)
	for m, r := range ranks {
		if r < 0 || r >= t.size {
			return l, fmt.Errorf("member %d is on rank %d: expected 0 to %d", m, r, t.size-1)
		}
		if count[r] == 0 {
			l.processes = append(l.processes, r)
		}
		l.members = append(l.members, member{rank: r, process: r, local: count[r]})
		count[r]++
		l.width = max(l.width, count[r])
	}
	if l.here = slices.Index(l.processes, t.rank); l.here < 0 {
		return l, fmt.Errorf("rank %d calls, but the members are on ranks %v", t.rank, l.processes)
	}
	return l, nil
}

// newEnd makes the comm of the given member, which is on this process.
func (t *transport) newEnd(l layout, me int, label string) (*comm, error) {
	end := C.rl_end_open(t.world, l.group, C.int(l.plane), C.uint64_t(l.space), C.int(l.members[me].process),
		l.inbox(l.members[me].local))
	if end == nil {
		return nil, errors.New("out of memory")
	}
	return &comm{t: t, end: end, layout: l, me: me, label: label}, nil
}
