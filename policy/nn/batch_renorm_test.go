package nn_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// newNorm makes a layer of two columns, γ = (2, 3) and β = (1, -1).
func newNorm(t *testing.T) (*nn.BatchRenorm[float64], []float64) {
	t.Helper()
	p := new(nn.Params[float64])
	p.Group("g")
	b := nn.NewBatchRenorm(p, "b", 2)
	test.OK(t, p.Alloc(tensor.Heap))
	b.Init()
	copy(p.Of(0), []float64{2, 3})
	copy(p.Of(1), []float64{1, -1})
	return b, p.Buffers.Must("b.stats").F64()
}

func compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i, x := range want {
		if !(math.Abs(got[i]-x) < 1e-9) {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// TestBatchRenormByHand: the rows (1, 0) and (3, 4) have the means (2, 2) and the variances (1, 4), to which 0.001 is
// added.
func TestBatchRenormByHand(t *testing.T) {
	b, stats := newNorm(t)
	w, x := b.NewWork(4), []float64{1, 0, 3, 4}
	s1, s2 := math.Sqrt(1.001), math.Sqrt(4.001)
	compare(t, "running, at first", b.Forward(w, x, 2, false), []float64{1 + 2/s1, -1, 1 + 6/s1, -1 + 12/s1})
	compare(t, "batch", b.Forward(w, x, 2, true), []float64{1 - 2/s1, -1 - 6/s2, 1 + 2/s1, -1 + 6/s2})
	sums := make([]float64, b.StatsLen())
	b.Forward(w, []float64{5, 2, 5, 2}, 2, true)
	b.AddStats(sums, w)
	compare(t, "sums", sums, []float64{2, 2 + 5, 2 + 2, 1 + 0, 4 + 0})
	b.MergeStats(sums)
	compare(t, "running statistics", stats, []float64{1, 0.01 * 3.5, 0.01 * 2, 0.99 + 0.01*0.5, 0.99 + 0.01*2})
	clear(sums)
	if b.AddStats(sums, w); sums[0] != 0 {
		t.Errorf("statistics are given twice: %v", sums)
	}

	copy(stats, []float64{100_000, 1, -50, 4, 1}) // d is 1/2.0002, and 52 limited to 5; r is ½ and 2
	r1, r2 := s1/math.Sqrt(4.001), s2/math.Sqrt(1.001)
	d1 := 1 / math.Sqrt(4.001)
	compare(t, "corrected", b.Forward(w, x, 2, true), []float64{
		2*(-r1/s1+d1) + 1, 3*(-2*r2/s2+5) - 1, 2*(r1/s1+d1) + 1, 3*(2*r2/s2+5) - 1,
	})
	copy(stats, []float64{100_000, 2, 2, 100, 0}) // r is 1/10 and 63, both limited
	compare(t, "corrections cut off", b.Forward(w, x, 2, true), []float64{2*(-1/s1/3) + 1, 3*(-2/s2*3) - 1,
		2*(1/s1/3) + 1, 3*(2/s2*3) - 1})
}

// TestBatchRenormGradients: gradients with corrections r and d at their limits, where they really are constants.
func TestBatchRenormGradients(t *testing.T) {
	const rows = 5
	b, stats := newNorm(t)
	copy(stats, []float64{100_000, 1, -600, 0, 1e4})
	x, weight := make([]float64, 2*rows), make([]float64, 2*rows)
	randomize(x, 1)
	randomize(weight, 2)
	w := b.NewWork(rows)
	loss := func() float64 {
		var sum float64
		for i, y := range b.Forward(w, x, rows, true) {
			sum += weight[i]*y + 0.5*y*y
		}
		return sum
	}
	dx := make([]float64, len(x))
	for i, y := range b.Forward(w, x, rows, true) {
		dx[i] = weight[i] + y
	}
	b.Backward(w, dx, rows)
	if r := nntest.Gradients(x, dx, loss); r.Checked != len(x) || !(r.Worst < 1e-4) {
		t.Errorf("inputs: %+v", r)
	}
}

func TestBatchNormGradients(t *testing.T) {
	t.Run("by statistics of the batch", func(t *testing.T) { batchNormGradients(t, true) })
	t.Run("by running statistics", func(t *testing.T) { batchNormGradients(t, false) })
}

// TestBatchNorm2D: the statistics of a batch are those of all its pixels, also of more pixels than a block has. The
// running variance is unbiased. The running statistics move by a tenth.
func TestBatchNorm2D(t *testing.T) {
	const rows, h, w = 5, 20, 15 // 1,500 pixels
	p := new(nn.Params[float64])
	p.Group("g")
	layer := nn.Sequence(nn.View("camera", h, w, []float64{0, 0}, []float64{1, 1}), nn.BatchNorm2D().Named("norm"))
	net := test.Must(nn.NewNet(p, "", layer, []nn.Source{{Name: "camera", Image: nn.Image{H: h, W: w, C: 2},
		Frames: 1}}))(t)
	test.OK(t, p.Alloc(tensor.Heap))
	net.Init(1)
	copy(p.Of(0), []float64{2, 3})
	copy(p.Of(1), []float64{1, -1})
	images := make([]byte, rows*h*w*2)
	for i := range images {
		images[i] = byte(i * i % 251)
	}
	var mean, square [2]float64
	for i, b := range images {
		mean[i%2] += float64(b) / 255 / (rows * h * w)
		square[i%2] += float64(b) / 255 * float64(b) / 255 / (rows * h * w)
	}
	work, in := net.NewWork(rows), nn.Batch[float64]{Rows: rows, Images: [][]byte{images}, Renorm: true}
	y := net.Forward(work, in)
	stats, want := p.Buffers.Must("norm.stats").F64(), make([]float64, len(y))
	for i, b := range images {
		k := i % 2
		want[i] = p.Of(0)[k]*(float64(b)/255-mean[k])/math.Sqrt(square[k]-mean[k]*mean[k]+1e-5) + p.Of(1)[k]
	}
	compare(t, "output", y, want)
	sums := make([]float64, net.StatsLen())
	net.AddStats(sums, work)
	net.MergeStats(sums)
	unbiased := func(k int) float64 {
		const n = rows * h * w
		return (square[k] - mean[k]*mean[k]) * n / (n - 1)
	}
	compare(t, "running", stats, []float64{1, mean[0] / 10, mean[1] / 10, 0.9 + unbiased(0)/10, 0.9 + unbiased(1)/10})
}

// TestBatchNorm2DGradients: gradients through the statistics of a batch.
func TestBatchNorm2DGradients(t *testing.T) {
	const rows = 3
	p := new(nn.Params[float64])
	p.Group("g")
	conv := nn.Conv(4, 3, 2, 1).Unbiased()
	net := test.Must(nn.NewNet(p, "n", nn.Sequence(nn.Input("camera"), conv, nn.BatchNorm2D(),
		nn.Activate(nn.Tanh), conv, nn.BatchNorm2D()), sources[1:2]))(t)
	test.OK(t, p.Alloc(tensor.Heap))
	for i := range p.Fields {
		randomize(p.Of(i), uint64(i))
	}
	images := make([]byte, rows*2*8*9*2)
	for i := range images {
		images[i] = byte(i * i % 251)
	}
	w, weight := net.NewWork(rows), make([]float64, rows*net.Out)
	randomize(weight, 101)
	in := nn.Batch[float64]{Rows: rows, Images: [][]byte{images}, Renorm: true}
	loss := func() float64 {
		var sum float64
		for i, y := range net.Forward(w, in) {
			sum += weight[i]*y + 0.5*y*y
		}
		return sum
	}
	for i, y := range net.Forward(w, in) {
		net.OutGrad(w)[i] = weight[i] + y
	}
	net.Backward(w, nil, nil)
	if r := nntest.Params(p, loss); r.Checked != p.Len() || !(r.Worst < 1e-6) {
		t.Errorf("%+v, want %d checked", r, p.Len())
	}
}

func batchNormGradients(t *testing.T, batch bool) {
	const rows, width, first = 6, 3, 1
	p, m := newNormedStack(t, width)
	x, weight := make([]float64, rows*width), make([]float64, rows*m.Out)
	randomize(x, 100)
	randomize(weight, 101)
	w := m.NewWork(rows + 2)
	in := nn.Batch[float64]{Rows: rows, Numbers: x, Renorm: batch}
	loss := func() float64 {
		var sum float64
		for i, y := range m.Forward(w, in) {
			sum += weight[i]*y + 0.5*y*y
		}
		return sum
	}
	derive := func() {
		for i, y := range m.Forward(w, in) {
			m.OutGrad(w)[i] = weight[i] + y
		}
	}
	derive()
	dx, end := make([]float64, len(x)), len(p.Grad)
	m.Backward(w, dx, func(lo, hi int) {
		if hi != end {
			t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
		}
		end = lo
	})
	if end != 0 {
		t.Errorf("ready ranges end at %d, want 0", end)
	}
	if r := nntest.Params(p, loss); r.Checked != p.Len() || !(r.Worst < 1e-6) {
		t.Errorf("parameters: %+v", r)
	}
	if r := nntest.Gradients(x, dx, loss); r.Checked != len(x) || !(r.Worst < 1e-6) {
		t.Errorf("inputs: %+v", r)
	}
	if batch {
		return
	}
	derive()
	part := make([]float64, rows*(width-first))
	m.InputGrad(w, part, first)
	for i, d := range part {
		if want := dx[i/(width-first)*width+first+i%(width-first)]; math.Abs(d-want) > 1e-12 {
			t.Errorf("derivative %d by the last columns: %v, by Backward %v", i, d, want)
		}
	}
}

// newNormedStack returns a network whose weights, running means and running variances are all different numbers.
func newNormedStack(t *testing.T, width int) (*nn.Params[float64], *nn.Net[float64]) {
	t.Helper()
	p := new(nn.Params[float64])
	p.Group("g")
	m := nn.NewStack(p, "m", width, append(nn.Hidden([]int{5, 4}, nn.Tanh, nn.BatchNorms), nn.Dense(3))...)
	test.OK(t, p.Alloc(tensor.Heap))
	m.Init(1)
	for i := range p.Fields {
		randomize(p.Of(i), uint64(i))
	}
	for i := range p.Buffers.Len() {
		_, s := p.Buffers.Entry(i)
		stats := s.F64()
		for k := 1; k < len(stats); k++ {
			stats[k] = 0.5 + 0.1*float64(k)
		}
	}
	return p, m
}
