package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// greedyPolicy has three actions. obs has the maximal number of rows of w.
func greedyPolicy(t *testing.T, rows int) (p *Greedy, w Work, obs tensor.Dict) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.AddQHead, cfg.AddValueHead, cfg.HiddenSizes = true, false, []int{16}
	cfg.EpsilonStart, cfg.EpsilonEnd, cfg.EpsilonSteps = 1, 0.2, 100
	spec := boxSpec()
	spec.Action = env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}
	p = must[Policy](t)(NewMLP(cfg, spec, 1, tensor.Heap)).(*Greedy)
	state := make([]float32, rows*3)
	for i := range state {
		state[i] = float32(math.Sin(float64(i)))
	}
	obs.Set("state", tensor.FromF32(state, rows, 3))
	return p, p.NewWork(rows), obs
}

// A Greedy takes the action of the largest value, or with probability ε any.
func TestGreedyExplores(t *testing.T) {
	const rows, options = 400, 3
	p, w, obs := greedyPolicy(t, rows)
	greedy := must[Act](t)(p.Forward(w, obs, Deterministic, Noise{})).Action.Clone().I32()
	for _, c := range []struct {
		step    uint64
		epsilon float64
	}{{0, 1}, {50, 0.6}, {100, 0.2}, {1000, 0.2}} {
		noise := testNoise(rows)
		for i := range noise.Step {
			noise.Step[i] = c.step
		}
		act := must[Act](t)(p.Forward(w, obs, Sample, noise))
		same := 0
		for i, a := range act.Action.I32() {
			prob := c.epsilon / options
			if a == greedy[i] {
				same++
				prob += 1 - c.epsilon
			}
			if got := float64(act.LogProb.F32()[i]); math.Abs(got-math.Log(prob)) > 1e-6 {
				t.Fatalf("step %d: log-prob %v, want %v", c.step, got, math.Log(prob))
			}
		}
		want := rows * (1 - c.epsilon + c.epsilon/options)
		if math.Abs(float64(same)-want) > 50 { // five deviations
			t.Errorf("step %d: %d of %d choices are the best, want about %v", c.step, same, rows, want)
		}
	}
}

// A small step against the gradient of a loss Σ c·Q lowers it by its square.
func TestGreedyGradient(t *testing.T) {
	const rows, options = 400, 3
	p, w, obs := greedyPolicy(t, rows)
	dq := tensor.New(tensor.F32, rows, options)
	for i := range dq.F32() {
		dq.F32()[i] = float32(math.Cos(float64(i)))
	}
	loss := func() (sum float64) {
		for i, x := range must[tensor.Tensor](t)(p.Values(w, obs)).F32() {
			sum += float64(dq.F32()[i]) * float64(x)
		}
		return sum
	}
	before, end := loss(), len(p.params.Grad)
	test.OK(t, p.BackwardValues(w, dq, func(lo, hi int) {
		if hi != end {
			t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
		}
		end = lo
	}))
	if end != 0 {
		t.Errorf("ready ranges end at %d, want 0", end)
	}
	const rate = 1e-5
	var squares float64
	for i, g := range p.params.Grad {
		p.params.Data[i] -= rate * g
		squares += float64(g) * float64(g)
	}
	if got, want := before-loss(), rate*squares; !(want > 0) || math.Abs(got-want) > 0.02*want {
		t.Errorf("a small step gains %v, want %v", got, want)
	}
	if err := p.BackwardValues(w, dq.Slice(0, 1), nil); err == nil {
		t.Error("derivatives of another shape: no error")
	}
}

// TestGreedyMasked: forbidden actions have the value -Inf and are never chosen. Exploration chooses the others with
// equal probability.
func TestGreedyMasked(t *testing.T) {
	const rows = 300
	cfg := DefaultConfig()
	cfg.AddQHead, cfg.AddValueHead, cfg.EpsilonStart, cfg.EpsilonEnd = true, false, 0.5, 0.5
	spec := env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 3), mask(3)}, Action: discrete}
	p := must[Policy](t)(NewMLP(cfg, spec, 1, tensor.Heap)).(*Greedy)
	var obs tensor.Dict
	obs.Set("state", tensor.New(tensor.F32, rows, 3))
	obs.Set(env.ActionMask, tensor.New(tensor.U8, rows, 3))
	for i := range rows * 3 {
		obs.Must("state").F32()[i] = float32(math.Sin(float64(i)))
		if i%3 != i/3%3 { // one of three is forbidden
			obs.Must(env.ActionMask).U8()[i] = 1
		}
	}
	w := p.NewWork(rows)
	q := must[tensor.Tensor](t)(p.Values(w, obs)).Clone()
	act := must[Act](t)(p.Forward(w, obs, Deterministic, Noise{}))
	for row, a := range act.Action.I32() {
		forbidden := row % 3
		other := 3 - forbidden - int(a)
		if values := q.F32()[3*row:]; !math.IsInf(float64(values[forbidden]), -1) || int(a) == forbidden ||
			values[a] < values[other] {
			t.Fatalf("row %d: action %d of values %v, where %d is forbidden", row, a, values[:3], forbidden)
		}
	}
	greedy, best := act.Action.Clone(), 0
	act = must[Act](t)(p.Forward(w, obs, Sample, testNoise(rows)))
	for row, a := range act.Action.I32() {
		prob := 0.25
		if a == greedy.I32()[row] {
			best++
			prob = 0.75
		}
		if int(a) == row%3 || !near(float64(act.LogProb.F32()[row]), math.Log(prob), 1e-6) {
			t.Fatalf("row %d: action %d, log-prob %v; %d is forbidden", row, a, act.LogProb.F32()[row], row%3)
		}
	}
	if !near(float64(best), 0.75*rows, 5*math.Sqrt(0.75*0.25*rows)) {
		t.Errorf("%d of %d actions are the best, want about three quarters", best, rows)
	}
	clear(obs.Must(env.ActionMask).U8()[3:6])
	if _, err := p.Values(w, obs); err == nil || !strings.Contains(err.Error(),
		`observation "action_mask": row 1: no option of choice 0 is allowed`) {
		t.Errorf("nothing is allowed: %v", err)
	}
}
