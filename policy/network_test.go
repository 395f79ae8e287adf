package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// The gradient of a loss Σ c·logProb + d·entropy + e·value² agrees with central differences in float64, for
// every parameter of the whole network and every distribution.
func TestGradients(t *testing.T) {
	box, byToken := actionShape{dims: 3, summed: 3}, actionShape{dims: 3, summed: 1}
	choices := actionShape{dims: 3, options: []int{2, 4, 3}, summed: 3}
	chunk := actionShape{dims: 4, options: []int{2, 3, 2, 3}, summed: 2}
	for _, c := range []struct {
		name string
		act  actionShape
		set  func(*Config)
		mask []uint8 // of every row
	}{
		{"categorical", actionShape{dims: 1, options: []int{5}, summed: 1}, nil, nil},
		{"multi-categorical", choices, nil, nil},
		{"multi-categorical by token", actionShape{dims: 3, options: []int{2, 4, 3}, summed: 1}, nil, nil},
		{"chunk of two, by action", chunk, nil, nil},
		{"chunk of two, with a value for each action", chunk,
			func(c *Config) { c.NumActionChunks, c.ActionValues = 2, true }, nil},
		{"multi-categorical, masked", choices, nil, []uint8{0, 1 /**/, 1, 0, 1, 1 /**/, 1, 1, 0}},
		{"chunk of two, masked", chunk, nil, []uint8{1, 1 /**/, 0, 1, 1}},
		{"categorical, shared trunk", choices, func(c *Config) { c.ShareTrunk = true }, nil},
		{"categorical, no critic", choices, func(c *Config) { c.AddValueHead = false }, nil},
		{"gaussian", box, nil, nil},
		{"gaussian by token", byToken, nil, nil},
		{"gaussian, shared trunk, relu", box, func(c *Config) { c.ShareTrunk, c.Activation = true, "relu" }, nil},
		{"gaussian, shared trunk, no critic", box,
			func(c *Config) { c.ShareTrunk, c.AddValueHead = true, false }, nil},
		{"gaussian, linear", box, func(c *Config) { c.HiddenSizes = nil }, nil},
		{"gaussian, deviations by state", box, func(c *Config) { c.IndependentStd = false }, nil},
		{"gaussian, deviations by state and token, shared trunk", byToken,
			func(c *Config) { c.IndependentStd, c.ShareTrunk = false, true }, nil},
		{"sde", box, func(c *Config) { c.UseSDE, c.SDELearnFeatures = true, true }, nil},
		{"sde by token, shared trunk", byToken,
			func(c *Config) { c.UseSDE, c.SDELearnFeatures, c.ShareTrunk = true, true, true }, nil},
		{"sde, shared trunk, no critic", box, func(c *Config) {
			c.UseSDE, c.SDELearnFeatures, c.ShareTrunk, c.AddValueHead = true, true, true, false
		}, nil},
		{"sde, linear", box, func(c *Config) { c.UseSDE, c.HiddenSizes = true, nil }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HiddenSizes = []int{5, 4}
			if c.set != nil {
				c.set(&cfg)
			}
			networkGradients(t, cfg, c.act, c.mask)
		})
	}
}

func networkGradients(t *testing.T, cfg Config, act actionShape, mask []uint8) {
	const rows, width = 6, 3
	n := testNetwork(t, cfg, act, obsShape{numbers: width})
	w := n.newWork(rows + 1)
	x, a := testBatch(act, rows, width)
	if mask != nil {
		x.mask = slices.Repeat(mask, rows)
		env.Space{Nvec: act.options}.Allow(a.choice, slices.Repeat(mask, rows*n.dist.Outputs()/len(mask)))
	}
	values := 0
	if n.critic != nil {
		values = rows * cfg.Values()
	}
	levels := rows * act.dims / act.summed
	dLogProb, dEntropy, weight := random(levels, 11), random(levels, 12), random(values, 13)
	loss := func() float64 {
		n.evaluate(w, &x, a)
		var sum float64
		for i := range levels {
			sum += dLogProb[i]*w.logProb[i] + dEntropy[i]*w.entropy[i]
		}
		for i := range values {
			sum += weight[i] * w.value[i] * w.value[i]
		}
		return sum
	}
	checkGradients(t, n.params, loss, func(ready func(lo, hi int)) {
		var dValue []float64
		for i := range values {
			dValue = append(dValue, 2*weight[i]*w.value[i])
		}
		n.backward(w, dLogProb, dEntropy, dValue, ready)
	})
}

