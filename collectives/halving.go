package collectives

import (
	"context"
	"math/bits"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A subtree is 2^levels consecutive members. A team of P members has one subtree for each bit of P that is 1, the
// largest first. 13 members, for example, have the subtrees 0 to 7, 8 to 11, and 12. The tree over members adds the sum
// of the last subtree to the sum of the previous subtree, and so on: (0 to 7) + ((8 to 11) + 12).
type subtree struct{ first, levels int }

// none stands for a missing subtree.
var none = subtree{levels: -1}

func (s subtree) size() int { return 1 << s.levels }

// subtrees returns the subtree of member m among p members, and the subtrees before and after it.
func subtrees(p, m int) (own, before, after subtree) {
	own, before, after = none, none, none
	for first := 0; first < p; {
		s := subtree{first, bits.Len(uint(p-first)) - 1}
		first += s.size()
		if m >= first {
			before = s
		} else if own == none {
			own = s
		} else {
			return own, before, s
		}
	}
	return own, before, after
}

// A halving reduces a vector over a team by the tree over members (see subtree). Within a subtree it uses recursive
// halving: in the round of level l, members at distance 2^l exchange halves of their common range. After the last round
// each member has one shard of the subtree's sum. The rounds of two levels may be merged: four members then exchange
// quarters, which takes three messages instead of two, but the latency of one round.
//
// The next subtree is smaller and reduces at the same time, in fewer rounds. Then each of its members splits its shard
// into parts, and sends each part to the member of the larger subtree that has the same range. If this would take too
// many parts, the parts are fewer and larger: they go to the first members of the larger subtree, before an earlier
// round (see entry). In each later round, these members send half of the part along with half of their own range.
//
// If whole is true, members exchange whole vectors instead of halves. This is recursive doubling.
//
// Partial sums of bfloat16 are float32, and are rounded at the end. A member's input is sent as bfloat16.
type halving struct {
	t                  *team
	op                 spmd.Op
	whole              bool
	own, before, after subtree
	i                  int // this member's number in its own subtree

	dtype, partial tensor.DType // types of vector and of sum
	vector         []byte       // the members' input, then the result
	sum            []byte       // partial sums; the same memory as vector, unless the types differ
	n, levels      int          // the vector has n elements, in 2^levels shards
	cuts           []int        // first element of each shard, and n; nil if shards are even
	in, out        []byte       // messages
	late           []byte       // received part of the next subtree's sum
}

// maxSplit limits the parts of a shard. A member sends its shard to the previous subtree in at most 2^maxSplit parts.
const maxSplit = 3

// entry returns the level at which the members of s receive the next subtree's sum. They receive it before the exchange
// of this level.
func entry(s, next subtree) int { return min(s.levels, next.levels+maxSplit) }

// newHalving prepares a reduction of b. A reduce-scatter works on a copy of b. Each shard of the copy has the block
// of a member m of the first subtree. If m sends to another member in serve, the shard has that member's block, too.
func newHalving(t *team, c *spmd.Collective, b []byte, whole bool) (*halving, error) {
	h := &t.g.halving
	*h = halving{t: t, op: c.Op, whole: whole, dtype: c.DType, partial: c.DType, vector: b, n: len(b) / c.DType.Size(),
		levels: bits.Len(uint(t.size())) - 1}
	if h.dtype == tensor.BF16 {
		h.partial = tensor.F32
	}
	h.own, h.before, h.after = subtrees(t.size(), t.me)
	h.i = t.me - h.own.first
	if err := h.allocate(c.Kind == spmd.ReduceScatter); err != nil {
		return nil, err
	}
	if c.Kind == spmd.ReduceScatter {
		h.cuts = t.g.cuts[:0]
		packed := h.vector[:0]
		for shard := range 1 << h.levels {
			h.cuts = append(h.cuts, len(packed)/h.dtype.Size())
			m := reverse(shard, h.levels)
			packed = append(packed, t.block(b, c, m)...)
			if m += 1 << h.levels; m < t.size() {
				packed = append(packed, t.block(b, c, m)...)
			}
		}
		h.cuts = append(h.cuts, h.n)
		t.g.cuts = h.cuts
	}
	return h, nil
}

// allocate allocates the memory for messages and partial sums and, if copied is true, for a copy of the vector.
func (h *halving) allocate(copied bool) error {
	size := func(need bool, elements int, t tensor.DType) int {
		if !need {
			return 0
		}
		return (elements*t.Size() + 7) &^ 7
	}
	message := h.n + 3 // three quarters, each rounded up, or two smaller parts
	if h.whole || copied {
		message = 3 * h.n // three parts of any length
	}
	relays := h.after != none && entry(h.own, h.after) < h.own.levels
	sizes := [5]int{size(true, message, h.partial), size(relays, message, h.partial),
		size(h.after != none, h.n, h.partial), size(h.dtype != h.partial, h.n, h.partial), size(copied, h.n, h.dtype)}
	total := 0
	for _, n := range sizes {
		total += n
	}
	mem, err := h.t.g.scratch(total)
	if err != nil {
		return err
	}
	for i, p := range []*[]byte{&h.in, &h.out, &h.late, &h.sum, &h.vector} {
		if sizes[i] > 0 {
			*p, mem = mem[:sizes[i]:sizes[i]], mem[sizes[i]:]
		}
	}
	if h.dtype == h.partial {
		h.sum = h.vector
	}
	return nil
}

// reverse returns the n lowest bits of i in the opposite order.
func reverse(i, n int) int { return int(bits.Reverse64(uint64(i)) >> (64 - n)) }

// part returns the range of b that member i of a subtree works on before level l. The elements of b have type t.
func (h *halving) part(b []byte, t tensor.DType, l, i int) []byte {
	lo, hi := 0, h.n
	if !h.whole {
		first := reverse(i, l) << (h.levels - l)
		lo, hi = h.cut(first), h.cut(first+1<<(h.levels-l))
	}
	e := t.Size()
	return b[lo*e : hi*e : hi*e]
}

// cut returns the first element of a shard.
func (h *halving) cut(shard int) int {
	if h.cuts != nil {
		return h.cuts[shard]
	}
	return h.n * shard >> h.levels
}

// reduce reduces the vector. Afterwards each member of the first subtree has the result of its shard.
func (h *halving) reduce(ctx context.Context) error {
	for l := 0; l < h.own.levels; l += h.width(l) {
		if err := h.receiveLate(ctx, l); err != nil {
			return err
		}
		if err := h.exchange(ctx, l); err != nil {
			return err
		}
	}
	if err := h.receiveLate(ctx, h.own.levels); err != nil {
		return err
	}
	mine := h.part(h.sum, h.partial, h.own.levels, h.i)
	if h.after != none {
		combine(h.partial, h.op, mine, mine, h.part(h.late, h.partial, h.own.levels, h.i))
	}
	if h.before == none {
		if h.dtype != h.partial {
			tensor.ToBF16(view[uint16](h.part(h.vector, h.dtype, h.own.levels, h.i)), view[float32](mine))
		}
		return nil
	}
	sum, t := h.operand(h.own.levels)
	l := entry(h.before, h.own)
	for i := h.i; i < 1<<l; i += h.own.size() {
		h.t.send(h.part(sum, t, l, i), h.before.first+i)
	}
	return h.t.wait(ctx)
}

// receiveLate receives a part of the next subtree's sum, if this member must receive it at level l.
func (h *halving) receiveLate(ctx context.Context, l int) error {
	if h.after == none || l != entry(h.own, h.after) || h.i >= 1<<l {
		return nil
	}
	late := h.part(h.late, h.partial, l, h.i)
	in, vector := late, h.after.levels == 0 && h.dtype != h.partial // vector: the message is the input of one member
	if vector {
		in = h.in[:len(late)/h.partial.Size()*h.dtype.Size()]
	}
	h.t.recv(in, h.after.first+h.i%h.after.size())
	if err := h.t.wait(ctx); err != nil {
		return err
	}
	if vector {
		tensor.FromBF16(view[float32](late), view[uint16](in))
	}
	return nil
}

// operand returns this member's input (l = 0) or partial sums (l > 0) before level l, and their type.
func (h *halving) operand(l int) ([]byte, tensor.DType) {
	if l == 0 {
		return h.vector, h.dtype
	}
	return h.sum, h.partial
}

// width returns the number of levels, 1 or 2, of the round that begins with level l. If members exchange halves, only
// the first round of the first subtree may have two levels, so that a member sends at most 2⌈log₂P⌉+2 messages.
func (h *halving) width(l int) int {
	next := h.own.levels
	if h.after != none {
		next = entry(h.own, h.after)
	}
	if l+2 <= next && (h.whole || l == 0 && h.before == none) {
		return 2
	}
	return 1
}

// exchange runs the round that begins with level l.
func (h *halving) exchange(ctx context.Context, l int) error {
	b, t := h.operand(l)
	next := l + h.width(l)
	mine := h.part(b, t, next, h.i)
	in := h.in
	var late []byte // buffer for the end of the message: a part of the next subtree's sum
	if h.after != none && l >= entry(h.own, h.after) && h.i>>l == 1 {
		late = h.part(h.late, h.partial, next, h.i)
	}
	pieces := h.t.g.pieces[:0] // in member order
	for j := range 1 << (next - l) {
		other := h.i&^((1<<(next-l)-1)<<l) | j<<l
		if other == h.i {
			pieces = append(pieces, mine)
			continue
		}
		h.t.recv(in[:len(mine)+len(late)], h.own.first+other)
		pieces, in = append(pieces, in[:len(mine)]), in[len(mine):]
	}
	h.t.g.pieces = pieces
	for j := 1; j < 1<<(next-l); j++ {
		other := h.i ^ j<<l
		out := h.part(b, t, next, other)
		if h.after != none && l >= entry(h.own, h.after) && h.i>>l == 0 {
			out = append(append(h.out[:0], out...), h.part(h.late, h.partial, next, other)...)
		}
		h.t.send(out, h.own.first+other)
	}
	if err := h.t.wait(ctx); err != nil {
		return err
	}
	copy(late, in)
	if sum := h.part(h.sum, h.partial, next, h.i); t == h.partial {
		h.t.g.dsts = append(h.t.g.dsts[:0], sum)
		h.t.g.sums.reduce(t, h.op, h.t.g.dsts, pieces, 0, len(sum))
	} else {
		h.t.g.sums.reduceBF16(h.op, sum, pieces)
	}
	return nil
}

// gather sends the shards of the result to all members. It uses the messages of reduce in the reverse direction and
// order.
func (h *halving) gather(ctx context.Context) error {
	part := func(l, i int) []byte { return h.part(h.vector, h.dtype, l, i) }
	if h.before != none {
		l := entry(h.before, h.own)
		for i := h.i; i < 1<<l; i += h.own.size() {
			h.t.recv(part(l, i), h.before.first+i)
		}
		if err := h.t.wait(ctx); err != nil {
			return err
		}
	}
	for l := h.own.levels; ; {
		if h.after != none && l == entry(h.own, h.after) && h.i < 1<<l {
			h.t.send(part(l, h.i), h.after.first+h.i%h.after.size())
		}
		if l == 0 {
			return h.t.wait(ctx)
		}
		last := l - 1
		if last == 1 && h.width(0) == 2 {
			last = 0
		}
		for j := 1; j < 1<<(l-last); j++ {
			other := h.i ^ j<<last
			h.t.recv(part(l, other), h.own.first+other)
			h.t.send(part(l, h.i), h.own.first+other)
		}
		if err := h.t.wait(ctx); err != nil {
			return err
		}
		l = last
	}
}

// serve ends a reduction. Each member m of the first subtree sends b to member n+m, where n is the size of the subtree.
// Member n+m, if there is one, receives the message in dst.
func (h *halving) serve(ctx context.Context, b, dst []byte) error {
	switch first := 1 << h.levels; {
	case h.before != none:
		h.t.recv(dst, h.t.me-first)
	case h.t.me+first < h.t.size():
		h.t.send(b, h.t.me+first)
	}
	return h.t.wait(ctx)
}
