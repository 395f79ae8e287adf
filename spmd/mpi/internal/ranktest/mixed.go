//go:build mpi

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// mixed tests waits for two messages at once: one from the neighbour on the node, through shared memory, and one from a
// rank of the other node, by MPI. It varies the order of the messages, the pause between them, their length, and the
// memory of long messages. Rank 0 prints how late it saw the last message. Before that, mixed checks how rank 0 waits.
func mixed(ctx context.Context, t spmd.Transport, _ []string) error {
	if nodes := t.Nodes(); t.Size() != 4 || !slices.Equal(nodes, []int{0, 0, 1, 1}) {
		return fmt.Errorf("%d ranks on nodes %v: want 4 on two nodes", t.Size(), nodes)
	}
	ends, err := everyone(t, 1, "mixed")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	if err := answers(ctx, t, c); err != nil {
		return err
	}
	const long = 200 << 10
	arena, err := t.Alloc(4 * long)
	if err != nil {
		return err
	}
	heap := make([]byte, 4*long)
	var late []time.Duration
	round := 0
	for _, pause := range []time.Duration{0, 300 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		for _, memory := range [][]byte{arena, heap} {
			for _, n := range []int{0, 8, long} {
				for _, nodeFirst := range []bool{true, false} {
					round++
					took, err := mixedRound(ctx, c, memory, n, round, pause, nodeFirst)
					if err != nil {
						return fmt.Errorf("round %d: %d bytes, pause %v, node first %v: %w", round, n, pause, nodeFirst,
							err)
					}
					late = append(late, took)
				}
			}
		}
	}
	if t.Rank() == 0 {
		slices.Sort(late)
		fmt.Printf("rank 0 waited for node and network: half of the last messages within %v, all within %v\n",
			late[len(late)/2].Round(time.Microsecond), late[len(late)-1].Round(time.Microsecond))
	}
	return nil
}

// mixedRound exchanges n bytes with the neighbour (rank^1) and with a rank of the other node (rank^2). If nodeFirst is
// true, it sends to the neighbour first. Each rank sends its second message when its first receive is done and the
// pause has passed. The result is the time from the second send until all requests are done.
func mixedRound(ctx context.Context, c spmd.Comm, memory []byte, n, round int, pause time.Duration,
	nodeFirst bool) (took time.Duration, err error) {
	me := c.Rank()
	peers := [2]int{me ^ 1, me ^ 2}
	if !nodeFirst {
		peers = [2]int{me ^ 2, me ^ 1}
	}
	piece := func(i int) []byte { return memory[i*len(memory)/4:][:n] }
	clear(memory[:2*len(memory)/4])
	var in, out [2]spmd.Request
	for i, p := range peers {
		if in[i], err = c.Irecv(piece(i), p, i); err != nil {
			return 0, err
		}
	}
	for i, p := range peers {
		if i == 1 {
			if _, err := c.WaitAny(ctx, in[:]); err != nil {
				return 0, err
			}
			time.Sleep(pause)
		}
		for k := range piece(2 + i) {
			piece(2 + i)[k] = byte(me + round + k)
		}
		if out[i], err = c.Isend(piece(2+i), p, i); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if err := c.Wait(ctx, append(in[:], out[:]...)); err != nil {
		return 0, err
	}
	took = time.Since(start)
	for i, p := range peers {
		for k, x := range piece(i) {
			if x != byte(p+round+k) {
				return 0, fmt.Errorf("byte %d from rank %d: %d, want %d", k, p, x, byte(p+round+k))
			}
		}
	}
	return took, nil
}

const neighbour, remote = 1, 2 // the rank on the node of rank 0, and a rank on the other node

// The messages from rank 0 to these two ranks: a number of milliseconds after which the rank answers, or stop.
const (
	stop = 0
	ask  = 3
)

// answers checks how rank 0 waits. Rank 0 sends questions to two other ranks, which answer later.
func answers(ctx context.Context, t spmd.Transport, c spmd.Comm) error {
	if c.Rank() > remote {
		return nil
	}
	if c.Rank() > 0 {
		return answer(ctx, c)
	}
	waits := t.(interface {
		Waits() (yielded, woken, missed int64)
	}).Waits
	return errors.Join(yieldsOnce(ctx, c, waits), wakesForMessages(ctx, c, waits))
}

// answer answers the questions of rank 0 until the stop message arrives.
func answer(ctx context.Context, c spmd.Comm) error {
	for {
		word := []byte{0}
		if err := pass(ctx, c, c.Irecv, word, 0); err != nil || word[0] == stop {
			return err
		}
		time.Sleep(time.Duration(word[0]) * time.Millisecond)
		if err := pass(ctx, c, c.Isend, word, 0); err != nil {
			return err
		}
	}
}

func tell(ctx context.Context, c spmd.Comm, to int, word byte) error {
	return pass(ctx, c, c.Isend, []byte{word}, to)
}

// yieldsOnce shows that of several long waits only the first yields the core.
func yieldsOnce(ctx context.Context, c spmd.Comm, waits func() (yielded, woken, missed int64)) error {
	time.Sleep(100 * time.Millisecond) // long waits may yield again
	before, _, _ := waits()
	for range 5 {
		if err := tell(ctx, c, neighbour, ask); err != nil {
			return err
		}
		if err := pass(ctx, c, c.Irecv, []byte{0}, neighbour); err != nil {
			return err
		}
	}
	if after, _, _ := waits(); after > before+1 {
		return fmt.Errorf("%d of 5 long waits yielded, want the first alone", after-before)
	}
	return nil
}

// wakesForMessages shows that no message arrives unnoticed while a wait sleeps. It also shows that a message of the
// node ends a sleep between two tests of MPI. The counts come from the transport's method Waits.
func wakesForMessages(ctx context.Context, c spmd.Comm, waits func() (yielded, woken, missed int64)) error {
	in := make([]spmd.Request, 2) // from the neighbour, and from the other node
	post := func(from int) (err error) {
		in[from-1], err = c.Irecv([]byte{0}, from, 0)
		return err
	}
	first := func(want int) error {
		i, err := c.WaitAny(ctx, in)
		if err == nil && i+1 != want {
			err = fmt.Errorf("an answer of rank %d, which was not asked; want one of rank %d", i+1, want)
		}
		return err
	}
	err := errors.Join(post(neighbour), post(remote), tell(ctx, c, remote, ask), first(remote), post(remote))
	if err != nil {
		return err
	}
	_, woken, missed := waits()
	if missed > 0 {
		return fmt.Errorf("%d messages came while rank 0 slept for others", missed)
	}
	// An answer may also arrive while rank 0 tests MPI, or while it waits for a core. The longer a wait has taken, the
	// longer its sleeps are, so each answer comes later than the one before.
	for late := byte(ask); woken == 0; late++ {
		if late == 200 {
			return errors.New("no message has ended a sleep between two tests of MPI")
		}
		if err := errors.Join(tell(ctx, c, neighbour, late), first(neighbour), post(neighbour)); err != nil {
			return err
		}
		_, woken, _ = waits()
	}
	return errors.Join(tell(ctx, c, neighbour, ask), first(neighbour), tell(ctx, c, remote, ask), first(remote),
		tell(ctx, c, neighbour, stop), tell(ctx, c, remote, stop))
}

// pass posts a send or receive with tag 0 and waits for it.
func pass(ctx context.Context, c spmd.Comm, post func([]byte, int, int) (spmd.Request, error), b []byte,
	peer int) error {
	r, err := post(b, peer, 0)
	if err != nil {
		return err
	}
	return c.Wait(ctx, []spmd.Request{r})
}
