package policy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// normalizer returns a policy that observes state [2] and goal [1] and normalises.
func normalizer(t *testing.T) *ActorCritic {
	cfg := DefaultConfig()
	cfg.NormalizeObservations, cfg.ObsClip = true, 1.5
	return newPolicy(t, cfg, env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 2), vector("goal", 1)},
		Action: box})
}

func observed(rows int, state, goal []float32) tensor.Dict {
	var d tensor.Dict
	d.Set("goal", tensor.FromF32(goal, rows, 1)) // not in the order of the spec
	d.Set("state", tensor.FromF32(state, rows, 2))
	return d
}

// dictSpec shows numbers and choices of every kind: a row is speed, keys, goal, then cell, count and the two of pair.
func dictSpec() env.Spec {
	return env.Spec{Name: "Test-v0", Action: multi, Obs: []env.Field{
		{Name: "cell", Space: discrete},
		{Name: "speed", Space: env.Space{Kind: env.Box, DType: tensor.F32}}, // a scalar: no dimension
		{Name: "keys", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{3}, Low: []float32{0, 100, 7},
			High: []float32{1, 200, 7}}},
		{Name: "count", Space: env.Space{Kind: env.Box, DType: tensor.I32, Shape: []int{1}, Low: []float32{-1},
			High: []float32{1}}},
		vector("goal", 2),
		{Name: "pair", Space: multi},
	}}
}

func observedDict() tensor.Dict {
	var d tensor.Dict
	d.Set("pair", tensor.FromI32([]int32{1, 3 /**/, 0, 0}, 2, 2))
	d.Set("goal", tensor.FromF32([]float32{5, 6 /**/, -5, -6}, 2, 2))
	d.Set("count", tensor.FromI32([]int32{-1, 1}, 2, 1))
	d.Set("speed", tensor.FromF32([]float32{0.5, -0.5}, 2))
	d.Set("cell", tensor.FromI32([]int32{2, 0}, 2, 1))
	d.Set("keys", tensor.New(tensor.U8, 2, 3))
	copy(d.Must("keys").U8(), []uint8{1, 150, 7 /**/, 0, 200, 7})
	return d
}

// TestRowsOfDict: numbers first, then a 1 for each choice, each in the order of the spec; choices are not normalised.
func TestRowsOfDict(t *testing.T) {
	cfg := DefaultConfig()
	p := newPolicy(t, cfg, dictSpec())
	rows := func(p *ActorCritic, want ...float32) {
		t.Helper()
		x, n, err := p.obs.read(p.obs.newWork(2), observedDict(), 2)
		if err != nil || n != 2 || len(x) != len(want) {
			t.Fatalf("%d rows, %d numbers, want 2 and %d (%v)", n, len(x), len(want), err)
		}
		for i := range want {
			if !near(float64(x[i]), float64(want[i]), 1e-6) {
				t.Fatalf("element %d of %v: want %v", i, x, want)
			}
		}
	}
	rows(p,
		0.5, 1, 0.5, 0, 5, 6 /*cell*/, 0, 0, 1 /*count*/, 1, 0, 0 /*pair*/, 0, 1, 0, 0, 0, 1,
		-0.5, 0, 1, 0, -5, -6 /*cell*/, 1, 0, 0 /*count*/, 0, 0, 1 /*pair*/, 1, 0, 1, 0, 0, 0)

	cfg.NormalizeObservations, cfg.ObsDim = true, 18
	p = newPolicy(t, cfg, dictSpec())
	sums := make([]float64, p.StatsLen())
	test.OK(t, p.AddStats(sums, observedDict()))
	p.MergeStats(sums)
	mean, variance, _ := p.obs.stats()
	want := [][2]float64{{0, 0.25}, {0.5, 0.25}, {0.75, 0.0625}, {0, 0}, {0, 25}, {0, 36}}
	for k, w := range want {
		if len(mean) != len(want) || !near(mean[k], w[0], 1e-12) || !near(variance[k], w[1], 1e-12) {
			t.Fatalf("mean %v, variance %v, want %v", mean, variance, want)
		}
	}
	rows(p,
		1, 1, -1, 0, 1, 1 /*cell*/, 0, 0, 1 /*count*/, 1, 0, 0 /*pair*/, 0, 1, 0, 0, 0, 1,
		-1, -1, 1, 0, -1, -1 /*cell*/, 1, 0, 0 /*count*/, 0, 0, 1 /*pair*/, 1, 0, 1, 0, 0, 0)

	obs := observedDict()
	obs.Must("cell").I32()[1] = 3
	if err := p.AddStats(sums, obs); err != nil {
		t.Error(err) // choices have no statistics
	}
	if _, err := p.Value(p.NewWork(2), obs); err == nil || !strings.Contains(err.Error(),
		`observation "cell": row 1, element 0: 3: expected 0 to 2`) {
		t.Errorf("a choice that is none: %v", err)
	}
}

