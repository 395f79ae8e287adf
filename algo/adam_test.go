package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// three groups of 16 parameters, all 1, with gradients 0.5; the last is not trained.
func threeGroups() *nn.Params[float32] {
	p := &nn.Params[float32]{
		Data: make([]float32, 48), Grad: make([]float32, 48),
		Fields: []nn.ParamTensor{{Name: "a.weight", Shape: []int{2, 8}}, {Name: "b.weight", Shape: []int{16}, Off: 16},
			{Name: "c", Shape: []int{16}, Off: 32}},
		Groups: []nn.ParamGroup{{Name: "actor", Hi: 16, Trainable: true},
			{Name: "critic", Lo: 16, Hi: 32, Trainable: true}, {Name: "fixed", Lo: 32, Hi: 48}},
	}
	for i := range p.Data {
		p.Data[i], p.Grad[i] = 1, 0.5
	}
	return p
}

// Two steps agree with the formula of the paper in float64, for gradients 0.5·2 and -1·2, each group at its own rate.
func TestAdam(t *testing.T) {
	p := threeGroups()
	cfg := DefaultOptimConfig()
	cfg.LR, cfg.ValueLR, cfg.WeightDecay = 0.1, 0.3, 0.05
	a := test.Must(NewAdam(p, cfg, 0, tensor.Heap))(t)
	want := func(lr float64) float64 {
		x, m, v := 1.0, 0.0, 0.0
		for step, g := range []float64{1, -2} {
			n := float64(step + 1)
			m, v = 0.9*m+0.1*g, 0.999*v+0.001*g*g
			x -= lr * 0.05 * x
			x -= lr * m / (1 - math.Pow(0.9, n)) / (math.Sqrt(v/(1-math.Pow(0.999, n))) + 1e-8)
		}
		return x
	}
	a.Step(0, 2)
	for i := range p.Grad {
		p.Grad[i] = -1
	}
	a.Step(1, 2)
	near(t, "actor", float64(p.Data[3]), want(0.1), 1e-5)
	near(t, "critic", float64(p.Data[20]), want(0.3), 1e-5)
	near(t, "fixed", float64(p.Data[40]), 1, 0)
	test.Equal(t, a.Steps(), 2, "steps")
	test.NoAllocs(t, 10, func() { a.Step(2, 1) })
}

// Three optimisers of a range each move the parameters like one optimiser of all parameters, and have the same moments,
// also where a range ends within a group. With more replicas than lines of 16 elements, some ranges are empty.
func TestAdamOfRanges(t *testing.T) {
	for replicas, want := range map[int][]int{1: {0, 48}, 2: {0, 16, 48}, 3: {0, 16, 32, 48},
		5: {0, 0, 16, 16, 32, 48}} {
		for r := range replicas {
			if lo, hi := shareOf(48, replicas, r); lo != want[r] || hi != want[r+1] {
				t.Errorf("replica %d of %d: [%d, %d), want %v", r, replicas, lo, hi, want)
			}
		}
	}
	if lo, hi := shareOf(45, 3, 2); lo != 32 || hi != 45 {
		t.Errorf("the last of 45: [%d, %d)", lo, hi)
	}
	cfg := DefaultOptimConfig()
	cfg.LR, cfg.ValueLR = 0.1, 0.3
	move := func(lo, hi int) (*Adam, []float32) {
		p := threeGroups()
		a := test.Must(newAdam(p, lo, hi, cfg, 0, tensor.Heap))(t)
		for i := range 3 {
			for j := range p.Grad {
				p.Grad[j] = float32(math.Sin(float64(i + j)))
			}
			a.Step(i, 1)
		}
		return a, p.Data
	}
	whole, want := move(0, 48)
	start := threeGroups().Data
	for _, cuts := range [][2]int{{0, 10}, {10, 10}, {10, 39}, {39, 48}} {
		lo, hi := cuts[0], cuts[1]
		a, got := move(lo, hi)
		if !slices.Equal(got[lo:hi], want[lo:hi]) || !slices.Equal(got[:lo], start[:lo]) ||
			!slices.Equal(got[hi:], start[hi:]) {
			t.Errorf("[%d, %d): %v, want %v", lo, hi, got, want)
		}
		if !slices.Equal(a.m.F32(), whole.m.F32()[lo:hi]) || !slices.Equal(a.v.F32(), whole.v.F32()[lo:hi]) {
			t.Errorf("[%d, %d): other moments", lo, hi)
		}
	}
}

// The parameter group vision learns at a rate of its own, if there is one.
func TestVisionRate(t *testing.T) {
	for vision, want := range map[float32]float64{0: 0.1, 0.3: 0.3} {
		p := threeGroups()
		p.Groups[0].Name = "vision"
		cfg := DefaultOptimConfig()
		cfg.LR, cfg.VisionLR, cfg.WeightDecay = 0.1, vision, 0
		a := test.Must(NewAdam(p, cfg, 0, tensor.Heap))(t)
		a.Step(0, 1)
		near(t, "vision", 1-float64(p.Data[0]), want, 1e-6) // the first step has the length of the rate
		near(t, "critic", 1-float64(p.Data[20]), 0.1, 1e-6)
	}
}

func TestAdamRates(t *testing.T) {
	cfg := DefaultOptimConfig()
	cfg.LR, cfg.MinLR, cfg.LRScheduler = 0.5, 0.1, ScheduleLinear
	check := func(total, i int, lr, valueLR float64) {
		t.Helper()
		a, _ := NewAdam(threeGroups(), cfg, total, tensor.Heap)
		got, gotValue := a.LR(i)
		near(t, "lr", got, lr, 1e-7)
		near(t, "value_lr", gotValue, valueLR, 1e-7)
	}
	check(4, 1, 0.4, 0.4)
	cfg.ValueLR = 0.9
	check(4, 1, 0.4, 0.7)
	cfg.TotalTrainingSteps = 2 // has priority over the length of the run
	check(4, 1, 0.3, 0.5)
}

