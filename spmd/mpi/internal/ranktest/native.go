//go:build mpi

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// nativeKinds are the kinds of operations that the MPI library runs.
var nativeKinds = []spmd.CollectiveKind{spmd.Barrier, spmd.Broadcast, spmd.AllReduce}

// newNative makes a communicator with the MPI library's own collectives.
func newNative(t spmd.Transport, ranks []int, label string) (spmd.Native, error) {
	return t.(spmd.NativeMaker).NewNative(ranks, label)
}

// natives tests what the conformance suite of package collectives does not test: groups of one member, the reductions
// of bfloat16 and bytes on many values, rejected calls, and calls after Close. With the argument "huge", it also tests
// more elements than MPI can count.
func natives(ctx context.Context, t spmd.Transport, args []string) error {
	if err := nativeAlone(ctx, t); err != nil {
		return err
	}
	n, err := newNative(t, []int{1, 0}, "natives") // members in the reverse order of the ranks
	if err != nil {
		return err
	}
	if n.Size() != 2 || n.Rank() != 1-t.Rank() {
		return fmt.Errorf("rank %d is member %d of %d, in a group of ranks 1 and 0", t.Rank(), n.Rank(), n.Size())
	}
	if err := errors.Join(arithmetic(n), refusesCollectives(ctx, t, n)); err != nil {
		return err
	}
	if slices.Contains(args, "huge") {
		if err := beyondInt(ctx, t, n); err != nil {
			return err
		}
	}
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		return err
	}
	return refused(n.RunBlocking(&spmd.Collective{}), "barrier: the communicator is closed")
}

// nativeAlone runs every kind in a group of one, in which the result is the input. The communicator stays
// open, so that the transport must close it.
func nativeAlone(ctx context.Context, t spmd.Transport) error {
	n, err := newNative(t, []int{t.Rank()}, "alone")
	if err != nil {
		return err
	}
	for _, kind := range nativeKinds {
		want := []byte{7, 8, 9}
		c := &spmd.Collective{Kind: kind, DType: tensor.U8, Op: spmd.Prod, Data: slices.Clone(want)}
		if err := errors.Join(n.Run(ctx, c), n.RunBlocking(c)); err != nil {
			return err
		}
		if !bytes.Equal(c.Data, want) {
			return fmt.Errorf("%v of one member: %v, want %v", kind, c.Data, want)
		}
	}
	return nil
}

// arithmetic tests the reductions of each type on two members. The data are all pairs of bytes, every bfloat16 paired
// with one other bfloat16, and positive and negative numbers whose products overflow in integers.
func arithmetic(n spmd.Native) error {
	var small [2][]uint8
	var bits [2][]uint16
	var ints [2][]int64
	for i := range 1 << 16 {
		small[0], small[1] = append(small[0], uint8(i)), append(small[1], uint8(i>>8))
		bits[0], bits[1] = append(bits[0], uint16(i)), append(bits[1], uint16(i*40_001))
		ints[0], ints[1] = append(ints[0], int64(i-1<<15)*1_000_003), append(ints[1], int64(i%1001-500)<<44)
	}
	return errors.Join(
		reduces(n, tensor.U8, small),
		reduces(n, tensor.I64, ints),
		reduces(n, tensor.I32, [2][]int32{converted[int32](ints[0]), converted[int32](ints[0][1000:])}),
		reduces(n, tensor.F64, [2][]float64{converted[float64](ints[0]), converted[float64](ints[1])}),
		reduces(n, tensor.F32, [2][]float32{converted[float32](ints[0]), converted[float32](ints[1])}),
		roundsToEven(n, bits),
	)
}

func converted[T, F int32 | int64 | float32 | float64](x []F) []T {
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = T(v)
	}
	return y
}

// operations returns Go functions for Sum, Prod, Min and Max.
func operations[T uint8 | int32 | int64 | float32 | float64]() []func(a, b T) T {
	return []func(a, b T) T{
		func(a, b T) T { return a + b }, func(a, b T) T { return a * b },
		func(a, b T) T { return min(a, b) }, func(a, b T) T { return max(a, b) },
	}
}

