//go:build mpi

package mpi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// A group is the MPI communicator of a component.
type group struct {
	handle    *C.rl_group
	processes []int // ranks in the world, in the communicator's order
}

// NewGroup makes an MPI communicator, in which each purpose has a block of tags; see spmd.Transport. A group
// within one process gets an MPI communicator too, so that debuggers and profilers show all groups.
//
// NewGroup first sleeps until the other processes have called it, because MPI spins while it makes a communicator. A
// group with the processes of an earlier group duplicates that group's communicator, which MPI can do by a non-blocking
// call.
func (t *transport) NewGroup(ranks []int, name string, purposes []string) (ends [][]spmd.Comm, err error) {
	defer annotate(&err, "new group %q", name)
	t.making.Lock()
	defer t.making.Unlock()
	l, err := t.layOut(ranks)
	if err != nil {
		return nil, err
	}
	blocks := len(purposes) * l.width * l.width
	if blocks > t.blocks {
		return nil, fmt.Errorf("%d purposes with %d members on a rank take %d blocks of tags, and this MPI has %d",
			len(purposes), l.width, blocks, t.blocks)
	}
	made, err := t.agree(l, fmt.Sprintf("group %q %q", name, purposes), ranks)
	if err != nil {
		return nil, err
	}
	t.next = made + uint64(max(blocks, 1))
	g := &group{processes: l.processes}
	var same *C.rl_group
	if i := slices.IndexFunc(t.groups, func(o *group) bool {
		return slices.Equal(o.processes, g.processes)
	}); i >= 0 {
		same = t.groups[i].handle
	}
	members := make([]C.int, len(g.processes))
	for i, r := range g.processes {
		members[i] = C.int(r)
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var fault C.rl_fault
	if rc := C.rl_group_open(t.world, &members[0], C.int(len(members)), makingTag(made), text, same, &g.handle,
		&fault); rc != 0 {
		return nil, callError(&fault)
	}
	t.groups = append(t.groups, g)

	l.group, l.space = g.handle, made
	for m, s := range l.members {
		l.members[m].process = slices.Index(g.processes, s.rank)
	}
	ends = make([][]spmd.Comm, len(purposes))
	for p, purpose := range purposes {
		// MPI may reuse this group's context for a group of a later world. Different tags keep their messages apart.
		l.block = int(made%uint64(t.blocks-blocks+1)) + p*l.width*l.width
		if ends[p], err = t.newEnds(l, name+"/"+purpose); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// makingTag returns the tag for MPI_Comm_create_group. It depends on the agreed block of tags, which
// differs between simultaneous calls.
func makingTag(block uint64) C.int {
	const tags = 32768 // the number of tags that the standard guarantees
	return C.int(block % tags)
}

// Spaces queries MPI for the names and the members of its communicators; see spmd.Transport.
func (t *transport) Spaces() ([]spmd.MessageSpace, error) {
	t.making.Lock()
	defer t.making.Unlock()
	handles := []*C.rl_group{nil}
	for _, g := range t.groups {
		handles = append(handles, g.handle)
	}
	spaces := make([]spmd.MessageSpace, len(handles))
	ranks := make([]C.int, t.size)
	for i, h := range handles {
		var name [C.RL_NAME]C.char
		var n C.int
		var fault C.rl_fault
		if C.rl_group_list(t.world, h, &name[0], &ranks[0], &n, &fault) != 0 {
			return nil, fmt.Errorf("list communicators: %w", callError(&fault))
		}
		spaces[i].Name = C.GoString(&name[0])
		for _, r := range ranks[:n] {
			spaces[i].Ranks = append(spaces[i].Ranks, int(r))
		}
	}
	return spaces, nil
}
