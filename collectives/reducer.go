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

// A Reducer sums gradients and statistics over the members of a Group, and gathers results of the members. The members
// are the replicas of a model. Methods without a context use the context of NewReducer.
type Reducer struct {
	ctx      context.Context
	g        *Group
	bucket   int // elements
	compress bool
	grad     GradientSum
}

// maxBuckets is the largest number of buckets of a gradient.
const maxBuckets = 1024

// NewReducer returns a Reducer over g that sums gradients in buckets of about bucketBytes bytes. Buckets
// are larger if a gradient would have more than maxBuckets of them. Every wait ends when ctx ends.
func NewReducer(ctx context.Context, g *Group, bucketBytes int) *Reducer {
	return &Reducer{ctx: ctx, g: g, bucket: max(1, bucketBytes/4)}
}

// Compress makes later calls of Gradient send bfloat16, which about halves the bytes. Each member's values
// are rounded, the rounded values are summed in float32, and the sum is rounded again. CompressionError
// returns the relative error of the first rounding.
func (r *Reducer) Compress() { r.compress = true }

// Replicas returns the number of members and this member's number.
func (r *Reducer) Replicas() (n, member int) { return r.g.Size(), r.g.Rank() }

// Sum sums x over the members, in place.
func (r *Reducer) Sum(x []float64) error { return r.g.Sum64(r.ctx, x) }

// Gather fills x on every member with the blocks of all members: see AllGather.
func (r *Reducer) Gather(x []float32, counts []int) error {
	return r.g.Run(r.ctx, AllGather(x, counts))
}

// Gradient begins the sum of grad, which must be memory of World.Alloc. The sum of the previous call must have ended.
// The GradientSum is valid until the next call.
func (r *Reducer) Gradient(grad []float32) *GradientSum {
	r.grad.begin(r, grad)
	return &r.grad
}

// A GradientSum sums a flat gradient in buckets. The sum of a bucket starts when all its elements are final, and runs
// during the rest of the backward pass. Every bucket is summed by the same tree over members, so the bucket size does
// not change the result. All members must call Ready with the same ranges in the same order, so that they start buckets
// in the same order.
type GradientSum struct {
	r       *Reducer
	grad    []float32
	bucket  int       // elements
	missing []int     // number of elements of each bucket that are not ready
	futures []*Future // the first `started` elements are the futures of the started buckets
	started int
	order   []int  // the started buckets, in the order of their start
	wire    []BF16 // the compressed gradient

	squares, lost float64 // sums of squares of the gradient and of its rounding errors
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

// Ready marks grad[lo:hi] as final and starts the buckets that are now complete.
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

// Wait starts the remaining buckets, in order, and returns when all of grad holds the sum. For each bucket that holds
// its sum, Wait calls onBucket with the bucket's range, in the order in which the buckets started. onBucket may be nil.
func (s *GradientSum) Wait(onBucket func(lo, hi int)) error {
	if onBucket == nil {
		onBucket = func(lo, hi int) {}
	}
	if s.r.g.Size() == 1 {
		onBucket(0, len(s.grad))
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
			tensor.FromBF16(s.grad[lo:hi], bitsOf(s.wire[lo:hi]))
		}
		onBucket(lo, hi)
	}
	if err != nil {
		return fmt.Errorf("sum gradients over %d replicas: %w", s.r.g.Size(), err)
	}
	return nil
}

// CompressionError returns the relative error by which rounding to bfloat16 has changed this member's gradients since
// the last call, in the Euclidean norm. It returns 0 if no gradients were compressed.
func (r *Reducer) CompressionError() float64 {
	s := &r.grad
	e := 0.0
	if s.squares > 0 {
		e = math.Sqrt(s.lost / s.squares)
	}
	s.squares, s.lost = 0, 0
	return e
}

// start starts the sum of bucket b. The bucket that starts last is only queued, and Wait runs it.
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

// round rounds grad[lo:hi] to bfloat16. It returns the result, which is in s.wire[lo:hi].
func (s *GradientSum) round(lo, hi int) []BF16 {
	if len(s.wire) < len(s.grad) {
		mem, err := s.r.g.host.Alloc(2 * len(s.grad))
		if err != nil {
			mem = make([]byte, 2*len(s.grad)) // works too, but the Group must copy it to communication memory
		}
		s.wire = view[BF16](mem)
	}
	w := s.wire[lo:hi]
	tensor.ToBF16(bitsOf(w), s.grad[lo:hi])
	for i, x := range s.grad[lo:hi] {
		d := float64(x - math.Float32frombits(uint32(w[i])<<16))
		s.squares += float64(x) * float64(x)
		s.lost += d * d
	}
	return w
}

func bitsOf(x []BF16) []uint16 { return unsafe.Slice((*uint16)(unsafe.SliceData(x)), len(x)) }

func (s *GradientSum) bounds(b int) (lo, hi int) {
	return b * s.bucket, min((b+1)*s.bucket, len(s.grad))
}
