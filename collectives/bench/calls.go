package bench

import (
	"context"
	"strconv"

	"github.com/rlinf/rlinf/spmd"
)

// calls makes the calls of one arm: one kind of operation on buffers that are used in rotation.
type calls struct {
	point
	plan   *Suite
	run    func(context.Context, *spmd.Collective) error
	memory string
	out    bool   // calls are out of place
	ring   region // memory of all slots
	step   int    // bytes of a slot, which has the buffers of a call
	slots  int    // number of slots
	filled bool   // the slots have their input
	me     int
	salt   uint64
}

func (c *calls) arm(name string, t *team) *arm {
	c.me = t.Rank()
	a := &arm{call: c.call, refill: c.refill}
	a.row.Op, a.row.Algorithm, a.row.Ranks, a.row.Size = c.kind.String(), name, c.ranks, int64(c.size)
	if c.kind == spmd.Barrier {
		return a
	}
	if c.plan.Check {
		a.check = c.check
	}
	a.row.Count, a.row.DType, a.row.Memory = int64(c.size/c.dtype.Size()), typeName(c.dtype), c.memory
	if c.out {
		a.row.Memory += "+out"
	}
	switch c.kind {
	case spmd.AllReduce, spmd.Reduce, spmd.ReduceScatter:
		a.row.RedOp = c.plan.Op.String()
	}
	switch c.kind {
	case spmd.Broadcast, spmd.Reduce, spmd.Gather, spmd.Scatter:
		a.row.Root = strconv.Itoa(c.plan.Root % c.ranks)
		if c.plan.Rotate {
			a.row.Root = "rotate"
		}
	}
	return a
}

// root returns the root of call i.
func (c *calls) root(i int) int {
	if c.plan.Rotate {
		return i % c.ranks
	}
	return c.plan.Root % c.ranks
}

// operand returns the buffers of call i in a slot.
func (c *calls) operand(slot, i int) operand {
	root := c.root(i)
	o := operand{
		pattern: pattern{op: c.plan.Op, dtype: c.dtype, members: c.ranks, salt: c.salt, real: c.plan.Real},
		me:      c.me, kind: c.kind, root: root, size: c.size,
	}
	data, second := lengths(c.kind, c.ranks, c.me, root, c.size, c.out)
	o.data = c.ring.buffer(slot*c.step, data)
	if c.out || c.kind == spmd.SendReceive {
		o.second = c.ring.buffer(slot*c.step+stride(c.size), second)
	}
	return o
}

// call makes call number i. The benchmark times only this method.
func (c *calls) call(ctx context.Context, i int) error {
	o := c.operand(i%c.slots, i)
	if o.second != nil && !hasSend(c.kind) {
		copy(o.input(), o.second)
	}
	op := o.collective()
	return c.run(ctx, &op)
}

// refill writes the input into the buffers. If there are several slots, all get the input of the first slot, and only
// once, because the results of timed calls are not checked.
func (c *calls) refill() {
	if c.slots > 1 && c.filled {
		return
	}
	c.filled = true
	o := c.operand(0, 0)
	o.fill()
	spread(c.ring.buffer(0, c.slots*c.step), c.step)
}

// check makes one more call, with new numbers in the buffers, and returns the number of wrong elements.
func (c *calls) check(ctx context.Context) (int64, error) {
	c.salt++
	i := int(c.salt) * c.slots // a call in the first slot; its root changes from check to check
	o := c.operand(0, i)
	second := stride(c.size)
	c.ring.guarded(0, len(o.data))
	if o.second != nil {
		c.ring.guarded(second, len(o.second))
	}
	o.fill()
	if err := c.call(ctx, i); err != nil {
		return 0, err
	}
	wrong := o.wrongElements()
	if !c.ring.intact(0, len(o.data)) || o.second != nil && !c.ring.intact(second, len(o.second)) {
		wrong++
	}
	return wrong, nil
}
