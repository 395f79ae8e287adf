package loop

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A clockSync compares the clocks of nodes. The first rank of each node queries the time on rank 0. Other ranks, and
// all ranks of a job on one node, have a nil clockSync, which does nothing.
type clockSync struct {
	comm spmd.Comm
	log  *trace.Log
	time []byte // the time of rank 0, as a message
	reqs []spmd.Request
	left []int // on rank 0: number of remaining questions from each node
}

// roundTrips is the number of questions from each node. The answer with the shortest round trip is used.
const roundTrips = 10

const (
	questionTag = 1
	timeTag     = 2
	timeBytes   = 8
)

// newClockSync returns the clockSync of a rank. The first rank of every node must call it.
func newClockSync(w *spmd.World, log *trace.Log, alloc tensor.Allocator) (*clockSync, error) {
	var heads []int
	for rank, node := range w.Nodes() {
		if node == len(heads) { // nodes are numbered in the order of their lowest ranks
			heads = append(heads, rank)
		}
	}
	if log == nil || len(heads) == 1 || !slices.Contains(heads, w.Rank()) {
		return nil, nil
	}
	ends, err := w.NewComm(heads, "clocks")
	if err != nil {
		return nil, err
	}
	c := &clockSync{comm: ends[0], log: log, reqs: make([]spmd.Request, len(heads)), left: make([]int, len(heads))}
	c.time, err = alloc(timeBytes)
	return c, err
}

// compare sets the offset of this node's clock. The first rank of every node must call it.
func (c *clockSync) compare(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if c.comm.Rank() == 0 {
		return c.answer(ctx)
	}
	best := trace.Offset{Bound: -1}
	for range roundTrips {
		asked := c.log.Now()
		reply, err := c.comm.Irecv(c.time[:timeBytes], 0, timeTag)
		if err != nil {
			return err
		}
		question, err := c.comm.Isend(nil, 0, questionTag)
		if err != nil {
			return err
		}
		if err := c.comm.Wait(ctx, []spmd.Request{reply, question}); err != nil {
			return err
		}
		answered := c.log.Now()
		if bound := (answered - asked + 1) / 2; best.Bound < 0 || bound < best.Bound {
			best = trace.Offset{Ahead: asked + bound - int64(binary.LittleEndian.Uint64(c.time)), Bound: bound}
		}
	}
	c.log.Shift(best)
	return nil
}

// answer answers the questions of all nodes with the time of rank 0.
func (c *clockSync) answer(ctx context.Context) error {
	c.log.Shift(trace.Offset{})
	for node := 1; node < c.comm.Size(); node++ {
		c.left[node] = roundTrips
		if err := c.listen(node); err != nil {
			return err
		}
	}
	for {
		node, err := c.comm.WaitAny(ctx, c.reqs)
		if err != nil || node < 0 {
			return err
		}
		binary.LittleEndian.PutUint64(c.time, uint64(c.log.Now()))
		sent, err := c.comm.Isend(c.time[:timeBytes], node, timeTag)
		if err != nil {
			return err
		}
		if err := c.comm.Wait(ctx, []spmd.Request{sent}); err != nil {
			return err
		}
		if err := c.listen(node); err != nil {
			return err
		}
	}
}

// listen starts to receive the next question from a node. After the last question it does nothing.
func (c *clockSync) listen(node int) (err error) {
	if c.left[node]--; c.left[node] < 0 {
		return nil
	}
	c.reqs[node], err = c.comm.Irecv(nil, node, questionTag)
	return err
}
