//go:build mpi

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// newNative makes a communicator of the library.
func newNative(t spmd.Transport, ranks []int, label string) (spmd.Native, error) {
	return t.(spmd.NativeMaker).NewNative(ranks, label)
}

// chunked lets the operations of n that can be cut be cut after so many elements.
func chunked(n spmd.Native, elements int) { n.(interface{ ChunkAt(int) }).ChunkAt(elements) }

// natives holds every collective of the library, on groups of 1 to all ranks, against a plain
// reference. args may be "huge", for one that MPI cannot count.
func natives(ctx context.Context, t spmd.Transport, args []string) error {
	checked := 0
	for size := 1; size <= t.Size(); size++ {
		ranks := make([]int, size) // members in another order than the ranks
		for m := range ranks {
			ranks[m] = (2*size - 1 - m) % size
		}
		if !slices.Contains(ranks, t.Rank()) {
			continue
		}
		n, err := newNative(t, ranks, fmt.Sprint("natives ", size))
		if err != nil {
			return err
		}
		if n.Size() != size || ranks[n.Rank()] != t.Rank() {
			return fmt.Errorf("rank %d is member %d of %v", t.Rank(), n.Rank(), ranks)
		}
		b, err := newBench(ctx, t, n)
		if err != nil {
			return err
		}
		if err := b.all(); err != nil {
			return err
		}
		if size == 2 {
			if err := roundsToEven(n); err != nil {
				return err
			}
			if slices.Contains(args, "huge") {
				if err := beyondInt(ctx, t, n); err != nil {
					return err
				}
			}
		}
		if err := refusesCollectives(ctx, t, n); err != nil {
			return err
		}
		checked += b.checked
		if size == t.Size() {
			break // left open: the transport closes it
		}
		if err := n.Close(); err != nil {
			return err
		}
		if err := n.Close(); err != nil {
			return fmt.Errorf("close for the second time: %w", err)
		}
		if err := n.RunBlocking(&spmd.Collective{}); err == nil ||
			!strings.Contains(err.Error(), "barrier: the communicator is closed") {
			return fmt.Errorf("a collective after Close: %v", err)
		}
	}
	if t.Rank() == 0 {
		fmt.Printf("%d collectives\n", checked)
	}
	return nil
}

// A bench runs collectives and looks at what they leave.
type bench struct {
	ctx      context.Context
	n        spmd.Native
	memories [2][2][]byte // for the data and what is sent: outside Go's heap, and in it
	want     []byte
	checked  int
	sampled  bool // what is tried now is the sample for blocking calls, which take long where ranks share cores
}

const (
	guard   = 64
	longest = 65537
	margin  = 8 * 16 // what uneven counts may add
)

func newBench(ctx context.Context, t spmd.Transport, n spmd.Native) (*bench, error) {
	b := &bench{ctx: ctx, n: n, want: make([]byte, 8*longest+margin)}
	for i := range b.memories[0] {
		room := 8*longest + margin + 2*guard + 8
		b.memories[1][i] = make([]byte, room)
		var err error
		if b.memories[0][i], err = t.Alloc(room); err != nil {
			return nil, err
		}
	}
	return b, nil
}

var dtypes = []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8, tensor.BF16}

// all runs each kind for each type and length, first whole, then cut into chunks.
func (b *bench) all() error {
	for _, length := range []int{0, 1, 7, 1000, longest} {
		for _, dtype := range dtypes {
			b.sampled = dtype == tensor.BF16 && length == 1000
			chunked(b.n, 1<<30)
			for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
				if err := b.kind(kind, dtype, length); err != nil {
					return err
				}
			}
			chunked(b.n, 999)
			for _, kind := range []spmd.Kind{spmd.Broadcast, spmd.Reduce, spmd.AllReduce, spmd.SendReceive} {
				if err := b.try(spmd.Collective{Kind: kind, DType: dtype, Op: spmd.Max, Root: b.n.Size() - 1},
					length); err != nil {
					return fmt.Errorf("cut after 999 elements: %w", err)
				}
			}
		}
	}
	return nil
}

