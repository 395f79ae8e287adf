package nn_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// randomize fills x with standard normal numbers.
func randomize[T nn.Float](x []T, key uint64) {
	s := philox.New(1, philox.Init, 1000+key, 0)
	for i := range x {
		z, _ := s.Normal()
		x[i] = T(z)
	}
}

func TestLinearForward(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("g")
	l := nn.NewLinear(p, "l", 2, 3)
	test.OK(t, p.Alloc(tensor.Heap))
	copy(p.Of(0), []float64{1, 2, 3, 4, 5, 6}) // [in,out]
	copy(p.Of(1), []float64{10, 20, 30})
	y := make([]float64, 6)
	l.Forward(y, []float64{1, 1, 2, -1}, 2)
	for i, want := range []float64{15, 27, 39, 8, 19, 30} {
		if y[i] != want {
			t.Errorf("y[%d] = %v, want %v", i, y[i], want)
		}
	}
}

// TestStackGradients compares every derivative of a loss Σ c·y + ½y² through a stack, by the parameters and by the
// input.
func TestStackGradients(t *testing.T) {
	const rows, width = 5, 3
	tanh := nn.Activate(nn.Tanh)
	for name, layers := range map[string][]nn.Layer{
		"linear layer and tanh":   nn.Hidden([]int{4}, nn.Tanh, nn.NoNorms),
		"tanh":                    nn.Hidden([]int{7, 5, 4}, nn.Tanh, nn.NoNorms),
		"relu":                    nn.Hidden([]int{7, 5, 4}, nn.ReLU, nn.NoNorms),
		"tanh with a head":        append(nn.Hidden([]int{7, 5}, nn.Tanh, nn.NoNorms), nn.Dense(3).Named("head")),
		"head alone":              {nn.Dense(3)},
		"activation of the input": {tanh, nn.Dense(3), tanh, tanh},
		"parts of all kinds":      {nn.Residual(nn.Dense(3), tanh), tanh, nn.Concat(nn.Norm(), tanh), tanh},
	} {
		t.Run(name, func(t *testing.T) {
			p := new(nn.Params[float64])
			p.Group("g")
			m := nn.NewStack(p, "m", width, layers...)
			test.OK(t, p.Alloc(tensor.Heap))
			for i := range p.Fields {
				randomize(p.Of(i), uint64(i))
			}
			x, weight := make([]float64, rows*width), make([]float64, rows*m.Out)
			randomize(x, 100)
			randomize(weight, 101)
			w, b := m.NewWork(rows+2), nn.Batch[float64]{Rows: rows, Numbers: x}
			loss := func() float64 {
				var sum float64
				for i, y := range m.Forward(w, b) {
					sum += weight[i]*y + 0.5*y*y
				}
				return sum
			}
			dx := make([]float64, len(x))
			for i, y := range m.Forward(w, b) {
				m.OutGrad(w)[i] = weight[i] + y
			}
			m.Backward(w, dx, nil)

			r := nntest.Params(p, loss)
			if r.Checked != p.Len() || !(r.Worst < 1e-7) {
				t.Errorf("parameters: %+v, want %d checked, worst < 1e-7", r, p.Len())
			}
			r = nntest.Gradients(x, dx, loss)
			if r.Checked != rows*width || !(r.Worst < 1e-7) {
				t.Errorf("input: %+v, want %d checked, worst < 1e-7", r, rows*width)
			}
		})
	}
}

// TestBackwardAdds: Backward adds to gradients. It sets dx, or adds to dx with add.
func TestBackwardAdds(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("g")
	l := nn.NewLinear(p, "l", 2, 2)
	test.OK(t, p.Alloc(tensor.Heap))
	randomize(p.Of(0), 0)
	x, dy, dx, scratch := []float64{1, 2}, []float64{3, 4}, []float64{100, 100}, make([]float64, 4)
	l.Backward(dx, x, dy, 1, false, scratch)
	once, dxOnce := append([]float64(nil), p.Grad...), append([]float64(nil), dx...)
	l.Backward(dx, x, dy, 1, true, scratch)
	for i := range once {
		if p.Grad[i] != 2*once[i] {
			t.Errorf("gradient %d: %v after two passes, %v after one", i, p.Grad[i], once[i])
		}
	}
	for i := range dxOnce {
		if dx[i] != 2*dxOnce[i] {
			t.Errorf("dx %d: %v, want twice %v", i, dx[i], dxOnce[i])
		}
	}
}

func TestStackReadyGoesDownWithoutGaps(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("g")
	m := nn.NewStack(p, "m", 3, append(nn.Hidden([]int{5, 6}, nn.Tanh, nn.NoNorms), nn.Dense(7).Named("head"))...)
	test.OK(t, p.Alloc(tensor.Heap))
	w := m.NewWork(2)
	m.Forward(w, nn.Batch[float32]{Rows: 2, Numbers: make([]float32, 6)})
	end, calls := len(p.Grad), 0
	m.Backward(w, nil, func(lo, hi int) {
		if hi != end {
			t.Errorf("range [%d,%d), want one that ends at %d", lo, hi, end)
		}
		end = lo
		calls++
	})
	if end != 0 || calls != 3 {
		t.Errorf("%d ranges down to %d, want 3 down to 0", calls, end)
	}
}

// TestOrthogonal: W = gain·Q with the shorter side of Q orthonormal.
func TestOrthogonal(t *testing.T) {
	const gain = math.Sqrt2
	for _, shape := range [][2]int{{64, 64}, {4, 64}, {64, 2}, {1, 1}, {17, 5}, {300, 256}} {
		in, out := shape[0], shape[1]
		w := make([]float64, in*out)
		nn.Orthogonal(w, in, out, gain, 7, 3)
		at := func(v, i int) float64 { // element i of orthonormal vector v
			if in >= out {
				return w[i*out+v] / gain
			}
			return w[v*out+i] / gain
		}
		var worst float64
		for a := range min(in, out) {
			for b := range a + 1 {
				var dot float64
				for i := range max(in, out) {
					dot += at(a, i) * at(b, i)
				}
				if a == b {
					dot--
				}
				worst = max(worst, math.Abs(dot))
			}
		}
		if !(worst < 1e-13) {
			t.Errorf("%v: QᵀQ differs from 1 by %v", shape, worst)
		}
	}
}

func TestOrthogonalStreams(t *testing.T) {
	draw := func(seed, key uint64) [16]float32 {
		var w [16]float32
		nn.Orthogonal(w[:], 4, 4, 1, seed, key)
		return w
	}
	if draw(1, 0) != draw(1, 0) {
		t.Error("the same seed and key give different weights")
	}
	if draw(1, 0) == draw(1, 1) || draw(1, 0) == draw(2, 0) {
		t.Error("another seed or key gives the same weights")
	}
}

// TestOrthogonalMean: the mean of uniform orthogonal matrices is 0. If Orthogonal did not correct signs, the diagonal
// of the mean would not be 0.
func TestOrthogonalMean(t *testing.T) {
	const draws = 2000
	var mean [9]float64
	for key := range uint64(draws) {
		var w [9]float64
		nn.Orthogonal(w[:], 3, 3, 1, 1, key)
		for i, v := range w {
			mean[i] += v / draws
		}
	}
	for i, m := range mean { // an element has variance 1/3
		if math.Abs(m) > 5*math.Sqrt(1./3/draws) {
			t.Errorf("element %d has mean %v over %d matrices, want 0", i, m, draws)
		}
	}
}
