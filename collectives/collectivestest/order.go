package collectivestest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Ordered runs each reduction that guarantees member order 100 times, with members arriving in
// random orders, and compares all bits with a sum computed by one member. The addends differ so
// much in size that any other order of additions gives other bits.
func Ordered(ctx context.Context, w *spmd.World, ranks []int, wrap func(collectives.Host) collectives.Host) error {
	ends, err := w.NewComm(ranks, "ordered")
	if err != nil {
		return err
	}
	errs := make(chan error, len(ends))
	for _, end := range ends {
		w.Go(fmt.Sprintf("member %d", end.Rank()), func() error {
			err := inOrder(ctx, w, end, wrap)
			errs <- err
			return err
		})
	}
	for range ends {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return err
}

func inOrder(ctx context.Context, w *spmd.World, end spmd.Comm, wrap func(collectives.Host) collectives.Host) error {
	var host collectives.Host = w
	if wrap != nil {
		host = wrap(host)
	}
	g, err := collectives.New(host, end, collectives.Options{})
	if err != nil {
		return err
	}
	byMessages, err := collectives.New(host, end, collectives.Options{Algorithm: "ordered"})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(7, uint64(end.Rank())))
	dtypes := []tensor.DType{tensor.F32, tensor.F64, tensor.BF16}
	if race {
		dtypes = dtypes[:1]
	}
	for _, t := range dtypes {
		for _, n := range []int{1, 7, 1000, 65537, 300_001} {
			mine, want := addends(t, end.Rank(), n), addends(t, 0, n)
			sum := make([]float64, n)
			accumulate(sum, t, want, true)
			for m := 1; m < end.Size(); m++ {
				accumulate(sum, t, addends(t, m, n), false)
			}
			store(want, t, sum)
			x, err := w.Alloc(len(mine))
			if err != nil {
				return err
			}
			for round := range min(100, 2_000_000/n) {
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
				}
				copy(x, mine)
				by := g
				if round%2 == 1 {
					by = byMessages
				}
				if err := by.Run(ctx, spmd.Collective{Kind: spmd.AllReduce, DType: t, Data: x}); err != nil {
					return err
				}
				if !bytes.Equal(x, want) {
					return fmt.Errorf("member %d of %d, round %d: the sum of %d %v is not the one in member order",
						end.Rank(), end.Size(), round, n, t)
				}
			}
		}
	}
	return g.Close()
}

// addends returns member m's input.
func addends(t tensor.DType, m, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(m), 11))
	b, x := make([]byte, n*t.Size()), make([]float64, n)
	for i := range x {
		x[i] = math.Ldexp(r.Float64()-0.5, r.IntN(20))
	}
	store(b, t, x)
	return b
}

// accumulate adds b to sum in the precision of sums of t. If first is set, it sets sum to b.
func accumulate(sum []float64, t tensor.DType, b []byte, first bool) {
	for i := range sum {
		var x float64
		switch t {
		case tensor.F32:
			x = float64(view[float32](b)[i])
		case tensor.F64:
			x = view[float64](b)[i]
		case tensor.BF16:
			x = float64(math.Float32frombits(uint32(view[uint16](b)[i]) << 16))
		}
		switch {
		case first:
			sum[i] = x
		case t == tensor.F64:
			sum[i] += x
		default:
			sum[i] = float64(float32(sum[i]) + float32(x))
		}
	}
}

func store(b []byte, t tensor.DType, x []float64) {
	for i, v := range x {
		switch t {
		case tensor.F32:
			view[float32](b)[i] = float32(v)
		case tensor.F64:
			view[float64](b)[i] = v
		case tensor.BF16:
			tensor.ToBF16(view[uint16](b)[i:i+1], []float32{float32(v)})
		}
	}
}