// kind runs a kind with every operation, and every way to say what the blocks are.
func (b *bench) kind(kind spmd.Kind, dtype tensor.DType, length int) error {
	size := b.n.Size()
	c := spmd.Collective{Kind: kind, DType: dtype, Root: (length + int(dtype)) % size}
	counts := func(m int) []int { // uneven, and some 0
		k := make([]int, size)
		for i := range k {
			k[i] = length / size * ((i + m) % 3) / 2
		}
		k[0] += min(length, 3)
		return k
	}
	even := slices.Repeat([]int{length / size}, size)
	switch kind {
	case spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter:
		for op := spmd.Sum; op <= spmd.Max; op++ {
			if length == longest && op != spmd.Op(dtype)%4 {
				continue // one is enough where it takes long
			}
			c.Op = op
			if err := b.try(c, length); err != nil {
				return err
			}
			if kind != spmd.ReduceScatter {
				continue
			}
			for _, c.Counts = range [][]int{counts(0), even} {
				if err := b.try(c, sum(c.Counts)); err != nil {
					return err
				}
			}
			c.Counts = nil
		}
		return nil
	case spmd.AllGather:
		if err := b.try(c, length); err != nil {
			return err
		}
	case spmd.Gather, spmd.Scatter:
		if err := b.try(c, sum(even)); err != nil {
			return err
		}
	case spmd.AllToAll:
		return b.exchanges(c, length)
	default:
		return b.try(c, length)
	}
	for _, c.Counts = range [][]int{counts(0), even} {
		if err := b.try(c, sum(c.Counts)); err != nil {
			return err
		}
	}
	return nil
}

func sum(counts []int) int {
	s := 0
	for _, k := range counts {
		s += k
	}
	return s
}

// A matrix says how many elements member `from` has for member `to`.
type matrix func(from, to int) int

// exchanges runs AllToAll with equal blocks and with a matrix of counts, each with memory of its
// own for what is sent and without.
func (b *bench) exchanges(c spmd.Collective, length int) error {
	size, block := b.n.Size(), length/b.n.Size()
	for _, e := range []struct {
		counts matrix
		given  bool // Counts say so
		here   bool // no memory of its own
	}{
		{counts: func(_, _ int) int { return block }},
		{counts: func(_, _ int) int { return block }, here: true},
		{counts: func(from, to int) int { return block * ((from + 2*to) % 3) / 2 }, given: true},
	} {
		me, c := b.n.Rank(), c
		var in, out []int
		for m := range size {
			in, out = append(in, e.counts(m, me)), append(out, e.counts(me, m))
		}
		if e.given {
			c.Counts, c.SendCounts = in, out
		}
		err := b.run(trial{c: c, elements: sum(in), sent: sum(out), sends: !e.here,
			expect: func(want []byte, esize int) (lo, hi int) {
				at := 0
				for m := range size {
					for skip, k := before(e.counts, m, me), 0; k < e.counts(m, me); k++ {
						put(want[at*esize:], c, m, skip+k)
						at++
					}
				}
				return 0, at
			}})
		if err != nil {
			return err
		}
	}
	return nil
}

// before is how many elements `from` has for those before `to`.
func before(counts matrix, from, to int) int {
	s := 0
	for m := range to {
		s += counts(from, m)
	}
	return s
}

// try runs a collective over length elements in all.
func (b *bench) try(c spmd.Collective, length int) error {
	size, me := b.n.Size(), b.n.Rank()
	bounds := make([]int, size+1)
	for m := range size {
		bounds[m+1] = (m + 1) * length / size
		if c.Counts != nil {
			bounds[m+1] = bounds[m] + c.Counts[m]
		}
	}
	mine := bounds[me+1] - bounds[me]
	t := trial{c: c, elements: length, sent: length, sends: c.Kind == spmd.SendReceive}
	t.c.To, t.c.From = (me+1)%size, (me+size-1)%size
	if (c.Kind == spmd.Gather || c.Kind == spmd.Scatter) && c.Root != me {
		t.elements, t.offset = mine, bounds[me]
	}
	t.expect = func(want []byte, esize int) (lo, hi int) {
		moved := func(m, i int) { put(want[(i-t.offset)*esize:], c, m, i) }
		switch c.Kind {
		case spmd.Barrier:
			return 0, 0
		case spmd.Broadcast:
			for i := range length {
				moved(c.Root, i)
			}
		case spmd.AllGather, spmd.Gather:
			if c.Kind == spmd.Gather && c.Root != me {
				return 0, 0
			}
			for m := range size {
				for i := bounds[m]; i < bounds[m+1]; i++ {
					moved(m, i)
				}
			}
		case spmd.Scatter:
			for i := bounds[me]; i < bounds[me+1]; i++ {
				moved(c.Root, i)
			}
			return bounds[me] - t.offset, bounds[me+1] - t.offset
		case spmd.SendReceive:
			for i := range length {
				moved(t.c.From, i)
			}
		default: // reductions
			lo, hi = 0, length
			if c.Kind == spmd.ReduceScatter {
				lo, hi = bounds[me], bounds[me+1]
			}
			if c.Kind == spmd.Reduce && c.Root != me {
				return 0, 0
			}
			for i := lo; i < hi; i++ {
				r := number(c, 0, i)
				for m := 1; m < size; m++ {
					r = join(c.Op, r, number(c, m, i))
				}
				encode(want[i*esize:], c.DType, r)
			}
			return lo, hi
		}
		return 0, length
	}
	return b.run(t)
}

