package collectivestest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Ordered runs every reduction with every algorithm that the table may choose for it, and compares the bits of the
// result with a reference sum by the tree over members. It also repeats sums while members arrive in random orders.
// The addends differ so much in magnitude that another tree gives other bits. Ordered checks that no byte beside
// the buffers changes, and that a member sends at most 2⌈log₂P⌉+2 messages for an operation. It returns the number
// of operations for each algorithm and kind, under keys such as "tree reduce".
func Ordered(ctx context.Context, w *spmd.World, ranks []int, wrap func(collectives.Host) collectives.Host) (
	made map[string]int, err error) {
	ends, err := w.NewComm(ranks, "ordered")
	if err != nil {
		return nil, err
	}
	errs, counts, want := make(chan error, len(ends)), make([]map[string]int, len(ends)), new(trees)
	for i, end := range ends {
		w.Go(fmt.Sprintf("member %d", end.Rank()), func() error {
			var host collectives.Host = w
			if wrap != nil {
				host = wrap(host)
			}
			s := &sums{ctx: ctx, host: host, end: end, want: want, made: map[string]int{}}
			counts[i] = s.made
			err := s.run(w)
			errs <- err
			return err
		})
	}
	for range ends {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return counts[0], err
}

// sums is the state of one member in Ordered.
type sums struct {
	ctx  context.Context
	host collectives.Host
	end  spmd.Comm
	want *trees
	mem  []byte // memory for the longest vector and its guard bytes
	made map[string]int
}

const longestSum = 20001 // more than a chunk in shared memory

func (s *sums) run(w *spmd.World) (err error) {
	if s.mem, err = w.Alloc(8*longestSum + 2*guard); err != nil {
		return err
	}
	dtypes := []tensor.DType{tensor.F32, tensor.F64, tensor.BF16}
	if race {
		dtypes = dtypes[:1]
	}
	auto, err := collectives.New(s.host, s.end, collectives.Options{})
	if err != nil {
		return err
	}
	groups := map[string]*collectives.Group{}
	for _, name := range collectives.Algorithms()[1:] {
		// A Table skips algorithms that add in another order than the tree. Options.Algorithm would force them.
		rules := []collectives.TuningRule{{Kind: "reduce", Algorithm: name}, {Kind: "allreduce", Algorithm: name},
			{Kind: "reduce_scatter", Algorithm: name}}
		if groups[name], err = collectives.New(s.host, s.end,
			collectives.Options{Table: &collectives.TuningTable{Schema: 1,
				Rules: rules}}); err != nil {
			return err
		}
	}
	for _, t := range dtypes {
		for _, n := range []int{1, 7, 1000, 4099, longestSum} {
			mine, want := addends(t, s.end.Rank(), n), s.want.expected(t, s.end.Size(), n)
			for _, name := range collectives.Algorithms()[1:] {
				if err := s.kinds(groups[name], name, t, mine, want); err != nil {
					return err
				}
			}
			if err := s.repeat(auto, t, mine, want); err != nil {
				return err
			}
		}
	}
	return auto.Close()
}

// kinds runs reductions of each kind, if g chooses the named algorithm for them.
func (s *sums) kinds(g *collectives.Group, name string, t tensor.DType, mine, want []byte) error {
	p, me, n := s.end.Size(), s.end.Rank(), len(mine)/t.Size()
	uneven := make([]int, p)
	for m, rest := 0, n; m < p; m++ {
		uneven[m] = min(rest, n/p+2*(m%3))
		if m == p-1 {
			uneven[m] = rest
		}
		rest -= uneven[m]
	}
	calls := []spmd.Collective{{Kind: spmd.AllReduce}, {Kind: spmd.Reduce}, {Kind: spmd.Reduce, Root: p - 1},
		{Kind: spmd.Reduce, Root: p / 2}, {Kind: spmd.ReduceScatter}, {Kind: spmd.ReduceScatter, Counts: uneven}}
	for _, c := range calls {
		c.DType, c.Data = t, mine
		if g.Choice(&c) != name {
			continue
		}
		before := g.Traffic().Messages
		got, err := s.sum(g, c, mine)
		if err != nil {
			return err
		}
		lo, hi := 0, n
		switch {
		case c.Kind == spmd.Reduce && me != c.Root:
			hi = 0
		case c.Counts != nil:
			for _, k := range c.Counts[:me] {
				lo += k
			}
			hi = lo + c.Counts[me]
		case c.Kind == spmd.ReduceScatter:
			lo, hi = me*n/p, (me+1)*n/p
		}
		if e := t.Size(); !bytes.Equal(got[lo*e:hi*e], want[lo*e:hi*e]) {
			return fmt.Errorf("member %d of %d: %s of %d %v by %s, root %d, blocks %v: other bits than the tree's", me,
				p, c.Kind, n, t, name, c.Root, c.Counts)
		}
		if sent, most := g.Traffic().Messages-before, int64(2*bits.Len(uint(p-1))+2); sent > most {
			return fmt.Errorf("member %d of %d: %s of %d %v by %s: %d messages, want at most %d", me, p, c.Kind, n, t,
				name, sent, most)
		}
		s.made[name+" "+c.Kind.String()]++
	}
	return nil
}

// sum runs c on a copy of the input, with guard bytes around the copy, and returns the result.
func (s *sums) sum(g *collectives.Group, c spmd.Collective, input []byte) ([]byte, error) {
	end := guard + len(input)
	before, behind := s.mem[:guard], s.mem[end:end+guard]
	for i := range guard {
		before[i], behind[i] = 0xa5, 0xa5
	}
	c.Data = s.mem[guard:end:end]
	copy(c.Data, input)
	if err := g.Run(s.ctx, c); err != nil {
		return nil, err
	}
	for i := range guard {
		if before[i] != 0xa5 || behind[i] != 0xa5 {
			return nil, fmt.Errorf("member %d: %v: byte %d outside of the vector was overwritten", s.end.Rank(), c, i)
		}
	}
	return c.Data, nil
}

// repeat repeats a sum. Members arrive in a different order each time.
func (s *sums) repeat(g *collectives.Group, t tensor.DType, mine, want []byte) error {
	r := rand.New(rand.NewPCG(7, uint64(s.end.Rank())))
	for round := range 20 {
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
		}
		got, err := s.sum(g, spmd.Collective{Kind: spmd.AllReduce, DType: t}, mine)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("member %d of %d, round %d: the sum of %d bytes of %v has other bits than the tree's",
				s.end.Rank(), s.end.Size(), round, len(mine), t)
		}
	}
	return nil
}