// TestChoicesAlone: observations may be only choices, and bytes may be stacked.
func TestChoicesAlone(t *testing.T) {
	cfg := DefaultConfig()
	cfg.NormalizeObservations = true
	p := newPolicy(t, cfg, env.Spec{Name: "Test-v0", Action: discrete,
		Obs: []env.Field{{Name: "cell", Space: discrete}}})
	var obs tensor.Dict
	obs.Set("cell", tensor.FromI32([]int32{1, 2}, 2, 1))
	x, _, err := p.obs.read(p.obs.newWork(2), obs, 2)
	if want := []float32{0, 1, 0, 0, 0, 1}; err != nil || !slices.Equal(x, want) || p.StatsLen() != 0 {
		t.Errorf("rows %v, want %v; %d statistics (%v)", x, want, p.StatsLen(), err)
	}
	keys := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{2, 3}, Low: make([]float32, 6),
		High: []float32{1, 1, 1, 1, 1, 1}}
	if p := newPolicy(t, cfg, env.Spec{Name: "Test-v0", Action: discrete,
		Obs: []env.Field{{Name: "keys", Space: keys}}}); p.obs.width != 6 {
		t.Errorf("two frames of three bytes are %d numbers", p.obs.width)
	}
}

// TestObsStatistics: after merges over replicas and iterations, mean and variance are those of all observations.
func TestObsStatistics(t *testing.T) {
	p := normalizer(t)
	const rounds, rows = 4, 25
	var all [3][]float64
	for r := range rounds {
		total := make([]float64, p.StatsLen())
		for part := range 2 { // two replicas
			x := make([]float64, rows*3)
			randomize(x, uint64(60+2*r+part))
			state, goal := make([]float32, rows*2), make([]float32, rows)
			for i := range rows {
				state[2*i] = float32(1e4 + x[3*i]) // far from 0
				state[2*i+1] = float32(float64(r) * x[3*i+1])
				goal[i] = float32(3 * x[3*i+2])
				for k, v := range []float32{state[2*i], state[2*i+1], goal[i]} {
					all[k] = append(all[k], float64(v))
				}
			}
			sums := make([]float64, p.StatsLen())
			test.OK(t, p.AddStats(sums, observed(rows, state, goal)))
			for i, s := range sums {
				total[i] += s
			}
		}
		p.MergeStats(total)
	}
	mean, variance, count := p.obs.stats()
	test.Equal(t, count[0], rounds*2*rows, "count")
	for k, x := range all {
		var m, v float64
		for _, a := range x {
			m += a / float64(len(x))
		}
		for _, a := range x {
			v += (a - m) * (a - m) / float64(len(x))
		}
		// the first sums are about 0, 1e4 away
		if !near(mean[k], m, 1e-9*math.Abs(m)+1e-12) || !near(variance[k], v, 1e-7*v) {
			t.Errorf("element %d: mean %v variance %v, want %v %v", k, mean[k], variance[k], m, v)
		}
	}
}

// TestObsNormalized: rows are (x-mean)/√(var+ε), clipped, in the order of the spec; before anything was
// observed, clipped only.
func TestObsNormalized(t *testing.T) {
	p := normalizer(t)
	w := p.obs.newWork(2)
	obs := observed(2, []float32{1, -1, 4, 0}, []float32{-9, 2})
	rows := func(want ...float32) {
		t.Helper()
		x, n, err := p.obs.read(w, obs, 2)
		if err != nil || n != 2 {
			t.Fatal(n, err)
		}
		for i := range want {
			if !near(float64(x[i]), float64(want[i]), 1e-6) {
				t.Fatalf("rows %v, want %v", x, want)
			}
		}
	}
	rows(1, -1, -1.5, 1.5, 0, 1.5)
	mean, variance, _ := p.obs.stats()
	copy(mean, []float64{2, -1, 0})
	copy(variance, []float64{4, 1, 100})
	rows(-0.5, 0, -0.9, 1, 1, 0.2)
}

// TestObsStatisticsAreFrozen: neither acting nor learning changes the statistics.
func TestObsStatisticsAreFrozen(t *testing.T) {
	p := normalizer(t)
	obs, noise := observe(p, 3)
	w := p.NewWork(3)
	act := must[Act](t)(p.Forward(w, obs, Sample, noise)).clone()
	must[Eval](t)(p.Evaluate(w, obs, act.Action))
	test.OK(t, p.Backward(w, Grad{LogProb: act.LogProb}, nil))
	mean, variance, count := p.obs.stats()
	if mean[0] != 0 || variance[0] != 1 || count[0] != 0 {
		t.Errorf("mean %v, variance %v, count %v", mean, variance, count)
	}
}

// TestOneObservationIsNotCopied: a single observation without changes is read in place.
func TestOneObservationIsNotCopied(t *testing.T) {
	p := newPolicy(t, DefaultConfig(), env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)},
		Action: discrete})
	obs, _ := observe(p, 2)
	x, _, err := p.obs.read(p.obs.newWork(2), obs, 2)
	if err != nil || &x[0] != &obs.Must("state").F32()[0] {
		t.Errorf("copied (%v)", err)
	}
	if p.StatsLen() != 0 {
		t.Errorf("StatsLen %d without normalisation", p.StatsLen())
	}
}