// A trial is a collective and what it must leave.
type trial struct {
	c              spmd.Collective
	elements, sent int
	offset         int  // where this member's data begins in the whole
	sends          bool // it has memory of its own for what is sent
	// expect writes what must be there afterwards, and says which elements that are; the others are
	// used up.
	expect func(want []byte, esize int) (lo, hi int)
}

// run runs a trial by either call, and in either memory in turn.
func (b *bench) run(t trial) error {
	c, esize := t.c, t.c.DType.Size()
	lo, hi := t.expect(b.want, esize)
	lo, hi = lo*esize, hi*esize
	for _, blocking := range []bool{false, true} {
		if blocking && b.n.Size() > 2 && !(b.sampled && c.Op == spmd.Sum) {
			continue
		}
		memory := b.memories[b.checked%2]
		b.checked++
		c.Data = fence(memory[0], t.elements*esize, esize)
		input, elements := c.Data, t.elements
		if t.sends {
			c.Send = fence(memory[1], t.sent*esize, esize)
			input, elements = c.Send, t.sent
		}
		for i := range elements {
			put(input[i*esize:], c, b.n.Rank(), t.offset+i)
		}
		sent := slices.Clone(c.Send)
		var err error
		if blocking {
			err = b.n.RunBlocking(&c)
		} else {
			err = b.n.Run(b.ctx, &c)
		}
		switch {
		case err != nil:
		case !bytes.Equal(c.Data[lo:hi], b.want[lo:hi]):
			k := lo
			for c.Data[k] == b.want[k] {
				k++
			}
			k -= k % esize
			err = fmt.Errorf("element %d is % x, want % x", k/esize, c.Data[k:k+esize], b.want[k:k+esize])
		case !bytes.Equal(c.Send, sent):
			err = errors.New("what was sent has changed")
		case !fenced(memory[0], t.elements*esize, esize), t.sends && !fenced(memory[1], t.sent*esize, esize):
			err = errors.New("an overrun")
		}
		if err != nil {
			return fmt.Errorf("%v of %d %v (%v), root %d, counts %v, send counts %v, member %d of %d, blocking %v: %w",
				c.Kind, t.elements, c.DType, c.Op, c.Root, c.Counts, c.SendCounts, b.n.Rank(), b.n.Size(), blocking,
				err)
		}
	}
	return nil
}

// fence returns n bytes of memory, aligned for elements of esize bytes and no better, with guards
// before and behind.
func fence(memory []byte, n, esize int) []byte {
	from, to := guard+esize, guard+esize+n
	copy(memory[from-guard:from], bytes.Repeat([]byte{0xa5}, guard))
	copy(memory[to:to+guard], bytes.Repeat([]byte{0xa5}, guard))
	return memory[from:to:to]
}

// fenced reports whether the guards are as they were.
func fenced(memory []byte, n, esize int) bool {
	from, to := guard+esize, guard+esize+n
	return bytes.Count(memory[from-guard:from], []byte{0xa5}) == guard &&
		bytes.Count(memory[to:to+guard], []byte{0xa5}) == guard
}

// put writes element i of member m's input.
func put(to []byte, c spmd.Collective, m, i int) {
	switch c.Kind {
	case spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter:
		encode(to, c.DType, number(c, m, i))
	default:
		for k := range c.DType.Size() {
			to[k] = byte(1 + i*131 + i>>8*17 + m*89 + k*29)
		}
	}
}

