package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/spmd"
)

// A control lets the ranks of a benchmark agree on numbers, such as times. It has a communicator of
// its own.
type control struct {
	comm       spmd.Comm
	send, recv []byte // communication memory
	reqs       [2]spmd.Request
}

// newControl returns a control for vectors of up to n numbers.
func newControl(comm spmd.Comm, alloc func(int) ([]byte, error), n int) (*control, error) {
	mem, err := alloc(16 * n)
	if err != nil {
		return nil, err
	}
	return &control{comm: comm, send: mem[:8*n], recv: mem[8*n:]}, nil
}

func (c *control) rank() int { return c.comm.Rank() }
func (c *control) size() int { return c.comm.Size() }

// barrier returns when every rank has called it.
func (c *control) barrier(ctx context.Context) error { return c.max(ctx, nil) }

// max replaces every x[i] by the largest x[i] of any rank. Messages go as in a dissemination
// barrier (Hensgen, Finkel, Manber 1988): after round k a rank knows of 2ᵏ others. If the number of
// ranks is no power of two, a rank gets some values twice, which does not change a maximum.
func (c *control) max(ctx context.Context, x []float64) error {
	rank, size, n := c.rank(), c.size(), 8*len(x)
	if n > len(c.send) {
		panic(fmt.Sprintf("bench: control: %d numbers, room for %d", len(x), len(c.send)/8))
	}
	for hop := 1; hop < size; hop *= 2 {
		for i, v := range x {
			binary.LittleEndian.PutUint64(c.send[8*i:], math.Float64bits(v))
		}
		var err error
		if c.reqs[0], err = c.comm.Irecv(c.recv[:n], (rank-hop+size)%size, 0); err != nil {
			return err
		}
		if c.reqs[1], err = c.comm.Isend(c.send[:n], (rank+hop)%size, 0); err != nil {
			return err
		}
		if err := c.comm.Wait(ctx, c.reqs[:]); err != nil {
			return err
		}
		for i, v := range x {
			x[i] = max(v, math.Float64frombits(binary.LittleEndian.Uint64(c.recv[8*i:])))
		}
	}
	return nil
}
