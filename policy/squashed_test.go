package policy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

// testNoise names noise for n rows.
func testNoise(n int) Noise {
	noise := Noise{Seed: 5, Env: make([]uint64, n), Step: make([]uint64, n)}
	for i := range n {
		noise.Env[i], noise.Step[i] = uint64(i), uint64(3*i)
	}
	return noise
}

// The gradient of Σ c·a + d·log p agrees with central differences in float64, for constant noise.
func TestSquashedGradients(t *testing.T) {
	const rows, width, dims = 6, 3, 3
	for _, c := range []struct {
		name   string
		hidden []int
		noise  float64
		mode   Mode
		heads  string
		batch  bool
	}{
		{"two layers", []int{5, 4}, 0, Sample, QHeadDefault, false},
		{"linear", nil, 0, Sample, QHeadDefault, false},
		{"without a distribution", []int{5, 4}, 0.3, Deterministic, QHeadDefault, false},
		{"normalised by the batch", []int{5, 4}, 0, Sample, QHeadCrossQ, true},
		{"normalised by running statistics", []int{5, 4}, 0, Sample, QHeadCrossQ, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HiddenSizes, cfg.ExplorationNoise, cfg.QHeadType = c.hidden, c.noise, c.heads
			params := new(nn.Params[float64])
			s := newSquashed(cfg, dims, params, width)
			test.OK(t, params.Alloc(tensor.Heap))
			s.init(1)
			randomize(params.Data, 3) // means and deviations far apart
			w := s.newWork(rows + 1)
			x, dAction, dLogProb := random(rows*width, 10), random(rows*dims, 11), random(rows, 12)
			loss := func() float64 {
				s.forward(w, x, rows, c.mode, testNoise(rows), c.batch)
				var sum float64
				for i, d := range dAction {
					sum += d * w.a[i]
				}
				for i, d := range dLogProb {
					sum += d * w.logProb[i]
				}
				return sum
			}
			checkGradients(t, params, loss, func(ready func(lo, hi int)) {
				s.backward(w, dAction, dLogProb, nil, ready)
			})
		})
	}
}

// TestSquashedLogProb: the density of a = tanh(μ + σε) is N(ε)/(σ (1 - a²)) in each dimension, also where a is
// all but 1.
func TestSquashedLogProb(t *testing.T) {
	const rows, dims = 40, 2
	cfg := DefaultConfig()
	cfg.HiddenSizes = nil
	params := new(nn.Params[float64])
	s := newSquashed(cfg, dims, params, 1)
	test.OK(t, params.Alloc(tensor.Heap))
	s.init(1)
	copy(params.Of(1), []float64{0.3, -9}) // the bias of the head
	w := s.newWork(rows)
	noise := testNoise(rows)
	s.forward(w, make([]float64, rows), rows, Sample, noise, false)
	sigma := math.Exp(cfg.InitLogStd)
	for row := range rows {
		eps := make([]float64, dims)
		s := noise.Stream(row)
		Normals(eps, &s)
		var want float64
		for k, mu := range []float64{0.3, -9} {
			u := mu + sigma*eps[k]
			if a := math.Tanh(u); math.Abs(w.a[row*dims+k]-a) > 1e-12 {
				t.Fatalf("row %d: a = %v, want %v", row, w.a[row*dims+k], a)
			}
			logCosh := math.Abs(u) + math.Log1p(math.Exp(-2*math.Abs(u))) - math.Ln2 // 1 - tanh² = 1/cosh²
			want += -eps[k]*eps[k]/2 - 0.5*math.Log(2*math.Pi) - math.Log(sigma) + 2*logCosh
		}
		if math.Abs(w.logProb[row]-want) > 1e-9 {
			t.Fatalf("row %d: log-prob %v, want %v", row, w.logProb[row], want)
		}
	}
	s.forward(w, make([]float64, rows), rows, Deterministic, Noise{}, false)
	if got := w.a[0]; got != math.Tanh(0.3) {
		t.Errorf("deterministic action %v, want tanh of the mean %v", got, math.Tanh(0.3))
	}
}

