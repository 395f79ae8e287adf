package nn

import "math"

// A BatchRenorm normalises each column of a batch to mean 0 and variance 1, then multiplies it by γ and adds β (Ioffe
// and Szegedy 2015, arXiv:1502.03167), with the corrections of Ioffe 2017, arXiv:1702.03275. With the statistics μ_B,
// σ_B of a batch of n rows,
//
//	x̂ = (x - μ_B)/σ_B,    y = γ (r x̂ + d) + β,    r = σ_B/σ within [1/3, 3],    d = (μ_B - μ)/σ within ±5
//
// where μ and σ are running statistics. The gradient treats r and d as constants. For the first 100,000 steps, r is 1
// and d is 0. A Forward without batch statistics computes y = γ (x - μ)/σ + β. The running statistics are a buffer of
// the parameters. Training sums the statistics of batches over time and over replicas. It merges the sums into the
// running statistics:
//
//	b.AddStats(sums, w); …; b.MergeStats(sums)
type BatchRenorm[T Float] struct {
	Width int

	p            *Params[T]
	scale, shift int     // fields of p
	stats        string  // name of a buffer of p: steps, then means, then variances
	rate, eps    float64 // rate is 1 - momentum; eps is added to variances
	plain        bool    // see NewBatchNorm2D
}

const (
	renormRate   = 1 - 0.99 // a constant expression is exact, unlike a float64
	renormEps    = 1e-3
	renormWarmup = 100_000
	renormR      = 3.0
	renormD      = 5.0

	plainRate = 1 - 0.9
	plainEps  = 1e-5

	// normBlock is the number of rows of a block. Sums over a block have the type of the layer; the sums of blocks are
	// added in float64.
	normBlock = 1024
)

// NewBatchRenorm declares a layer in p: name.scale, name.shift, and the buffer name.stats.
func NewBatchRenorm[T Float](p *Params[T], name string, width int) *BatchRenorm[T] {
	b := &BatchRenorm[T]{Width: width, p: p, scale: p.Add(name+".scale", width), shift: p.Add(name+".shift", width),
		stats: name + ".stats", rate: renormRate, eps: renormEps}
	p.AddBuffer(b.stats, b.StatsLen())
	return b
}

// NewBatchNorm2D declares a layer for rows that are the pixels of images: name.weight, name.bias, and the buffer
// name.stats. The layer has no corrections: r is 1 and d is 0. Its constants are those of torch.nn.BatchNorm2d. Running
// variances are unbiased.
func NewBatchNorm2D[T Float](p *Params[T], name string, width int) *BatchRenorm[T] {
	b := &BatchRenorm[T]{Width: width, p: p, scale: p.Add(name+".weight", width), shift: p.Add(name+".bias", width),
		stats: name + ".stats", rate: plainRate, eps: plainEps, plain: true}
	p.AddBuffer(b.stats, b.StatsLen())
	return b
}

// Init sets γ and the running variances to 1.
func (b *BatchRenorm[T]) Init() {
	_, variance := b.running()
	for k, scale := 0, b.p.Of(b.scale); k < b.Width; k++ {
		scale[k], variance[k] = 1, 1
	}
}

func (b *BatchRenorm[T]) running() (mean, variance []float64) {
	s := b.p.Buffers.Must(b.stats).F64()
	return s[1 : 1+b.Width], s[1+b.Width:]
}

// A BatchRenormWork holds the activations of one user of a BatchRenorm.
type BatchRenormWork[T Float] struct {
	x, y      []T
	batch     bool
	mean, inv []T // the statistics that the last Forward used; inv = 1/σ
	r, d      []T
	slope     []T       // γ r/σ
	s1, s2    []T       // sums over a block of rows, one for each column
	f1, f2    []float64 // sums over blocks
	sums      []float64 // statistics for AddStats
}

// NewWork returns working memory for at most maxRows rows.
func (b *BatchRenorm[T]) NewWork(maxRows int) *BatchRenormWork[T] {
	column := func() []T { return Vector[T](b.Width) }
	return &BatchRenormWork[T]{
		y: Vector[T](maxRows * b.Width), mean: column(), inv: column(), r: column(), d: column(), slope: column(),
		s1: column(), s2: column(), f1: make([]float64, b.Width), f2: make([]float64, b.Width),
		sums: make([]float64, b.StatsLen()),
	}
}

// Forward returns y for x, [n,Width]. It uses the statistics of x if batch is set, and otherwise the running
// statistics. y lies in memory of w. x must not change before Backward.
func (b *BatchRenorm[T]) Forward(w *BatchRenormWork[T], x []T, n int, batch bool) []T {
	w.x, w.batch = x[:n*b.Width], batch
	if batch {
		b.measure(w, n)
	} else {
		mean, variance := b.running()
		for k, v := range variance {
			w.mean[k], w.inv[k], w.r[k], w.d[k] = T(mean[k]), T(1/math.Sqrt(v+b.eps)), 1, 0
		}
	}
	scale, shift := b.p.Of(b.scale), b.p.Of(b.shift)
	mean, a, c := w.mean, w.slope[:len(w.mean)], w.s2[:len(w.mean)] // equal lengths: the loops need no bounds checks
	for k := range a {
		a[k], c[k] = scale[k]*w.r[k]*w.inv[k], scale[k]*w.d[k]+shift[k]
	}
	y := w.y[:n*b.Width]
	for lo := 0; lo < len(y); lo += b.Width {
		dst, src := y[lo:][:len(mean)], x[lo:][:len(mean)]
		for k, m := range mean {
			dst[k] = (src[k]-m)*a[k] + c[k]
		}
	}
	return y
}

