//go:build mpi

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// signalsOf returns n signals in the memory of rank 0. All ranks get the same signals.
func signalsOf(ctx context.Context, t spmd.Transport, n int) (spmd.Shared, []spmd.Signal, error) {
	sh, ok := t.(spmd.SharedMaker).Shared()
	if !ok {
		return nil, nil, errors.New("no shared memory: " + t.Describe().Shared)
	}
	ends, err := everyone(t, 1, "signals")
	if err != nil {
		return nil, nil, err
	}
	c := ends[0]
	defer c.Close()
	size := n * int(unsafe.Sizeof(spmd.Signal{}))
	b, err := t.Alloc(size)
	if err != nil {
		return nil, nil, err
	}
	at, _ := sh.Locate(b)
	word := binary.LittleEndian.AppendUint64(nil, uint64(at))
	var reqs []spmd.Request
	for r := 1; r < t.Size() && t.Rank() == 0; r++ {
		s, err := c.Isend(word, r, 0)
		if err != nil {
			return nil, nil, err
		}
		reqs = append(reqs, s)
	}
	if t.Rank() != 0 {
		r, err := c.Irecv(word, 0, 0)
		if err != nil {
			return nil, nil, err
		}
		reqs = append(reqs, r)
	}
	if err := c.Wait(ctx, reqs); err != nil {
		return nil, nil, err
	}
	if b, err = sh.View(0, int64(binary.LittleEndian.Uint64(word)), size); err != nil {
		return nil, nil, err
	}
	return sh, unsafe.Slice((*spmd.Signal)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

// await prints the times of a round trip of signals between ranks 0 and 1, and of a barrier of all ranks,
// made of a counter and a release signal. It prints the best of five runs, which other load disturbs least.
func await(ctx context.Context, t spmd.Transport, _ []string) error {
	sh, sig, err := signalsOf(ctx, t, 4)
	if err != nil {
		return err
	}
	const rounds = 2000
	best := [2]time.Duration{1 << 62, 1 << 62}
	var ball, epoch uint32
	for range 5 {
		if t.Rank() < 2 && t.Size() > 1 {
			start := time.Now()
			for i := ball; i < ball+rounds; i++ {
				if t.Rank() == 0 {
					sh.Post(&sig[0], i+1)
				}
				if err := sh.Await(ctx, &sig[1-t.Rank()], i, 1-t.Rank()); err != nil {
					return err
				}
				if t.Rank() == 1 {
					sh.Post(&sig[1], i+1)
				}
			}
			ball += rounds
			best[0] = min(best[0], time.Since(start)/rounds)
		}
		arrived, release := &sig[3].Value, &sig[2]
		start := time.Now()
		for range rounds {
			if arrived.Add(1) == uint32(t.Size())*(epoch+1) {
				sh.Post(release, epoch+1)
			} else if err := sh.Await(ctx, release, epoch, -1); err != nil {
				return err
			}
			epoch++
		}
		best[1] = min(best[1], time.Since(start)/rounds)
	}
	if t.Rank() == 0 {
		fmt.Printf("%d ranks: round trip of a signal %v, barrier %v\n", t.Size(), best[0], best[1])
	}
	return nil
}