// number is element i of member m's input of a reduction. What becomes of five of them is exact in
// the type, or wraps around in it.
func number(c spmd.Collective, m, i int) int64 {
	n := int64(i*7 + m*5)
	switch c.DType {
	case tensor.I64:
		return n*1_000_003 - 1<<33
	case tensor.I32:
		return int64(int32(n * 1_000_003))
	case tensor.U8:
		return int64(uint8(n * 1_000_003))
	}
	switch {
	case c.Op == spmd.Prod:
		return [...]int64{-2, -1, 1, 2}[n%4] // none is 0, which has a sign in a product
	case c.DType == tensor.BF16:
		return n%11%5 - 2
	}
	return n%10_000 - 5000
}

// join is the plain reference of an operation, for numbers that stay exact; integers of less than
// 64 bits are what is left of it.
func join(op spmd.Op, a, b int64) int64 {
	switch op {
	case spmd.Sum:
		return a + b
	case spmd.Prod:
		return a * b
	case spmd.Min:
		return min(a, b)
	}
	return max(a, b)
}

func encode(to []byte, dtype tensor.DType, x int64) {
	switch dtype {
	case tensor.F32:
		binary.NativeEndian.PutUint32(to, math.Float32bits(float32(x)))
	case tensor.F64:
		binary.NativeEndian.PutUint64(to, math.Float64bits(float64(x)))
	case tensor.I32:
		binary.NativeEndian.PutUint32(to, uint32(x))
	case tensor.I64:
		binary.NativeEndian.PutUint64(to, uint64(x))
	case tensor.U8:
		to[0] = byte(x)
	case tensor.BF16:
		binary.NativeEndian.PutUint16(to, uint16(math.Float32bits(float32(x))>>16))
	}
}

// roundsToEven holds bf16 operations on two members against tensor's rounding, for every bit
// pattern.
func roundsToEven(n spmd.Native) error {
	const patterns = 1 << 16
	pattern := func(m, i int) uint16 { return uint16(i * (1 + 40_000*m)) }
	wide, bits := make([]float32, 3*patterns), make([]uint16, 3*patterns)
	a, b, r := wide[:patterns], wide[patterns:2*patterns], wide[2*patterns:]
	for i := range patterns {
		bits[i], bits[patterns+i] = pattern(0, i), pattern(1, i)
	}
	tensor.FromBF16(wide[:2*patterns], bits[:2*patterns])
	want := bits[2*patterns:]
	for op, join := range []func(a, b float32) float32{
		func(a, b float32) float32 { return a + b },
		func(a, b float32) float32 { return a * b },
		func(a, b float32) float32 { return min(a, b) },
		func(a, b float32) float32 { return max(a, b) },
	} {
		for i := range r {
			r[i] = join(a[i], b[i])
		}
		tensor.ToBF16(want, r)
		data := make([]uint16, patterns)
		copy(data, bits[n.Rank()*patterns:])
		c := &spmd.Collective{Kind: spmd.AllReduce, DType: tensor.BF16, Op: spmd.Op(op),
			Data: unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 2*patterns)}
		if err := n.RunBlocking(c); err != nil {
			return err
		}
		for i, got := range data {
			nan := a[i] != a[i] || b[i] != b[i]
			zeros := a[i] == 0 && b[i] == 0 // either zero will do for a minimum
			if spmd.Op(op) < spmd.Min && r[i] != r[i] {
				nan = got&0x7fff > 0x7f80
				if !nan {
					return fmt.Errorf("%v of %x and %x: %x, want a NaN", spmd.Op(op), bits[i], bits[patterns+i], got)
				}
			}
			if got != want[i] && !nan && !zeros {
				return fmt.Errorf("%v of %x and %x: %x, want %x", spmd.Op(op), bits[i], bits[patterns+i], got, want[i])
			}
		}
	}
	return nil
}

// beyondInt sums more elements than a C int counts, in the pieces that the transport makes of them.
func beyondInt(ctx context.Context, t spmd.Transport, n spmd.Native) error {
	data, err := t.Alloc(1<<31 + 5)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] = byte(i + i>>20 + n.Rank())
	}
	chunked(n, 1<<30)
	c := &spmd.Collective{Kind: spmd.AllReduce, DType: tensor.U8, Data: data}
	if err := n.Run(ctx, c); err != nil {
		return err
	}
	for i, got := range data {
		if want := byte(2*(i+i>>20) + 1); got != want {
			return fmt.Errorf("sum of %d elements: element %d is %d, want %d", len(data), i, got, want)
		}
	}
	return nil
}

