package nn_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// TestDropout: a quarter of the elements is 0, and the others are divided by 3/4, as their gradients. A row's elements
// depend on the number of its stream alone.
func TestDropout(t *testing.T) {
	t.Parallel()
	const rows, width = 40, 100
	p := new(nn.Params[float64])
	p.Group("g")
	net := nn.NewStack(p, "n", width, nn.Dropout(0.25))
	test.OK(t, p.Alloc(tensor.Heap))
	x := make([]float64, rows*width)
	for i := range x {
		x[i] = 3
	}
	w := net.NewWork(rows)
	in := nn.Batch[float64]{Rows: rows, Numbers: x, Drop: nn.Drop{On: true, Seed: 1, First: 7}}
	y, dropped := net.Forward(w, in), 0
	dy := net.OutGrad(w)
	dx := make([]float64, len(x))
	for i := range y {
		dy[i] = 3
	}
	net.Backward(w, dx, nil)
	for i, v := range y {
		if v == 0 {
			dropped++
		} else if math.Abs(v-4) > 1e-12 {
			t.Fatalf("element %d is %v, want 0 or 4", i, v)
		}
		if dx[i] != v {
			t.Fatalf("the gradient of element %d is %v, want %v", i, dx[i], v)
		}
	}
	if dropped < 900 || dropped > 1100 { // 1,000 ± 3.7 deviations
		t.Errorf("%d of 4,000 elements are 0", dropped)
	}
	whole := append([]float64(nil), y...)
	in.Rows, in.Numbers, in.Drop.First = rows-5, x[5*width:], 12
	test.EqualSlices(t, net.Forward(w, in), whole[5*width:])
	in.Drop.On = false
	test.EqualSlices(t, net.Forward(w, in), in.Numbers)
}