// trees caches the expected sum for all members of the process.
type trees struct {
	mu   sync.Mutex
	t    tensor.DType
	last []byte // the last expected sum; its elements have type t
}

// expected returns the expected sum of vectors of n elements over all members.
func (k *trees) expected(t tensor.DType, members, n int) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.t != t || len(k.last) != n*t.Size() {
		k.t, k.last = t, make([]byte, n*t.Size())
		store(k.last, t, tree(t, 0, members, n))
	}
	return k.last
}

// tree sums the addends of members lo to hi-1 by the tree over members. It rounds sums to float32 unless t is F64.
func tree(t tensor.DType, lo, hi, n int) []float64 {
	if hi == lo+1 {
		return load(addends(t, lo, n), t)
	}
	left := 1
	for 2*left < hi-lo {
		left *= 2
	}
	sum := tree(t, lo, lo+left, n)
	for i, x := range tree(t, lo+left, hi, n) {
		if sum[i] += x; t != tensor.F64 {
			sum[i] = float64(float32(sum[i])) // the sum of two float32 is rounded only here
		}
	}
	return sum
}

// numbers returns addends that differ so much in magnitude that another tree gives other bits.
var numbers = sync.OnceValue(func() []float64 {
	r, x := rand.New(rand.NewPCG(1, 11)), make([]float64, longestSum+100*prime)
	for i := range x {
		x[i] = math.Ldexp(r.Float64()-0.5, r.IntN(20))
	}
	return x
})

const prime = 419

// addends returns member m's input.
func addends(t tensor.DType, m, n int) []byte {
	b := make([]byte, n*t.Size())
	store(b, t, numbers()[m*prime:][:n])
	return b
}

// load returns the elements of b, which have the type t.
func load(b []byte, t tensor.DType) []float64 {
	x := make([]float64, len(b)/t.Size())
	for i := range x {
		switch t {
		case tensor.F32:
			x[i] = float64(view[float32](b)[i])
		case tensor.F64:
			x[i] = view[float64](b)[i]
		case tensor.BF16:
			x[i] = float64(math.Float32frombits(uint32(view[uint16](b)[i]) << 16))
		}
	}
	return x
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