// measure computes the statistics of a batch. It sums differences from the running means, to stay precise for values
// far from 0.
func (b *BatchRenorm[T]) measure(w *BatchRenormWork[T], n int) {
	mean, variance := b.running()
	steps := b.p.Buffers.Must(b.stats).F64()[0]
	about, s1, s2 := w.mean, w.s1[:len(w.mean)], w.s2[:len(w.mean)]
	for k, m := range mean {
		about[k] = T(m)
	}
	w.eachBlock(b.Width, n, func(first, end int) {
		for lo := first; lo < end; lo += b.Width {
			src := w.x[lo:][:len(about)]
			for k, m := range about {
				e := src[k] - m
				s1[k] += e
				s2[k] += e * e
			}
		}
	})
	w.sums[0]++
	unbiased := 1.
	if b.plain {
		unbiased = float64(n) / max(float64(n-1), 1)
	}
	for k := range w.mean {
		off := w.f1[k] / float64(n)
		v := max(w.f2[k]/float64(n)-off*off, 0)
		w.sums[1+k] += float64(w.mean[k]) + off
		w.sums[1+b.Width+k] += v * unbiased
		sigma, running := math.Sqrt(v+b.eps), math.Sqrt(variance[k]+b.eps)
		w.mean[k], w.inv[k], w.r[k], w.d[k] = w.mean[k]+T(off), T(1/sigma), 1, 0
		if steps >= renormWarmup && !b.plain {
			w.r[k] = T(min(max(sigma/running, 1/renormR), renormR))
			w.d[k] = T(min(max(off/running, -renormD), renormD))
		}
	}
}

// eachBlock calls add for each block of the n rows, with its range of elements. add must add to s1 and s2. eachBlock
// then adds s1 and s2 to f1 and f2.
func (w *BatchRenormWork[T]) eachBlock(width, n int, add func(first, end int)) {
	clear(w.f1)
	clear(w.f2)
	for first := 0; first < n; first += normBlock {
		clear(w.s1)
		clear(w.s2)
		add(first*width, min(first+normBlock, n)*width)
		for k := range w.f1 {
			w.f1[k] += float64(w.s1[k])
			w.f2[k] += float64(w.s2[k])
		}
	}
}

// Backward adds the gradients of γ and β. It also replaces dy, [n,Width], which is the gradient of y, with dx, which is
// the gradient of x. With g = Σ dy and h = Σ dy x̂ over the rows,
//
//	dβ += g,    dγ += r h + d g,    dx = γ r/σ_B (dy - g/n - x̂ h/n)
//
// After a Forward with running statistics, dx lacks the last two terms.
func (b *BatchRenorm[T]) Backward(w *BatchRenormWork[T], dy []T, n int) {
	dy = dy[:n*b.Width]
	mean, g, h := w.mean, w.s1[:len(w.mean)], w.s2[:len(w.mean)]
	w.eachBlock(b.Width, n, func(first, end int) {
		for lo := first; lo < end; lo += b.Width {
			d, x := dy[lo:][:len(mean)], w.x[lo:][:len(mean)]
			for k, m := range mean {
				g[k] += d[k]
				h[k] += d[k] * (x[k] - m)
			}
		}
	})
	dScale, dShift := b.p.GradOf(b.scale), b.p.GradOf(b.shift)
	for k := range g {
		g[k], h[k] = T(w.f1[k]), T(w.f2[k])
		h[k] *= w.inv[k]
		dShift[k] += g[k]
		dScale[k] += w.r[k]*h[k] + w.d[k]*g[k]
		if !w.batch {
			g[k], h[k] = 0, 0
		}
		g[k], h[k] = g[k]/T(n), h[k]*w.inv[k]/T(n)
	}
	slope := w.slope[:len(mean)]
	for lo := 0; lo < len(dy); lo += b.Width {
		d, x := dy[lo:][:len(mean)], w.x[lo:][:len(mean)]
		for k, m := range mean {
			d[k] = slope[k] * (d[k] - g[k] - (x[k]-m)*h[k])
		}
	}
}

// InputGrad replaces dy, [rows,n], with the gradient of the last n columns of x. dy is the gradient of the same columns
// of y. InputGrad does not change the gradients of γ and β. The last Forward must have used the running statistics.
func (b *BatchRenorm[T]) InputGrad(w *BatchRenormWork[T], dy []T, n int) {
	if w.batch {
		panic("nn: InputGrad of a BatchRenorm after a Forward by the batch's statistics")
	}
	first := b.Width - n
	scale, inv := b.p.Of(b.scale)[first:], w.inv[first:]
	for lo := 0; lo < len(dy); lo += n {
		d := dy[lo : lo+n]
		for k := range d {
			d[k] *= scale[k] * inv[k]
		}
	}
}

// StatsLen returns the number of sums that AddStats needs.
func (b *BatchRenorm[T]) StatsLen() int { return 1 + 2*b.Width }

// AddStats adds to sums the number of batches that w has seen since the last call, and the sums of the
// means and variances of these batches.
func (b *BatchRenorm[T]) AddStats(sums []float64, w *BatchRenormWork[T]) {
	for i, s := range w.sums {
		sums[i] += s
	}
	clear(w.sums)
}

// MergeStats moves the running statistics by one step towards the mean of the batches in sums. sums must
// have at least one batch.
func (b *BatchRenorm[T]) MergeStats(sums []float64) {
	s := b.p.Buffers.Must(b.stats).F64()
	s[0]++
	for i := 1; i < len(s); i++ {
		s[i] += b.rate * (sums[i]/sums[0] - s[i])
	}
}

// Range returns the part of Params.Grad that belongs to this layer.
func (b *BatchRenorm[T]) Range() (lo, hi int) { return b.p.Range(b.scale, b.shift) }