// refusesCollectives holds what must be an error against what its text must name. None of these
// reaches MPI.
func refusesCollectives(ctx context.Context, t spmd.Transport, n spmd.Native) error {
	size, me := n.Size(), n.Rank()
	data := make([]byte, 16*size)
	huge := unsafe.Slice((*byte)(unsafe.Pointer(&t)), 1<<34) // never read
	counts := slices.Repeat([]int{1}, size)
	for _, e := range []struct {
		c    spmd.Collective
		want string
	}{
		{spmd.Collective{Kind: 10}, "Kind(10) of"},
		{spmd.Collective{Kind: spmd.Broadcast}, "no such type"},
		{spmd.Collective{Kind: spmd.Broadcast, DType: tensor.F32, Root: size, Data: data},
			fmt.Sprintf("root %d: expected a member from 0 to %d", size, size-1)},
		{spmd.Collective{Kind: spmd.Gather, DType: tensor.F32, Root: -1, Data: data}, "root -1"},
		{spmd.Collective{Kind: spmd.SendReceive, DType: tensor.F32, To: me, From: size, Data: data},
			fmt.Sprintf("from %d: expected", size)},
		{spmd.Collective{Kind: spmd.SendReceive, DType: tensor.F32, To: -1, From: me, Data: data}, "to -1: expected"},
		{spmd.Collective{Kind: spmd.AllReduce, DType: tensor.F32, Data: data[:7]},
			"7 bytes of data and 0 to send: expected multiples of 4"},
		{spmd.Collective{Kind: spmd.AllReduce, DType: tensor.F32, Data: data[1:5]}, "at an address"},
		{spmd.Collective{Kind: spmd.AllReduce, DType: tensor.F32, Op: 4, Data: data}, "(Op(4)): no such operation"},
		{spmd.Collective{Kind: spmd.AllGather, DType: tensor.F32, Counts: []int{}, Data: data},
			"0 Counts: expected one for each of"},
		{spmd.Collective{Kind: spmd.AllGather, DType: tensor.F32, Counts: counts, Data: data[:0]},
			fmt.Sprintf("of 0 F32: the Counts are for %d elements", size)},
		{spmd.Collective{Kind: spmd.Scatter, DType: tensor.F32, Root: me, Counts: append(slices.Clone(counts[1:]), -1),
			Data: data}, "is -1: expected 0 or more"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.F32, Data: data, Send: data[:4*size]},
			"elements to send: expected as many as arrive"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.F32, Data: data, SendCounts: counts},
			"expected Counts and SendCounts, or neither"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.F32, Counts: counts, Data: data[:4*size]},
			"expected Counts and SendCounts, or neither"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.F32, Counts: counts, SendCounts: []int{},
			Data: data[:4*size], Send: data}, "0 SendCounts: expected"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.F32, Counts: counts, SendCounts: counts,
			Data: data[:4*size], Send: data}, "elements to send: the Counts are for"},
		{spmd.Collective{Kind: spmd.ReduceScatter, DType: tensor.F32, Data: huge},
			"too many for MPI, which counts to 2147483647 here"},
		{spmd.Collective{Kind: spmd.AllGather, DType: tensor.U8, Data: huge}, "too many for MPI"},
		{spmd.Collective{Kind: spmd.AllGather, DType: tensor.U8, Data: huge[1:]}, "too many for MPI"},
		{spmd.Collective{Kind: spmd.AllToAll, DType: tensor.U8, Data: huge[:len(huge)/size*size]}, "too many for MPI"},
	} {
		for _, err := range []error{n.Run(ctx, &e.c), n.RunBlocking(&e.c), n.Time(&e.c, 1, nil)} {
			if err == nil || !strings.Contains(err.Error(), e.want) ||
				!strings.Contains(err.Error(), fmt.Sprintf(`communicator "natives %d", member %d: `, size, me)) {
				return fmt.Errorf("error %v, want one with %q", err, e.want)
			}
		}
	}
	if err := n.Time(&spmd.Collective{}, 0, nil); err == nil || !strings.Contains(err.Error(), "batches of 0") {
		return fmt.Errorf("batches of 0: %v", err)
	}
	for _, e := range []struct {
		ranks []int
		want  string
	}{
		{[]int{t.Rank(), t.Rank()}, fmt.Sprintf("member 1 is on rank %d, which has a member already", t.Rank())},
		{[]int{t.Size()}, "member 0 is on rank"},
		{nil, "no members"},
		{[]int{(t.Rank() + 1) % t.Size()}, "calls, but the members are on ranks"},
	} {
		if t.Size() == 1 {
			break
		}
		if _, err := newNative(t, e.ranks, "wrong"); err == nil ||
			!strings.Contains(err.Error(), `native communicator "wrong": `) || !strings.Contains(err.Error(), e.want) {
			return fmt.Errorf("members %v: %v, want an error with %q", e.ranks, err, e.want)
		}
	}
	return nil
}