// gradNormOf returns the norm of a gradient that was never marked as final.
func gradNormOf(p *nn.Params[float32]) (float64, error) {
	n, err := newGradNorm(p, 0, len(p.Grad), false)
	if err != nil {
		return 0, err
	}
	return root(n.squares(), p)
}

// The norm is that of trained parameters, and it is clipped. The error of a number that is not finite names its tensor.
func TestGradNorm(t *testing.T) {
	p := threeGroups()
	norm := test.Must(gradNormOf(p))(t)
	near(t, "norm", norm, math.Sqrt(32*0.25), 1e-12)
	near(t, "scale below the limit", float64(clipScale(norm, 3)), 1, 0)
	near(t, "scale above it", float64(clipScale(norm, 1)), 1/norm, 1e-7)
	near(t, "scale without a limit", float64(clipScale(norm, 0)), 1, 0)

	for i := range p.Grad {
		p.Grad[i] = math.MaxFloat32 // large is not infinite
	}
	if norm, err := gradNormOf(p); err != nil || math.IsInf(norm, 0) {
		t.Errorf("norm %v, %v", norm, err)
	}
	for _, c := range []struct {
		at   int
		x    float64
		want string
	}{
		{9, math.Inf(1), "gradient of a.weight[2 8]: +Inf at element 9"},
		{16, math.Inf(-1), "gradient of b.weight[16]: -Inf at element 0"},
		{31, math.NaN(), "gradient of b.weight[16]: NaN at element 15"},
	} {
		p := threeGroups()
		p.Grad[c.at] = float32(c.x)
		if _, err := gradNormOf(p); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	p = threeGroups()
	p.Grad[9], p.Data[2] = float32(math.NaN()), float32(math.NaN())
	if _, err := gradNormOf(p); err == nil ||
		err.Error() != "gradient of a.weight[2 8]: NaN at element 9; the parameter itself has NaN" {
		t.Errorf("%v", err)
	}
	p = threeGroups()
	p.Grad[40] = float32(math.NaN()) // its group is not trained
	if _, err := gradNormOf(p); err != nil {
		t.Error(err)
	}
}

func TestPermute(t *testing.T) {
	const n = 100
	draw := func(shuffle bool, seed uint64, replica, iteration, epoch int) []int32 {
		order := make([]int32, n)
		permute(order, shuffle, seed, replica, iteration, epoch)
		return order
	}
	sorted := draw(false, 1, 0, 0, 0)
	if !slices.IsSorted(sorted) || sorted[n-1] != n-1 {
		t.Errorf("not shuffled: %v", sorted)
	}
	seen := make(map[[n]int32]bool)
	for _, c := range [][4]int{{1, 0, 0, 0}, {2, 0, 0, 0}, {1, 1, 0, 0}, {1, 0, 1, 0}, {1, 0, 0, 1},
		{1, 0, 1 << 20, 0}} {
		order := draw(true, uint64(c[0]), c[1], c[2], c[3])
		if again := draw(true, uint64(c[0]), c[1], c[2], c[3]); !slices.Equal(order, again) {
			t.Errorf("%v: drawn again it differs", c)
		}
		seen[[n]int32(order)] = true
		if slices.Sort(order); !slices.Equal(order, sorted) {
			t.Errorf("%v: not a permutation", c)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d different permutations of 6", len(seen))
	}
	// Every element is as likely to come first: 2000 draws of 4 elements.
	counts, order := [4]int{}, make([]int32, 4)
	for i := range 2000 {
		permute(order, true, 9, 0, i, 0)
		counts[order[0]]++
	}
	for _, c := range counts {
		near(t, "times an element came first", float64(c), 500, 80) // 4 deviations
	}
}

// The norm's bits do not depend on the order in which ranges become final, and no range counts before it is final.
func TestGradNormOfRanges(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("frozen")
	p.Add("f", 5000)
	p.Group("trained")
	p.Add("t", 3*normBlock+77)
	test.OK(t, p.Alloc(tensor.Heap))
	p.Groups[0].Trainable = false
	want := 0.0
	for i := range p.Grad {
		p.Grad[i] = float32(math.Sin(float64(i)))
		if i >= p.Groups[1].Lo {
			want += float64(p.Grad[i]) * float64(p.Grad[i])
		}
	}
	whole := test.Must(gradNormOf(p))(t)
	near(t, "norm", whole, math.Sqrt(want), 1e-9)
	n := test.Must(newGradNorm(p, 0, len(p.Grad), false))(t)
	for _, cuts := range [][]int{{0, len(p.Grad)}, {0, 1, normBlock, normBlock + 1, 9000, len(p.Grad)},
		{0, 4 * normBlock, len(p.Grad)}} {
		clear(n.known)
		for i := len(cuts) - 1; i > 0; i-- { // from the end, as a backward pass has them
			lo, hi := cuts[i-1], cuts[i]
			kept := append([]float32(nil), p.Grad[:lo]...)
			for j := range kept {
				p.Grad[j] = 1e9 // not final yet
			}
			n.sumFinal(lo, hi)
			copy(p.Grad, kept)
		}
		if got, err := root(n.squares(), p); err != nil || got != whole {
			t.Errorf("final in parts %v: norm %v, %v, want %v", cuts, got, err, whole)
		}
	}
}