// TestSquashedEvaluate: evaluate gives drawn actions the log-probs of forward, and its gradient is that of
// finite differences in float64.
func TestSquashedEvaluate(t *testing.T) {
	const rows, width, dims = 6, 3, 2
	cfg := DefaultConfig()
	cfg.HiddenSizes = []int{5, 4}
	params := new(nn.Params[float64])
	s := newSquashed(cfg, dims, params, width)
	test.OK(t, params.Alloc(tensor.Heap))
	s.init(1)
	randomize(params.Data, 3)
	for i := range params.Data {
		params.Data[i] *= 0.4 // keep actions away from the bounds, where evaluate moves them inside
	}
	w := s.newWork(rows + 1)
	x, dLogProb := make([]float64, rows*width), make([]float64, rows)
	randomize(x, 10)
	randomize(dLogProb, 12)
	s.forward(w, x, rows, Sample, testNoise(rows), false)
	a, drawn := append([]float64(nil), w.a[:rows*dims]...), append([]float64(nil), w.logProb[:rows]...)
	s.evaluate(w, x, a, rows)
	for i, want := range drawn {
		if !near(w.logProb[i], want, 1e-6*max(1, math.Abs(want))) {
			t.Errorf("row %d: log-prob %v, when it was drawn %v", i, w.logProb[i], want)
		}
	}
	loss := func() float64 {
		s.evaluate(w, x, a, rows)
		var sum float64
		for i, d := range dLogProb {
			sum += d * w.logProb[i]
		}
		return sum
	}
	loss()
	s.backwardEvaluate(w, dLogProb, nil, nil)
	if r := nntest.Params(params, loss); r.Checked != params.Len() || !(r.Worst < 1e-7) {
		t.Errorf("%+v, want %d checked, worst < 1e-7", r, params.Len())
	}
	a[0], a[1] = 1, -1
	s.evaluate(w, x, a, rows)
	if lp := w.logProb[0]; lp-lp != 0 {
		t.Errorf("log-prob %v at the bounds", lp)
	}
}

// Gradients by the parameters and by the action agree with central differences in float64.
func TestEnsembleGradients(t *testing.T) {
	const rows, width, first = 5, 4, 2
	for name, c := range map[string]struct {
		hidden    []int
		layerNorm bool
	}{"two layers": {[]int{5, 4}, false}, "linear": {nil, false}, "normalised rows": {[]int{5, 4}, true}} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HiddenSizes, cfg.LayerNorm, cfg.NumQHeads = c.hidden, c.layerNorm, 3
			params := new(nn.Params[float64])
			e := newEnsemble(cfg, params, width)
			test.OK(t, params.Alloc(tensor.Heap))
			e.init(1)
			w, x, dq := e.newWork(rows+1), random(rows*width, 10), random(3*rows, 11)
			loss := func() float64 {
				var sum float64
				for i, q := range e.forward(w, x, rows, false) {
					sum += dq[i] * q
				}
				return sum
			}
			checkGradients(t, params, loss, func(ready func(lo, hi int)) { e.backward(w, dq, nil, ready) })
			before := slices.Clone(params.Grad)
			inputGrad := func(first int) []float64 {
				dx := make([]float64, rows*(width-first))
				loss()
				e.inputGrad(w, dx, dq, first)
				return dx
			}
			whole := inputGrad(0)
			if r := nntest.Gradients(x, whole, loss); r.Checked != rows*width || !(r.Worst < 1e-7) {
				t.Errorf("inputs: %+v", r)
			}
			for i, d := range inputGrad(first) {
				if want := whole[i/(width-first)*width+first+i%(width-first)]; d != want {
					t.Errorf("derivative %d by the last columns: %v, among all %v", i, d, want)
				}
			}
			if !slices.Equal(params.Grad, before) {
				t.Error("the derivative by inputs changed the gradients of parameters")
			}
			loss()
			dFirst := make([]float64, rows*first)
			e.backward(w, dq, dFirst, nil)
			for i, d := range dFirst {
				if want := whole[i/first*width+i%first]; math.Abs(d-want) > 1e-12 {
					t.Errorf("derivative %d by the first columns: %v, among all %v", i, d, want)
				}
			}
		})
	}
}

func boxSpec() env.Spec {
	return env.Spec{
		Name: "test",
		Obs:  []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}}}},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-2, 0},
			High: []float32{2, 10}},
	}
}