// checkGradients compares the gradients that backward adds for loss with central differences.
func checkGradients(t *testing.T, params *nn.Params[float64], loss func() float64, backward func(func(lo, hi int))) {
	t.Helper()
	computeGradients(t, params, loss, backward)
	if r := nntest.Params(params, loss); r.Checked != params.Len() || !(r.Worst < 1e-7) {
		t.Errorf("%+v, want %d checked, worst < 1e-7", r, params.Len())
	}
}

// computeGradients runs loss and backward twice, the second time with used buffers. It checks that ranges
// become ready from the end to the beginning, without a gap.
func computeGradients(t *testing.T, params *nn.Params[float64], loss func() float64, backward func(func(lo, hi int))) {
	t.Helper()
	for range 2 {
		loss()
		clear(params.Grad)
		end := len(params.Grad)
		backward(func(lo, hi int) {
			if hi != end {
				t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
			}
			end = lo
		})
		if end != 0 {
			t.Errorf("ready ranges end at %d, want 0", end)
		}
	}
}

// Without SDELearnFeatures the trunk learns from the mean alone. The layers after the trunk learn the same.
func TestSDEFeatures(t *testing.T) {
	const rows, width = 6, 3
	act := actionShape{dims: 2, summed: 2}
	gradient := func(learn bool, logStd float64) *nn.Params[float64] {
		cfg := DefaultConfig()
		cfg.HiddenSizes, cfg.UseSDE, cfg.SDELearnFeatures, cfg.AddValueHead = []int{4}, true, learn, false
		n := testNetwork(t, cfg, act, obsShape{numbers: width})
		w := n.newWork(rows)
		x, a := testBatch(act, rows, width)
		d := slices.Repeat([]float64{1}, rows)
		n.evaluate(w, &x, a)
		n.backward(w, d, d, nil, nil)
		return n.params
	}
	with, without := gradient(true, -1), gradient(false, -1)
	trunk := with.Fields[2].Off // behind actor.0.weight and actor.0.bias
	if !slices.Equal(with.Grad[trunk:], without.Grad[trunk:]) {
		t.Error("gradients of head and deviation depend on whether features learn")
	}
	if slices.Equal(with.Grad[:trunk], without.Grad[:trunk]) {
		t.Error("the trunk's gradient does not depend on whether features learn")
	}
}

// A derivative that is not given counts as zero, and the ranges are still reported.
func TestNilDerivatives(t *testing.T) {
	const rows, width = 4, 3
	act := actionShape{dims: 2, options: []int{2, 3}, summed: 2}
	cfg := DefaultConfig()
	cfg.HiddenSizes = []int{4}
	n := testNetwork(t, cfg, act, obsShape{numbers: width})
	w := n.newWork(rows)
	x, a := testBatch(act, rows, width)
	n.evaluate(w, &x, a)
	end := len(n.params.Grad)
	n.backward(w, slices.Repeat([]float64{1}, rows), nil, nil, func(lo, hi int) { end = lo })
	if end != 0 {
		t.Errorf("ready ranges end at %d, want 0", end)
	}
	for _, g := range n.params.Groups {
		zero := !slices.ContainsFunc(n.params.Grad[g.Lo:g.Hi], func(v float64) bool { return v != 0 })
		if want := g.Name == "critic"; zero != want {
			t.Errorf("gradient of %s is zero: %v, want %v", g.Name, zero, want)
		}
	}
}

// testNetwork returns a network with random parameters, so that no gradient is small by initialisation.
func testNetwork(t *testing.T, cfg Config, act actionShape, obs obsShape) *network[float64] {
	t.Helper()
	p := new(nn.Params[float64])
	n := test.Must(newNetwork(cfg, act, p, obs))(t)
	test.OK(t, p.Alloc(tensor.Heap))
	n.init(5)
	for i, f := range p.Fields {
		for j, v := range random(f.Len(), uint64(i)) {
			p.Of(i)[j] += 0.5 * v / math.Sqrt(float64(max(1, f.Len()/256)))
		}
	}
	return n
}

func testBatch(act actionShape, rows, width int) (x batch[float64], a actions[float64]) {
	x.Rows, x.Numbers = rows, random(rows*width, 21)
	if act.options == nil {
		a.box = random(rows*act.dims, 22)
		return x, a
	}
	s := philox.New(1, philox.Init, 2000, 0)
	for range rows {
		for _, k := range act.options {
			a.choice = append(a.choice, int32(s.IntN(k)))
		}
	}
	return x, a
}

// random returns n random numbers.
func random(n int, key uint64) []float64 {
	x := make([]float64, n)
	randomize(x, key)
	return x
}

func randomize(x []float64, key uint64) {
	s := philox.New(1, philox.Init, 1000+key, 0)
	for i := range x {
		x[i], _ = s.Normal()
	}
}

func near(got, want, tol float64) bool { return math.Abs(got-want) <= tol }
