package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// TestGradients compares the gradient of a loss Σ c·logProb + d·entropy + e·value² with central differences in float64, for every
// parameter of the whole network and every distribution.
func TestGradients(t *testing.T) {
	const rows, width = 6, 3
	box := actionShape{dims: 3, summed: 3}
	choices := actionShape{dims: 3, options: []int{2, 4, 3}, summed: 3}
	masks := map[string][]uint8{ // the same for every row
		"multi-categorical, masked": {0, 1 /**/, 1, 0, 1, 1 /**/, 1, 1, 0},
		"chunk of two, masked":      {1, 1 /**/, 0, 1, 1},
	}
	for _, c := range []struct {
		name string
		act  actionShape
		set  func(*Config)
	}{
		{"categorical", actionShape{dims: 1, options: []int{5}, summed: 1}, nil},
		{"multi-categorical", choices, nil},
		{"multi-categorical by token", actionShape{dims: 3, options: []int{2, 4, 3}, summed: 1}, nil},
		{"chunk of two, by action", actionShape{dims: 4, options: []int{2, 3, 2, 3}, summed: 2}, nil},
		{"chunk of two, with a value for each action", actionShape{dims: 4, options: []int{2, 3, 2, 3}, summed: 2},
			func(c *Config) { c.NumActionChunks, c.ActionValues = 2, true }},
		{"multi-categorical, masked", choices, nil},
		{"chunk of two, masked", actionShape{dims: 4, options: []int{2, 3, 2, 3}, summed: 2}, nil},
		{"categorical, shared trunk", choices, func(c *Config) { c.ShareTrunk = true }},
		{"categorical, no critic", choices, func(c *Config) { c.AddValueHead = false }},
		{"gaussian", box, nil},
		{"gaussian by token", actionShape{dims: 3, summed: 1}, nil},
		{"gaussian, shared trunk, relu", box, func(c *Config) { c.ShareTrunk, c.Activation = true, "relu" }},
		{"gaussian, shared trunk, no critic", box, func(c *Config) { c.ShareTrunk, c.AddValueHead = true, false }},
		{"gaussian, linear", box, func(c *Config) { c.HiddenSizes = nil }},
		{"gaussian, deviations by state", box, func(c *Config) { c.IndependentStd = false }},
		{"gaussian, deviations by state and token, shared trunk", actionShape{dims: 3, summed: 1},
			func(c *Config) { c.IndependentStd, c.ShareTrunk = false, true }},
		{"sde", box, func(c *Config) { c.UseSDE, c.SDELearnFeatures = true, true }},
		{"sde by token, shared trunk", actionShape{dims: 3, summed: 1},
			func(c *Config) { c.UseSDE, c.SDELearnFeatures, c.ShareTrunk = true, true, true }},
		{"sde, shared trunk, no critic", box,
			func(c *Config) { c.UseSDE, c.SDELearnFeatures, c.ShareTrunk, c.AddValueHead = true, true, true, false }},
		{"sde, linear", box, func(c *Config) { c.UseSDE, c.HiddenSizes = true, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HiddenSizes = []int{5, 4}
			if c.set != nil {
				c.set(&cfg)
			}
			n := testNetwork(t, cfg, c.act, obsShape{numbers: width})
			w := n.newWork(rows + 1)
			x, a := testBatch(c.act, rows, width)
			if mask := masks[c.name]; mask != nil {
				x.mask = slices.Repeat(mask, rows)
				env.Space{Nvec: c.act.options}.Allow(a.choice, slices.Repeat(mask, rows*n.dist.Outputs()/len(mask)))
			}
			levels := rows * c.act.dims / c.act.summed
			values := 0
			if n.critic != nil {
				values = rows * cfg.Values()
			}
			dLogProb, dEntropy, weight := make([]float64, levels), make([]float64, levels), make([]float64, values)
			randomize(dLogProb, 11)
			randomize(dEntropy, 12)
			randomize(weight, 13)
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
			loss()
			var dValue []float64
			for i := range values {
				dValue = append(dValue, 2*weight[i]*w.value[i])
			}
			n.backward(w, dLogProb, dEntropy, dValue, nil) // leaves something in every buffer
			clear(n.params.Grad)
			loss()
			end := len(n.params.Grad)
			n.backward(w, dLogProb, dEntropy, dValue, func(lo, hi int) {
				if hi != end {
					t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
				}
				end = lo
			})
			if end != 0 {
				t.Errorf("ready ranges end at %d, want 0", end)
			}
			r := nntest.Params(n.params, loss)
			if r.Checked != n.params.Len() || !(r.Worst < 1e-7) {
				t.Errorf("%+v, want %d checked, worst < 1e-7", r, n.params.Len())
			}
		})
	}
}

// TestSDEFeatures: without SDELearnFeatures the trunk learns from the mean alone, everything above it as with it.
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

// TestNilDerivatives: a derivative that is not given counts as zero, and the ranges are still reported.
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

// testNetwork returns a network all of whose parameters are random, so that no gradient is small by initialisation.
func testNetwork(t *testing.T, cfg Config, act actionShape, obs obsShape) *network[float64] {
	t.Helper()
	p := new(nn.Params[float64])
	n, err := newNetwork(cfg, act, p, obs)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Alloc(tensor.Heap); err != nil {
		t.Fatal(err)
	}
	n.init(5)
	for i, f := range p.Fields {
		noise := make([]float64, f.Len())
		randomize(noise, uint64(i))
		for j, v := range noise {
			p.Of(i)[j] += 0.5 * v / math.Sqrt(float64(max(1, f.Len()/256)))
		}
	}
	return n
}

func testBatch(act actionShape, rows, width int) (x batch[float64], a actions[float64]) {
	x.Rows, x.Numbers = rows, make([]float64, rows*width)
	randomize(x.Numbers, 21)
	if act.options == nil {
		a.box = make([]float64, rows*act.dims)
		randomize(a.box, 22)
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

func randomize(x []float64, key uint64) {
	s := philox.New(1, philox.Init, 1000+key, 0)
	for i := range x {
		x[i], _ = s.Normal()
	}
}

func near(got, want, tol float64) bool { return math.Abs(got-want) <= tol }