// A step against the gradient of Backward lowers -Q(s, π(s)) + log π. So actor and critic use the same units of
// actions.
func TestSoftActorGradient(t *testing.T) {
	const rows = 8
	cfg := DefaultConfig()
	cfg.AddQHead, cfg.AddValueHead, cfg.HiddenSizes = true, false, []int{16, 16}
	actor := must[Policy](t)(NewMLP(cfg, boxSpec(), 1, tensor.Heap)).(*SoftActor)
	critic := must[*Critic](t)(actor.NewCritic(7, tensor.Heap))
	state := make([]float32, rows*3)
	for i := range state {
		state[i] = float32(math.Sin(float64(i)))
	}
	var obs tensor.Dict
	obs.Set("state", tensor.FromF32(state, rows, 3))
	w, cw := actor.NewWork(rows), critic.NewWork(rows)
	dQ, dLogProb := tensor.New(tensor.F32, 2, rows), tensor.New(tensor.F32, rows, 1)
	for i := range rows {
		dQ.F32()[i], dLogProb.F32()[i] = -1, 0.1 // of the first head alone
	}
	loss := func() (sum float64) {
		act := must[Act](t)(actor.Forward(w, obs, Sample, testNoise(rows)))
		for i, a := range act.Action.F32() {
			if low, high := boxSpec().Action.Low[i%2], boxSpec().Action.High[i%2]; a < low || a > high {
				t.Errorf("action %v outside of [%v, %v]", a, low, high)
			}
		}
		q := must[tensor.Tensor](t)(critic.Q(cw, obs, act.Action))
		for i := range rows {
			sum += 0.1*float64(act.LogProb.F32()[i]) - float64(q.F32()[i])
		}
		return sum
	}
	before, dAction := loss(), tensor.New(tensor.F32, rows, 1, 2)
	critic.ActionGrad(cw, dAction, dQ)
	test.OK(t, actor.Backward(w, Grad{Action: dAction, LogProb: dLogProb}, nil))
	const rate = 1e-4
	var squares float64
	for i, g := range actor.Params().Grad {
		actor.Params().Data[i] -= rate * g
		squares += float64(g) * float64(g)
	}
	if got, want := before-loss(), rate*squares; !(want > 0) || math.Abs(got-want) > 0.02*want {
		t.Errorf("a small step gains %v, want %v", got, want)
	}
	if err := actor.Backward(w, Grad{Value: dLogProb}, nil); err == nil {
		t.Error("a derivative by values: no error")
	}
}

func TestSoftActorRefuses(t *testing.T) {
	cfg := DefaultConfig()
	cfg.AddQHead, cfg.AddValueHead = true, false
	spec := boxSpec()
	spec.Action.High = []float32{2, float32(math.Inf(1))}
	if _, err := NewMLP(cfg, spec, 1, tensor.Heap); err == nil {
		t.Error("a box without bounds: no error")
	}
	spec.Action = env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{2}, Nvec: []int{2, 3}}
	if _, err := NewMLP(cfg, spec, 1, tensor.Heap); err == nil {
		t.Error("several choices at a time: no error")
	}
	cfg.AddValueHead = true
	if _, err := NewMLP(cfg, boxSpec(), 1, tensor.Heap); err == nil {
		t.Error("both heads: no error")
	}
}

