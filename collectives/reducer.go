package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/spmd"
)

// A Reducer sums gradients and statistics over the members of a Group, which are the replicas of a model. The methods that take no
// context use the one it was made with.
type Reducer struct {
	ctx    context.Context
	g      *Group
	bucket int // elements
	grad   GradientSum
}

// maxBuckets is how many buckets a gradient is cut into at most: all may be under way at once, each with two tags of its own.
const maxBuckets = spmd.MaxTag / 4

// NewReducer returns a Reducer over g, whose gradients travel in buckets of about bucketBytes, or of a larger size when that were too many.
// ctx ends every wait.
func NewReducer(ctx context.Context, g *Group, bucketBytes int) *Reducer {
	return &Reducer{ctx: ctx, g: g, bucket: max(1, bucketBytes/4)}
}

// Replicas returns the number of members, and which one this is.
func (r *Reducer) Replicas() (n, this int) { return r.g.Size(), r.g.Rank() }

// Sum adds x over the members, in place.
func (r *Reducer) Sum(x []float64) error { return r.g.Sum64(r.ctx, x) }

// Gradient opens the sum of grad, which is communication memory. One is open at a time. The result is good until the next call.
func (r *Reducer) Gradient(grad []float32) *GradientSum {
	r.grad.begin(r, grad)
	return &r.grad
}

// A GradientSum sums a flat gradient in buckets, each of which leaves as soon as all of it is final. Buckets are cut at the same
// places whatever became ready when, and each is summed in member order, so their size does not change the result. All members make
// the same ranges ready in the same order, and so start the same buckets in the same order.
type GradientSum struct {
	r       *Reducer
	grad    []float32
	bucket  int            // elements
	missing []int          // per bucket: elements not yet ready
	sums    []sum[float32] // one per bucket, and more where an earlier gradient had more
	started int            // sums[:started] are under way or done
	err     error          // the first failure, for Wait
}

func (s *GradientSum) begin(r *Reducer, grad []float32) {
	s.r, s.grad, s.started, s.err = r, grad, 0, nil
	s.bucket = max(r.bucket, (len(grad)+maxBuckets-1)/maxBuckets)
	n := (len(grad) + s.bucket - 1) / s.bucket
	s.missing = slices.Grow(s.missing[:0], n)[:n]
	if n > len(s.sums) {
		s.sums = append(s.sums, make([]sum[float32], n-len(s.sums))...)
	}
	for b := range s.missing {
		lo, hi := s.bounds(b)
		s.missing[b] = hi - lo
	}
}

// Ready says that grad[lo:hi] is final; buckets that are complete with it start to travel, and those under way move on.
func (s *GradientSum) Ready(lo, hi int) {
	if s.err != nil || s.r.g.Size() == 1 || lo == hi {
		return
	}
	for b := lo / s.bucket; b <= (hi-1)/s.bucket; b++ {
		from, to := s.bounds(b)
		s.missing[b] -= min(hi, to) - max(lo, from)
		if s.missing[b] == 0 {
			s.start(b)
		}
	}
	for i := range s.started {
		if s.err == nil {
			_, s.err = s.sums[i].poll()
		}
	}
}

// Wait starts what was never made ready, in order, and returns when all of grad holds the sum.
func (s *GradientSum) Wait() error {
	if s.r.g.Size() > 1 {
		for b := range s.missing {
			if s.missing[b] != 0 {
				s.missing[b] = 0
				s.start(b)
			}
		}
		for i := range s.started {
			if s.err == nil {
				s.err = s.sums[i].finish(s.r.ctx)
			}
		}
	}
	if s.err != nil {
		return fmt.Errorf("sum gradients over %d replicas: %w", s.r.g.Size(), s.err)
	}
	return nil
}

func (s *GradientSum) start(b int) {
	if s.err != nil {
		return
	}
	lo, hi := s.bounds(b)
	s.err = s.sums[s.started].start(s.r.g, s.grad[lo:hi])
	s.started++
}

func (s *GradientSum) bounds(b int) (lo, hi int) {
	return b * s.bucket, min((b+1)*s.bucket, len(s.grad))
}