// nativeShort shows that a message which is shorter than its place is an error of who waits for it,
// and nothing worse.
func nativeShort(ctx context.Context, t spmd.Transport, _ []string) error {
	n, err := newNative(t, []int{0, 1}, "short")
	if err != nil {
		return err
	}
	defer n.Close()
	peer := 1 - n.Rank()
	data, send := make([]byte, 4000), make([]byte, 4000-n.Rank()*2800) // member 1 sends less
	c := &spmd.Collective{Kind: spmd.SendReceive, DType: tensor.F32, Data: data, Send: send, To: peer, From: peer}
	for i, err := range []error{n.Run(ctx, c), n.RunBlocking(c)} {
		if n.Rank() == 1 {
			if err != nil {
				return err
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(),
			"sendrecv of 1000 F32, to 1 and from 1: got 300 elements only") {
			return fmt.Errorf("a short message, call %d: %v", i, err)
		}
	}
	return n.RunBlocking(&spmd.Collective{})
}

// nativeAbandon shows that who gives up waiting leaves the others nothing to wait for: their
// collective ends although this rank computes and calls MPI no more. args[0] is a folder where they
// tell it so.
func nativeAbandon(ctx context.Context, t spmd.Transport, args []string) error {
	all := make([]int, t.Size())
	for r := range all {
		all[r] = r
	}
	n, err := newNative(t, all, "abandoned")
	if err != nil {
		return err
	}
	ends, err := t.NewComm(all, "signal")
	if err != nil {
		return err
	}
	data := []byte{byte(t.Rank())}
	c := &spmd.Collective{Kind: spmd.AllReduce, DType: tensor.U8, Data: data}
	done := func(r int) string { return fmt.Sprintf("%s/%d", args[0], r) }
	reqs := make([]spmd.Request, t.Size())
	if t.Rank() != 0 {
		if reqs[0], err = ends[0].Irecv(nil, 0, 0); err != nil {
			return err
		}
		if err := ends[0].Wait(ctx, reqs); err != nil {
			return err
		}
		if err := n.Run(ctx, c); err != nil {
			return err
		}
		if err := os.WriteFile(done(t.Rank()), nil, 0o644); err != nil {
			return err
		}
	} else {
		stopped, stop := context.WithCancelCause(ctx)
		cause := errors.New("enough")
		time.AfterFunc(20*time.Millisecond, func() { stop(cause) })
		if err := n.Run(stopped, c); err != cause {
			return fmt.Errorf("a collective that nobody else joins: %v, want the cause of the context's end", err)
		}
		for _, err := range []error{n.Run(ctx, c), n.RunBlocking(c), n.Time(c, 1, nil)} {
			if err == nil || !strings.Contains(err.Error(), "the communicator broke before: ") ||
				!strings.Contains(err.Error(), "allreduce of 1 U8 (sum): nobody waited") {
				return fmt.Errorf("a collective after one that was given up: %v", err)
			}
		}
		for to := 1; to < t.Size(); to++ {
			if reqs[to], err = ends[0].Isend(nil, to, 0); err != nil {
				return err
			}
		}
		if err := ends[0].Wait(ctx, reqs); err != nil {
			return err
		}
		for r := 1; r < t.Size(); r++ {
			for x, _ := os.Stat(done(r)); x == nil; x, _ = os.Stat(done(r)) {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if err := n.Close(); err != nil {
		return err
	}
	if want := byte(t.Size() * (t.Size() - 1) / 2); data[0] != want {
		return fmt.Errorf("the sum is %d, want %d", data[0], want)
	}
	return nil
}

// nativeAllocs shows that collectives allocate nothing, from either kind of memory.
func nativeAllocs(ctx context.Context, t spmd.Transport, _ []string) error {
	n, err := newNative(t, []int{0, 1}, "allocs")
	if err != nil {
		return err
	}
	defer n.Close()
	for _, size := range []int{64, 1 << 20} {
		inside, err := t.Alloc(2 * size)
		if err != nil {
			return err
		}
		for memory, b := range [][]byte{inside, make([]byte, 2*size)} {
			for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
				c := &spmd.Collective{Kind: kind, DType: tensor.F32, Op: spmd.Max, Data: b[:size]}
				switch kind {
				case spmd.AllToAll, spmd.SendReceive:
					c.Send, c.To, c.From = b[size:], 1-n.Rank(), 1-n.Rank()
				case spmd.ReduceScatter, spmd.AllGather:
					c.Counts = []int{size/4 - 3, 3}
				case spmd.Gather, spmd.Scatter:
					c.Data = b[:size-n.Rank()*size/2]
				}
				var failed error
				got := testing.AllocsPerRun(20, func() {
					if err := errors.Join(n.Run(ctx, c), n.RunBlocking(c)); err != nil {
						failed = err
					}
				})
				if failed != nil {
					return failed
				}
				if got != 0 {
					return fmt.Errorf("%v of %d bytes in memory %d allocates %v times", kind, size, memory, got)
				}
			}
		}
	}
	return nil
}

// nativeOverhead prints what a blocking collective costs through Go and in a plain loop in C, and
// through Go without blocking: medians of interleaved samples, the slowest rank of each. It is no
// test: times on a machine that does something else mean little.
func nativeOverhead(ctx context.Context, t spmd.Transport, _ []string) error {
	all := make([]int, t.Size())
	for r := range all {
		all[r] = r
	}
	n, err := newNative(t, all, "overhead")
	if err != nil {
		return err
	}
	defer n.Close()
	data, err := t.Alloc(1 << 20)
	if err != nil {
		return err
	}
	const samples = 101
	for _, kind := range []spmd.Kind{spmd.Broadcast, spmd.AllReduce} {
		for _, size := range []int{8, 4 << 10, 64 << 10, 1 << 20} {
			c := &spmd.Collective{Kind: kind, DType: tensor.F32, Op: spmd.Max, Data: data[:size]}
			batch := max(2, 400_000/(size+2000))
			loop := func(run func() error) (float64, error) {
				if err := n.RunBlocking(&spmd.Collective{}); err != nil {
					return 0, err
				}
				start := time.Now()
				for range batch {
					if err := run(); err != nil {
						return 0, err
					}
				}
				return float64(time.Since(start).Nanoseconds()), nil
			}
			var ns [3][samples]float64 // in C, blocking, not blocking
			for i := range samples {
				if err := n.Time(c, batch, ns[0][i:i+1]); err != nil {
					return err
				}
				if ns[1][i], err = loop(func() error { return n.RunBlocking(c) }); err != nil {
					return err
				}
				if ns[2][i], err = loop(func() error { return n.Run(ctx, c) }); err != nil {
					return err
				}
			}
			var median [3]float64
			for k := range ns {
				times := unsafe.Slice((*byte)(unsafe.Pointer(&ns[k][0])), 8*samples)
				if err := n.RunBlocking(&spmd.Collective{Kind: spmd.AllReduce, DType: tensor.F64, Op: spmd.Max,
					Data: times}); err != nil {
					return err
				}
				slices.Sort(ns[k][:])
				median[k] = ns[k][samples/2] / float64(batch) / 1000
			}
			if t.Rank() == 0 {
				fmt.Printf("%-10v %8d B   C %8.2f µs   blocking %8.2f µs, %.2f times, %+.2f µs   not blocking %8.2f "+
					"µs, %.2f times\n", kind, size,
					median[0], median[1], median[1]/median[0], median[1]-median[0], median[2], median[2]/median[0])
			}
		}
	}
	return nil
}

// nativeMaking prints what making a communicator of the library costs.
func nativeMaking(_ context.Context, t spmd.Transport, _ []string) error {
	all := make([]int, t.Size())
	for r := range all {
		all[r] = r
	}
	const times = 10
	used, start := cpu(), time.Now()
	for range times {
		n, err := newNative(t, all, "one of many")
		if err != nil {
			return err
		}
		if err := n.Close(); err != nil {
			return err
		}
	}
	fmt.Printf("rank %d: a native communicator of %d ranks: %v, %v of a core\n", t.Rank(), t.Size(),
		(time.Since(start) / times).Round(time.Microsecond),
		((cpu() - used) / times).Round(time.Microsecond))
	return nil
}