// TestSoftActorEvaluates: Evaluate gives the log-probs of Forward, also in the environment's units, and a step against
// Backward's gradient makes actions likelier.
func TestSoftActorEvaluates(t *testing.T) {
	const rows = 4
	cfg := DefaultConfig()
	cfg.AddQHead, cfg.AddValueHead, cfg.HiddenSizes = true, false, []int{16}
	pol := must[Policy](t)(NewMLP(cfg, boxSpec(), 1, tensor.Heap))
	var obs tensor.Dict
	obs.Set("state", tensor.FromF32([]float32{1, 2, 3, 0, 1, 0, -1, 0, 1, 2, -2, 0}, rows, 3))
	w := pol.NewWork(rows)
	act := must[Act](t)(pol.Forward(w, obs, Sample, testNoise(rows)))
	action, drawn := act.Action.Clone(), act.LogProb.Clone().F32()
	likelihood := func() (sum float64) {
		eval := must[Eval](t)(pol.Evaluate(w, obs, action))
		for _, lp := range eval.LogProb.F32() {
			sum += float64(lp)
		}
		return sum
	}
	before := likelihood()
	for i, lp := range must[Eval](t)(pol.Evaluate(w, obs, action)).LogProb.F32() {
		if !near(float64(lp), float64(drawn[i]), 1e-4) {
			t.Errorf("row %d: log-prob %v, when it was drawn %v", i, lp, drawn[i])
		}
	}
	up := tensor.FromF32([]float32{1, 1, 1, 1}, rows, 1)
	if err := pol.Backward(w, Grad{LogProb: up, Action: action}, nil); err == nil {
		t.Error("derivative by actions after Evaluate: no error")
	}
	test.OK(t, pol.Backward(w, Grad{LogProb: up}, nil))
	var slope float64
	for i, g := range pol.Params().Grad {
		pol.Params().Data[i] += 1e-4 * g
		slope += float64(g) * float64(g)
	}
	if got, want := likelihood()-before, 1e-4*slope; !near(got, want, 0.1*want) {
		t.Errorf("a step along the gradient adds %v to the likelihood, want about %v", got, want)
	}
	if err := pol.Backward(pol.NewWork(rows), Grad{LogProb: up}, nil); err == nil {
		t.Error("no Evaluate before Backward: no error")
	}
	if _, err := pol.Evaluate(w, obs, tensor.New(tensor.F32, rows, 2)); err == nil {
		t.Error("actions of another shape: no error")
	}
}

// TestFixedDeviation: without learn_std the gradient by the parameters of deviations is 0, and all other gradients are
// the same.
func TestFixedDeviation(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"of parameters": func(*Config) {}, "by state": func(c *Config) { c.IndependentStd = false },
	} {
		gradient := func(learn bool) *nn.Params[float64] {
			cfg := DefaultConfig()
			cfg.LearnStd = learn
			set(&cfg)
			n := testNetwork(t, cfg, actionShape{dims: 2, summed: 2}, obsShape{numbers: 3})
			w := n.newWork(4)
			x, a := testBatch(actionShape{dims: 2, summed: 2}, 4, 3)
			n.evaluate(w, &x, a)
			n.backward(w, []float64{1, 2, 3, 4}, []float64{1, 1, 1, 1}, nil, nil)
			return n.params
		}
		learnt, fixed := gradient(true), gradient(false)
		zeroed := 0
		for i, f := range fixed.Fields {
			for k, g := range fixed.GradOf(i) {
				deviation := f.Name == "actor.log_std" || name == "by state" &&
					strings.HasPrefix(f.Name, "actor.head") && k%4 >= 2
				if want := learnt.GradOf(i)[k]; strings.HasPrefix(f.Name, "actor.head") || f.Name == "actor.log_std" {
					if deviation && (g != 0 || want == 0) || !deviation && g != want {
						t.Errorf("%s: %s[%d]: %v, else %v", name, f.Name, k, g, want)
					}
					if deviation {
						zeroed++
					}
				}
			}
		}
		if zeroed == 0 {
			t.Errorf("%s: nothing makes deviations", name)
		}
	}
}

// TestValuePoliciesAllocateNothing covers the step loop of SAC, TD3, CrossQ and DQN, and the update of an actor.
func TestValuePoliciesAllocateNothing(t *testing.T) {
	const rows = 4
	greedy, _, obs := greedyPolicy(t, rows)
	policies := map[string]Policy{"greedy": greedy}
	for name, set := range map[string]func(*Config){"sac": func(c *Config) {}, "td3": func(c *Config) {
		c.ExplorationNoise = 0.1
	}, "crossq": func(c *Config) { c.QHeadType = QHeadCrossQ }} {
		cfg := DefaultConfig()
		cfg.AddQHead, cfg.AddValueHead = true, false
		set(&cfg)
		policies[name] = must[Policy](t)(NewMLP(cfg, boxSpec(), 1, tensor.Heap))
	}
	for name, p := range policies {
		w, noise, grad := p.NewWork(rows), testNoise(rows), Grad{}
		test.NoAllocs(t, 10, func() {
			_, err := p.Forward(w, obs, Sample, noise)
			test.OK(t, err)
			act := test.Must(p.Forward(w, obs, Deterministic, noise))(t)
			if _, ok := p.(*SoftActor); ok {
				grad.Action = act.Action
				test.OK(t, p.Backward(w, grad, nil))
			}
		}, "%s", name)
	}
}
