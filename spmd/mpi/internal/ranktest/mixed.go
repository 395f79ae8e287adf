//go:build mpi

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// mixed lets every rank wait for its neighbour on a node of two, through memory, and for a rank of
// another node, by MPI, at once. The messages come in either order, soon or when the wait sleeps,
// and are short, long in shared memory or long elsewhere. Rank 0 prints how late it saw the last.
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

// mixedRound exchanges n bytes with the neighbour (rank^1) and a rank of the other node (rank^2);
// the second message is sent after a pause, when the first of either has come. took is how long the
// wait took after that.
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