// reduces compares the reductions of x with the results of Go's operators. x has the data of both members.
func reduces[T uint8 | int32 | int64 | float32 | float64](n spmd.Native, dtype tensor.DType, x [2][]T) error {
	for op, join := range operations[T]() {
		got, err := reduced(n, dtype, spmd.Op(op), x[n.Rank()][:min(len(x[0]), len(x[1]))])
		if err != nil {
			return err
		}
		for i, v := range got {
			if want := join(x[0][i], x[1][i]); v != want {
				return fmt.Errorf("%v of %v %v and %v: %v, want %v", spmd.Op(op), dtype, x[0][i], x[1][i], v, want)
			}
		}
	}
	return nil
}

// reduced returns the reduction of x over the members.
func reduced[T any](n spmd.Native, dtype tensor.DType, op spmd.Op, x []T) ([]T, error) {
	x = slices.Clone(x)
	data := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*dtype.Size())
	return x, n.RunBlocking(&spmd.Collective{Kind: spmd.AllReduce, DType: dtype, Op: op, Data: data})
}

// roundsToEven is like reduces, but for bfloat16. It expects the results of float32, rounded as in package tensor. If
// the result must be a NaN, it accepts any NaN. It does not check the minimum and maximum of two zeros, or of a NaN.
func roundsToEven(n spmd.Native, bits [2][]uint16) error {
	var x [2][]float32
	for m := range x {
		x[m] = make([]float32, len(bits[m]))
		tensor.FromBF16(x[m], bits[m])
	}
	want := make([]uint16, 1)
	for op, join := range operations[float32]() {
		op := spmd.Op(op)
		got, err := reduced(n, tensor.BF16, op, bits[n.Rank()])
		if err != nil {
			return err
		}
		for i, v := range got {
			a, b := x[0][i], x[1][i]
			if op >= spmd.Min && (a != a || b != b || a == 0 && b == 0) {
				continue
			}
			r := join(a, b)
			tensor.ToBF16(want, []float32{r})
			if nan := r != r; v != want[0] && !nan || nan && v&0x7fff <= 0x7f80 {
				return fmt.Errorf("%v of %x and %x: %x, want %x", op, bits[0][i], bits[1][i], v, want[0])
			}
		}
	}
	return nil
}

// beyondInt sums more elements than fit in a C int, so the transport must split them into chunks.
func beyondInt(ctx context.Context, t spmd.Transport, n spmd.Native) error {
	data, err := t.Alloc(1<<31 + 5)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] = byte(i + i>>20 + n.Rank())
	}
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

// refusesCollectives shows that every call checks its collective. None of these collectives reaches MPI. The tests of
// spmd.Collective.Check cover the checks one by one.
func refusesCollectives(ctx context.Context, t spmd.Transport, n spmd.Native) error {
	var errs []error
	data := make([]byte, 16)
	for _, e := range []struct {
		c    spmd.Collective
		want string
	}{
		{spmd.Collective{Kind: 10}, "Kind(10) of"},
		{spmd.Collective{Kind: spmd.Reduce, DType: tensor.F32, Data: data},
			"reduce of 4 F32: expected barrier, broadcast or allreduce"},
		{spmd.Collective{Kind: spmd.Broadcast, DType: tensor.F32, Root: 2, Data: data}, "broadcast of 4 F32: root 2"},
		{spmd.Collective{Kind: spmd.AllReduce, DType: tensor.F32, Op: 4, Data: data}, "(Op(4)): no such reduction"},
	} {
		for _, err := range []error{n.Run(ctx, &e.c), n.RunBlocking(&e.c), n.Time(&e.c, 1, nil)} {
			errs = append(errs, refused(err, e.want),
				refused(err, fmt.Sprintf(`communicator "natives", member %d: `, n.Rank())))
		}
	}
	errs = append(errs, refused(n.Time(&spmd.Collective{}, 0, nil), "batches of 0"))
	for want, ranks := range map[string][]int{
		fmt.Sprintf("member 1 is on rank %d, which has a member already", t.Rank()): {t.Rank(), t.Rank()},
		"member 0 is on rank":                 {t.Size()},
		"no members":                          nil,
		"calls, but the members are on ranks": {(t.Rank() + 1) % t.Size()},
	} {
		_, err := newNative(t, ranks, "wrong")
		errs = append(errs, refused(err, `native communicator "wrong": `), refused(err, want))
	}
	return errors.Join(errs...)
}

