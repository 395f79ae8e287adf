package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// recurrent makes a layer with random parameters.
func recurrent[T nn.Float](t testing.TB, lstm bool, in, out int) (*nn.Params[T], *nn.RecurrentCell[T]) {
	t.Helper()
	p := new(nn.Params[T])
	p.Group("g")
	var l *nn.RecurrentCell[T]
	if lstm {
		l = nn.NewLSTM(p, "l", in, out)
	} else {
		l = nn.NewGRU(p, "l", in, out)
	}
	test.OK(t, p.Alloc(tensor.Heap))
	for i := range p.Fields {
		randomize(p.Of(i), uint64(i))
	}
	return p, l
}

// both runs a test for a GRU and for an LSTM.
func both(t *testing.T, f func(t *testing.T, lstm bool)) {
	t.Run("gru", func(t *testing.T) { f(t, false) })
	t.Run("lstm", func(t *testing.T) { f(t, true) })
}

// TestRecurrentForward compares two steps of a layer with one output with the formulas.
func TestRecurrentForward(t *testing.T) {
	σ := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	x, state := []float64{0.7, -0.4}, []float64{0.3, -0.6}
	both(t, func(t *testing.T, lstm bool) {
		p, l := recurrent[float64](t, lstm, 1, 1)
		w, b, u, d := p.Of(0), p.Of(1), p.Of(2), p.Of(3)
		h, c := state[0], state[1]
		var want []float64
		for _, x := range x {
			s := func(k int) float64 { return x*w[k] + b[k] + h*u[k] + d[k] }
			if lstm {
				c = σ(s(1))*c + σ(s(0))*math.Tanh(s(3))
				h = σ(s(2)) * math.Tanh(c)
			} else {
				g := math.Tanh(x*w[2] + b[2] + σ(s(0))*(h*u[2]+d[2]))
				z := σ(s(1))
				h = (1-z)*g + z*h
			}
			want = append(want, h)
		}
		last := make([]float64, l.State)
		y := l.Forward(l.NewWork(2), last, x, state[:l.State], nil, 2, 1)
		end := []float64{h, c}[:l.State]
		for i, v := range append(slices.Clone(y), last...) {
			if want := append(slices.Clone(want), end...)[i]; math.Abs(v-want) > 1e-14 {
				t.Errorf("output and state %v %v, want %v %v", y, last, want, end)
			}
		}
	})
}

// TestRecurrentGradients compares every derivative of a loss Σ c·y + ½y² over four steps of sequences with central
// differences. In some sequences an episode begins.
func TestRecurrentGradients(t *testing.T) {
	const steps, n, in, out = 4, 3, 2, 5
	begins := []byte{0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}
	both(t, func(t *testing.T, lstm bool) {
		p, l := recurrent[float64](t, lstm, in, out)
		x, state, weight := make([]float64, steps*n*in), make([]float64, n*l.State), make([]float64, steps*n*out)
		randomize(x, 100)
		randomize(state, 101)
		randomize(weight, 102)
		w := l.NewWork(steps*n + 1)
		next := make([]float64, len(state))
		forward := func() []float64 { return l.Forward(w, next, x, state, begins, steps*n, n) }
		loss := func() float64 {
			var sum float64
			for i, y := range forward() {
				sum += weight[i]*y + 0.5*y*y
			}
			return sum
		}
		dx, dy := make([]float64, len(x)), make([]float64, len(weight))
		for range 2 { // the second pass finds the buffers of the first
			clear(p.Grad)
			for i, y := range forward() {
				dy[i] = weight[i] + y
			}
			l.Backward(w, dx, dy)
		}
		r := nntest.Params(p, loss)
		if r.Checked != p.Len() || !(r.Worst < 1e-8) {
			t.Errorf("parameters: %+v, want %d checked, worst < 1e-8", r, p.Len())
		}
		r = nntest.Gradients(x, dx, loss)
		if r.Checked != len(x) || !(r.Worst < 1e-8) {
			t.Errorf("input: %+v, want %d checked, worst < 1e-8", r, len(x))
		}
		if lo, hi := l.Range(); lo != 0 || hi != len(p.Grad) {
			t.Errorf("range [%d,%d), want all %d", lo, hi, len(p.Grad))
		}
	})
}

// TestRecurrentSteps: a sequence has the same bits as its steps one by one, in any batch. A step that begins an episode
// has the same bits as with a state of zeros.
func TestRecurrentSteps(t *testing.T) {
	const steps, n, in, out = 5, 7, 3, 20
	both(t, func(t *testing.T, lstm bool) {
		_, l := recurrent[float32](t, lstm, in, out)
		x, begins := make([]float32, steps*n*in), make([]byte, steps*n)
		randomize(x, 100)
		begins[2*n+3], begins[4], begins[3*n+6] = 1, 1, 1
		first := make([]float32, n*l.State)
		randomize(first, 101)
		end := make([]float32, n*l.State)
		whole := l.Forward(l.NewWork(steps*n), end, x, first, begins, steps*n, n)
		w := l.NewWork(1)
		for i := range n {
			state := slices.Clone(first[i*l.State : (i+1)*l.State])
			for at := i; at < steps*n; at += n {
				if begins[at] != 0 {
					clear(state)
				}
				y := l.Forward(w, state, x[at*in:(at+1)*in], state, nil, 1, 1)
				if !slices.Equal(y, whole[at*out:(at+1)*out]) {
					t.Fatalf("step %d of sequence %d: %v alone, %v among others", at/n, i, y, whole[at*out:(at+1)*out])
				}
			}
			if !slices.Equal(state, end[i*l.State:(i+1)*l.State]) {
				t.Fatalf("sequence %d ends in %v alone, in %v among others", i, state, end[i*l.State:(i+1)*l.State])
			}
		}
	})
}

func TestRecurrentAllocatesNothing(t *testing.T) {
	const rows, n, in, out = 12, 3, 4, 8
	both(t, func(t *testing.T, lstm bool) {
		_, l := recurrent[float32](t, lstm, in, out)
		w, x, state, begins := l.NewWork(rows), make([]float32, rows*in), make([]float32, n*l.State), make([]byte, rows)
		dy := make([]float32, rows*out)
		test.NoAllocs(t, 10, func() {
			l.Forward(w, state, x, state, begins, rows, n)
			l.Backward(w, nil, dy)
		})
	})
}
