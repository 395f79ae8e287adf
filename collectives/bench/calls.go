package bench

import (
	"context"
	"strconv"

	"github.com/rlinf/rlinf/spmd"
)

// calls makes the calls of one arm: one kind of operation on buffers that are used in rotation.
type calls struct {
	point
	plan   *Plan
	run    func(context.Context, *spmd.Collective) error
	memory string
	out    bool   // out of place
	ring   region // of the buffers, one every step bytes
	step   int
	slots  int
	filled bool
	me     int
	salt   uint64
}

func (c *calls) arm(name string, t *team) *arm {
	c.me = t.rank()
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

// operand returns the buffers that call i uses in the given slot of c.ring.
func (c *calls) operand(slot, i int) operand {
	root := c.root(i)
	o := operand{
		pattern: pattern{op: c.plan.Op, dtype: c.dtype, members: c.ranks, salt: c.salt, real: c.plan.Real},
		me:      c.me, kind: c.kind, root: root, size: c.size,
	}
	data, send := lengths(c.kind, c.ranks, c.me, root, c.size)
	at := slot*c.step + guard
	o.data = c.ring.whole[at : at+data : at+data]
	if c.kind == spmd.SendReceive || c.kind == spmd.AllToAll && c.out {
		at += stride(c.size)
		o.send = c.ring.whole[at : at+send : at+send]
	}
	return o
}

// call makes call number i, the part that is timed.
func (c *calls) call(ctx context.Context, i int) error {
	o := c.operand(i%c.slots, i)
	if c.out && o.send == nil {
		in, _ := o.input(o.data)
		if len(in) > 0 {
			from := (i%c.slots)*c.step + stride(c.size) + guard
			copy(in, c.ring.whole[from:from+len(in)])
		}
	}
	op := o.collective()
	return c.run(ctx, &op)
}

// refill puts the input into the buffers. If there are several, they all get the input of the first
// one, and only once, because the results of timed calls are not checked.
func (c *calls) refill() {
	if c.slots > 1 && c.filled {
		return
	}
	c.filled = true
	o := c.operand(0, 0)
	if c.out && o.send == nil {
		o.fillCopy(c.ring.whole[stride(c.size)+guard:][:len(o.data)])
	}
	o.fill()
	spread(c.ring.whole[guard:guard+c.slots*c.step], c.step)
}

// check makes one more call, with other numbers than the last, and returns the number of wrong
// elements.
func (c *calls) check(ctx context.Context) (int64, error) {
	c.salt++
	i := int(c.salt) * c.slots // in the first slot; roots go round
	o := c.operand(0, i)
	o.data = c.ring.bytes(0, len(o.data))
	second := stride(c.size) // where Send lies, or the input that is copied
	if o.send != nil {
		o.send = c.ring.bytes(second, len(o.send))
	}
	o.fill()
	if c.out && o.send == nil {
		o.fillCopy(c.ring.bytes(second, len(o.data)))
		if in, _ := o.input(o.data); len(in) > 0 {
			poisonAll(in)
		}
	}
	if err := c.call(ctx, i); err != nil {
		return 0, err
	}
	wrong := o.wrongElements()
	if !c.ring.intact(0, len(o.data)) || o.send != nil && !c.ring.intact(second, len(o.send)) {
		wrong++
	}
	return wrong, nil
}

// fillCopy writes the input to b. A call out of place copies it from there.
func (o *operand) fillCopy(b []byte) {
	if in, first := o.input(b); len(in) > 0 {
		o.pattern.fill(b[:len(in)], o.me, first)
	}
}