// refused returns an error unless err contains the expected text.
func refused(err error, want string) error {
	if err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("error %v, want one with %q", err, want)
	}
	return nil
}

// nativeAbandon shows that a collective ends for the other ranks if rank 0 abandons it and makes no MPI calls any more.
// The other ranks write files to the folder args[0] when the collective has ended.
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
	if t.Rank() == 0 {
		err = abandon(ctx, n, c, ends[0], args[0])
	} else {
		err = joinLate(ctx, n, c, ends[0], args[0])
	}
	if err != nil {
		return err
	}
	if err := n.Close(); err != nil {
		return err
	}
	if want := byte(t.Size() * (t.Size() - 1) / 2); data[0] != want {
		return fmt.Errorf("the sum is %d, want %d", data[0], want)
	}
	return nil
}

// abandon abandons c on rank 0. Then it lets the other ranks run c, and waits for their files.
func abandon(ctx context.Context, n spmd.Native, c *spmd.Collective, end spmd.Comm, dir string) error {
	stopped, stop := context.WithCancelCause(ctx)
	cause := errors.New("enough")
	time.AfterFunc(20*time.Millisecond, func() { stop(cause) })
	if err := n.Run(stopped, c); err != cause {
		return fmt.Errorf("a collective that nobody else joins: %v, want the cause of the context's end", err)
	}
	for _, err := range []error{n.Run(ctx, c), n.RunBlocking(c), n.Time(c, 1, nil)} {
		if err := errors.Join(refused(err, "the communicator broke before: "),
			refused(err, "allreduce of 1 U8 (sum): nobody waited")); err != nil {
			return fmt.Errorf("a collective after one that was given up: %w", err)
		}
	}
	for to := 1; to < end.Size(); to++ {
		if err := pass(ctx, end, end.Isend, nil, to); err != nil {
			return err
		}
	}
	for r := 1; r < end.Size(); r++ {
		for x, _ := os.Stat(fileOf(dir, r)); x == nil; x, _ = os.Stat(fileOf(dir, r)) {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// joinLate runs c after rank 0 has abandoned it.
func joinLate(ctx context.Context, n spmd.Native, c *spmd.Collective, end spmd.Comm, dir string) error {
	if err := pass(ctx, end, end.Irecv, nil, 0); err != nil {
		return err
	}
	if err := n.Run(ctx, c); err != nil {
		return err
	}
	return os.WriteFile(fileOf(dir, end.Rank()), nil, 0o644)
}

func fileOf(dir string, rank int) string { return fmt.Sprintf("%s/%d", dir, rank) }

// nativeAllocs shows that collectives allocate nothing, whether their buffers are Alloc memory or Go memory.
func nativeAllocs(ctx context.Context, t spmd.Transport, _ []string) error {
	n, err := newNative(t, []int{0, 1}, "allocs")
	if err != nil {
		return err
	}
	defer n.Close()
	for _, size := range []int{64, 1 << 20} {
		inside, err := t.Alloc(size)
		if err != nil {
			return err
		}
		for memory, b := range [][]byte{inside, make([]byte, size)} {
			for _, kind := range nativeKinds {
				c := &spmd.Collective{Kind: kind, DType: tensor.F32, Op: spmd.Max, Data: b}
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
