package collectives

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A Reducer sums gradients and statistics over the members of a Group, which are the replicas of a
// model. The methods that take no context use the one it was made with.
type Reducer struct {
	ctx      context.Context
	g        *Group
	bucket   int // elements
	compress bool
	grad     GradientSum
}

// maxBuckets is how many buckets a gradient is cut into at most.
const maxBuckets = 1024

// NewReducer returns a Reducer over g, whose gradients travel in buckets of about bucketBytes, or
// of a larger size when that were too many. ctx ends every wait.
func NewReducer(ctx context.Context, g *Group, bucketBytes int) *Reducer {
	return &Reducer{ctx: ctx, g: g, bucket: max(1, bucketBytes/4)}
}

// Compress lets gradients travel as bfloat16 from here on: half the bytes, each member's part
// rounded once and their sum, which is made in float32, once more. GradientSum.CompressionError
// says what that costs.
func (r *Reducer) Compress() { r.compress = true }

// Replicas returns the number of members, and which one this is.
func (r *Reducer) Replicas() (n, this int) { return r.g.Size(), r.g.Rank() }

// Sum adds x over the members, in place.
func (r *Reducer) Sum(x []float64) error { return r.g.Sum64(r.ctx, x) }

// Gradient opens the sum of grad, which is communication memory. One is open at a time. The result
// is good until the next call.
func (r *Reducer) Gradient(grad []float32) *GradientSum {
	r.grad.begin(r, grad)
	return &r.grad
}

// A GradientSum sums a flat gradient in buckets, each of which leaves as soon as all of it is
// final, and travels while the backward pass goes on. Buckets are cut at the same places whatever
// became ready when, and each is summed in member order, so their size does not change the result.
// All members make the same ranges ready in the same order, and so start the same buckets in the
// same order.
type GradientSum struct {
	r       *Reducer
	grad    []float32
	bucket  int       // elements
	missing []int     // per bucket: elements not yet ready
	futures []*Future // of the buckets started, and more where an earlier gradient had more
	started int
	order   []int  // the buckets, as they were started
	wire    []BF16 // the gradient as it travels compressed

	squares, lost float64 // of what was rounded, and by it
}

func (s *GradientSum) begin(r *Reducer, grad []float32) {
	s.r, s.grad, s.started, s.order = r, grad, 0, s.order[:0]
	s.bucket = max(r.bucket, (len(grad)+maxBuckets-1)/maxBuckets)
	n := (len(grad) + s.bucket - 1) / s.bucket
	s.missing = slices.Grow(s.missing[:0], n)[:n]
	for len(s.futures) < n {
		s.futures = append(s.futures, new(Future))
	}
	for b := range s.missing {
		lo, hi := s.bounds(b)
		s.missing[b] = hi - lo
	}
}

// Ready marks grad[lo:hi] as final. Buckets that are complete with it start to travel.
func (s *GradientSum) Ready(lo, hi int) {
	if s.r.g.Size() == 1 || lo == hi {
		return
	}
	for b := lo / s.bucket; b <= (hi-1)/s.bucket; b++ {
		from, to := s.bounds(b)
		s.missing[b] -= min(hi, to) - max(lo, from)
		if s.missing[b] == 0 {
			s.start(b)
		}
	}
}

// Wait starts the ranges that were never made ready, in order, and returns when all of grad holds
// the sum. It calls final, if not nil, with each bucket's range once the bucket holds the sum, in
// the order in which buckets were started.
func (s *GradientSum) Wait(final func(lo, hi int)) error {
	if final == nil {
		final = func(lo, hi int) {}
	}
	if s.r.g.Size() == 1 {
		final(0, len(s.grad))
		return nil
	}
	for b := range s.missing {
		if s.missing[b] != 0 {
			s.missing[b] = 0
			s.start(b)
		}
	}
	var err error
	for i, f := range s.futures[:s.started] {
		if e := f.Wait(); e != nil {
			if err == nil {
				err = e
			}
			continue
		}
		lo, hi := s.bounds(s.order[i])
		if s.r.compress {
			tensor.FromBF16(s.grad[lo:hi], bits(s.wire[lo:hi]))
		}
		final(lo, hi)
	}
	if err != nil {
		return fmt.Errorf("sum gradients over %d replicas: %w", s.r.g.Size(), err)
	}
	return nil
}

// CompressionError returns what rounding to bfloat16 has taken from this member's gradients since
// the last call, relative to them in the Euclidean norm; 0 where none were compressed.
func (r *Reducer) CompressionError() float64 {
	s := &r.grad
	e := 0.0
	if s.squares > 0 {
		e = math.Sqrt(s.lost / s.squares)
	}
	s.squares, s.lost = 0, 0
	return e
}

// start starts the sum of bucket b. It leaves the last bucket to Wait, which the caller is about to
// call.
func (s *GradientSum) start(b int) {
	lo, hi := s.bounds(b)
	c := AllReduce(s.grad[lo:hi], spmd.Sum)
	if s.r.compress {
		c = AllReduce(s.round(lo, hi), spmd.Sum)
	}
	f := s.futures[s.started]
	s.started++
	s.order = append(s.order, b)
	if s.started < len(s.missing) {
		s.r.g.start(f, s.r.ctx, c)
	} else {
		s.r.g.enqueue(f, s.r.ctx, c)
	}
}

// round puts grad[lo:hi] into the wire's form.
func (s *GradientSum) round(lo, hi int) []BF16 {
	if len(s.wire) < len(s.grad) {
		mem, err := s.r.g.host.Alloc(2 * len(s.grad))
		if err != nil {
			mem = make([]byte, 2*len(s.grad)) // not where the others reach it, and so copied once more
		}
		s.wire = view[BF16](mem)
	}
	w := s.wire[lo:hi]
	tensor.ToBF16(bits(w), s.grad[lo:hi])
	for i, x := range s.grad[lo:hi] {
		d := float64(x - math.Float32frombits(uint32(w[i])<<16))
		s.squares += float64(x) * float64(x)
		s.lost += d * d
	}
	return w
}

func bits(x []BF16) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.SliceData(x)), len(x))
}

func (s *GradientSum) bounds(b int) (lo, hi int) {
	return b * s.bucket, min((b+1)*s.bucket, len(s.grad))
}
