package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// evaluated returns the log-probs and entropies that a distribution gives actions.
func evaluated(d distribution[float64], dims int, a actions[float64], in inputs[float64]) (logProb, entropy []float64) {
	logProb, entropy = make([]float64, in.n*dims), make([]float64, in.n*dims)
	d.NewWork(in.n+3).Evaluate(logProb, entropy, a, in)
	return logProb, entropy
}

func expect(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || !near(got[i], want[i], 1e-12) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

// choices returns the distribution of choices with the given numbers of options.
func choices[T nn.Float](options []int) *categorical[T] {
	p := new(nn.Params[T])
	p.Group("actor")
	return newCategorical(p, options)
}

// TestCategoricalByHand: logits are the logs of 1:2:5 (shifted far off, which changes nothing) and of 1:3.
func TestCategoricalByHand(t *testing.T) {
	ln := math.Log
	out := []float64{
		ln(1) + 900, ln(2) + 900, ln(5) + 900, ln(1), ln(3),
		ln(1) - 900, ln(2) - 900, ln(5) - 900, ln(1), ln(3),
	}
	a := actions[float64]{choice: []int32{2, 0, 0, 1}}
	logProb, entropy := evaluated(choices[float64]([]int{3, 2}), 2, a, inputs[float64]{n: 2, out: out})
	expect(t, "log-probs", logProb, []float64{ln(5. / 8), ln(1. / 4), ln(1. / 8), ln(3. / 4)})
	h3 := -(1./8*ln(1./8) + 2./8*ln(2./8) + 5./8*ln(5./8))
	h2 := -(1./4*ln(1./4) + 3./4*ln(3./4))
	expect(t, "entropies", entropy, []float64{h3, h2, h3, h2})
}

// TestMaskByHand: options that are not allowed have no effect on the others, however large their logits. The mask holds
// for both actions of a chunk.
func TestMaskByHand(t *testing.T) {
	ln, inf := math.Log, math.Inf(-1)
	out := []float64{ln(1), 900, ln(3), ln(7), ln(9) /**/, 2, 2, 2, -900, 900}
	mask := []uint8{1, 0, 1, 0, 1}
	in := inputs[float64]{n: 1, out: out, mask: mask}
	d := choices[float64]([]int{3, 2, 3, 2})
	a := actions[float64]{choice: []int32{2, 1, 0, 1}}
	logProb, entropy := evaluated(d, 4, a, in)
	expect(t, "log-probs", logProb, []float64{ln(3. / 4), 0, ln(1. / 2), 0})
	expect(t, "entropies", entropy, []float64{-(1./4*ln(1./4) + 3./4*ln(3./4)), 0, ln(2), 0})

	w, dOut := d.NewWork(1), make([]float64, 10)
	w.Evaluate(logProb, entropy, a, in)
	w.Backward(dOut, []float64{1, 1, 1, 1}, []float64{2, 2, 2, 2}, a, in)
	// ∂ log p_a / ∂z_j = [j=a] - p_j, ∂H / ∂z_j = -p_j (log p_j + H)
	h := entropy[0]
	expect(t, "gradient", dOut, []float64{-1./4 - 2./4*(ln(1./4)+h), 0, 1./4 - 6./4*(ln(3./4)+h), 0, 0 /**/, 1. / 2, 0,
		-1. / 2, 0, 0})

	best := actions[float64]{choice: make([]int32, 4)}
	w.Choose(best, logProb, in, Deterministic, Noise{})
	if want := []int32{2, 1, 0, 1}; !slices.Equal(best.choice, want) {
		t.Errorf("mode %v, want %v", best.choice, want)
	}
	x := []float64{1, 2}
	if forbid(x, []uint8{0, 1}, 1); x[0] != inf || x[1] != 2 {
		t.Errorf("forbidden: %v, want [-Inf 2]", x)
	}
}

// TestMaskedFrequencies: forbidden options are never drawn, the others in proportion to their probabilities.
func TestMaskedFrequencies(t *testing.T) {
	in, noise := manyRows([]float64{math.Log(1), 5, math.Log(3), 5}, nil)
	in.mask = slices.Repeat([]uint8{1, 0, 1, 0}, draws)
	var count [4]float64
	for _, c := range chosen(choices[float64]([]int{4}), 1, false, in, noise).choice {
		count[c]++
	}
	if count[1] != 0 || count[3] != 0 || !near(count[0]/draws, 1./4, 5*math.Sqrt(3./16/draws)) {
		t.Errorf("%v of %d draws, want 1/4, none, 3/4, none", count, draws)
	}
}

// TestCategoricalExtremes: an option whose probability rounds to 0 is never drawn and has a finite log-prob
// and gradient.
func TestCategoricalExtremes(t *testing.T) {
	d := choices[float32]([]int{3})
	w := d.NewWork(1)
	in := inputs[float32]{n: 1, out: []float32{-2000, 0, -2000}}
	a := actions[float32]{choice: []int32{0}}
	logProb, entropy, dOut := make([]float32, 1), make([]float32, 1), make([]float32, 3)
	w.Evaluate(logProb, entropy, a, in)
	w.Backward(dOut, []float32{1}, []float32{1}, a, in)
	if logProb[0] != -2000 || entropy[0] != 0 || !slices.Equal(dOut, []float32{1, -1, 0}) {
		t.Errorf("log-prob %v, entropy %v, gradient %v; want -2000, 0, [1 -1 0]", logProb, entropy, dOut)
	}
	for u := range 100 {
		if got := Draw([]float32{0, 1, 0}, float64(u)/100); got != 1 {
			t.Fatalf("u = %d/100 drew option %d", u, got)
		}
	}
	if got := Draw([]float32{0.5, 0.5 - 0x1p-20, 0}, 1-0x1p-53); got != 1 {
		t.Errorf("beyond the sum of the probabilities: drew %d, want the last possible option", got)
	}
}

func TestGaussianByHand(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("actor")
	g := newGaussian(p, "actor", 2, 0, true)
	test.OK(t, p.Alloc(tensor.Heap))
	copy(p.Of(0), []float64{math.Log(2), math.Log(0.5)})
	a := actions[float64]{box: []float64{2, 0, 1, 1}}
	logProb, entropy := evaluated(g, 2, a, inputs[float64]{n: 2, out: []float64{1, 1, 1, 1}})
	// log N(a; μ, σ) = -(a-μ)²/(2σ²) - log σ - ½ log 2π
	c := 0.5 * math.Log(2*math.Pi)
	expect(t, "log-probs", logProb, []float64{-1./8 - math.Log(2) - c, -2 + math.Log(2) - c, -math.Log(2) - c,
		math.Log(2) - c})
	// H = ½ log(2πe σ²)
	h := func(sigma float64) float64 { return 0.5 * math.Log(2*math.Pi*math.E*sigma*sigma) }
	expect(t, "entropies", entropy, []float64{h(2), h(.5), h(2), h(.5)})
}

// At s = 0 the deviation is the initial one. Far from 0 it is one of the bounds.
func TestDeviationByStateByHand(t *testing.T) {
	d := newHeteroscedastic[float64](2, -0.5, true)
	in := inputs[float64]{n: 2, out: []float64{1, 1, 0, 100, -3, 0, -100, 0}}
	logProb, entropy := evaluated(d, 2, actions[float64]{box: []float64{2, 0, -3, 1}}, in)
	c := 0.5 * math.Log(2*math.Pi)
	e1, e4 := math.Exp(1), math.Exp(-4.)
	expect(t, "log-probs", logProb, []float64{-e1/2 + 0.5 - c, -e4/2 - 2 - c, 5 - c, -e1/2 + 0.5 - c})
	expect(t, "entropies", entropy, []float64{0.5 + c - 0.5, 0.5 + c + 2, 0.5 + c - 5, 0.5 + c - 0.5})

	many, noise := manyRows([]float64{1, -2, 0.3, 0}, nil)
	a := chosen(newHeteroscedastic[float64](2, -0.5, true), 2, true, many, noise)
	for k, mean := range []float64{1, -2} {
		var sum, sq float64
		for i := k; i < len(a.box); i += 2 {
			sum += a.box[i] / draws
			sq += a.box[i] * a.box[i] / draws
		}
		std := math.Exp(-5 + 3.5*(math.Tanh([]float64{0.3, 0}[k]+math.Atanh(4.5/3.5-1))+1))
		if !near(sum, mean, 5*std/math.Sqrt(draws)) || !near(sq-sum*sum, std*std, 5*std*std*math.Sqrt(2./draws)) {
			t.Errorf("dimension %d: mean %v, variance %v, want %v, %v", k, sum, sq-sum*sum, mean, std*std)
		}
	}
}

func TestSDEByHand(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("actor")
	s := newSDE(p, "actor", 2, 1, 0, 1, false)
	test.OK(t, p.Alloc(tensor.Heap))
	copy(p.Of(0), []float64{math.Log(0.5), math.Log(0.25)})
	in := inputs[float64]{n: 1, out: []float64{3}, features: []float64{1, -2}}
	logProb, entropy := evaluated(s, 1, actions[float64]{box: []float64{4}}, in)
	v := 1*0.25 + 4*0.0625 + 1e-6
	expect(t, "log-prob", logProb, []float64{-1/(2*v) - 0.5*math.Log(2*math.Pi*v)})
	expect(t, "entropy", entropy, []float64{0.5 * math.Log(2*math.Pi*math.E*v)})
}

// draws is how many rows the statistics below are taken over; bounds are five standard deviations.
const draws = 20000

func chosen(d distribution[float64], dims int, box bool, in inputs[float64], noise Noise) actions[float64] {
	a := actions[float64]{choice: make([]int32, in.n*dims)}
	if box {
		a = actions[float64]{box: make([]float64, in.n*dims)}
	}
	d.NewWork(in.n).Choose(a, make([]float64, in.n*dims), in, Sample, noise)
	return a
}

// manyRows repeats one row of outputs and features for as many environments.
func manyRows(out, features []float64) (inputs[float64], Noise) {
	in := inputs[float64]{n: draws, out: slices.Repeat(out, draws), features: slices.Repeat(features, draws)}
	noise := Noise{Seed: 3, Env: make([]uint64, draws), Step: make([]uint64, draws)}
	for i := range noise.Env {
		noise.Env[i] = uint64(i)
	}
	return in, noise
}

func TestCategoricalFrequencies(t *testing.T) {
	prob := []float64{1. / 8, 2. / 8, 5. / 8, 1. / 4, 3. / 4}
	var out []float64
	for _, p := range prob {
		out = append(out, math.Log(p))
	}
	in, noise := manyRows(out, nil)
	a := chosen(choices[float64]([]int{3, 2}), 2, false, in, noise)
	var count [5]float64
	both := 0.
	for i := 0; i < len(a.choice); i += 2 {
		count[a.choice[i]]++
		count[3+a.choice[i+1]]++
		if a.choice[i] == 2 && a.choice[i+1] == 1 {
			both++
		}
	}
	for i, p := range append(prob, 5./8*3./4) {
		got := both / draws // the choices are independent
		if i < len(count) {
			got = count[i] / draws
		}
		if !near(got, p, 5*math.Sqrt(p*(1-p)/draws)) {
			t.Errorf("frequency %d: %v, want %v", i, got, p)
		}
	}
}

func TestGaussianMoments(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("actor")
	g := newGaussian(p, "actor", 3, 0, true)
	test.OK(t, p.Alloc(tensor.Heap))
	mean, std := []float64{1, -2, 3}, []float64{2, 0.5, 1}
	for k, s := range std {
		p.Of(0)[k] = math.Log(s)
	}
	in, noise := manyRows(mean, nil)
	moments(t, chosen(g, 3, true, in, noise).box, mean, std)
}

// TestSDEMoments: over environments, the noise has the deviation that the density claims.
func TestSDEMoments(t *testing.T) {
	p := new(nn.Params[float64])
	p.Group("actor")
	s := newSDE(p, "actor", 3, 2, 0, 1, false)
	test.OK(t, p.Alloc(tensor.Heap))
	copy(p.Of(0), []float64{-1, 0, -2, 0.5, -1, 1})
	phi := []float64{0.5, -1, 2}
	std := make([]float64, 2)
	for k := range std {
		for j, f := range phi {
			std[k] += f * f * math.Exp(2*p.Of(0)[j*2+k])
		}
		std[k] = math.Sqrt(std[k])
	}
	in, noise := manyRows([]float64{1, -2}, phi)
	moments(t, chosen(s, 2, true, in, noise).box, []float64{1, -2}, std)
}

// moments checks mean, variance and independence of the columns of x.
func moments(t *testing.T, x, mean, std []float64) {
	t.Helper()
	dims := len(mean)
	for k := range mean {
		for l := range k + 1 {
			var m, cov float64
			for i := 0; i < len(x); i += dims {
				m += x[i+k] / draws
				cov += (x[i+k] - mean[k]) * (x[i+l] - mean[l]) / draws
			}
			if !near(m, mean[k], 5*std[k]/math.Sqrt(draws)) {
				t.Errorf("mean %d: %v, want %v", k, m, mean[k])
			}
			want, bound := 0., 5*std[k]*std[l]/math.Sqrt(draws)
			if k == l {
				want, bound = std[k]*std[k], bound*math.Sqrt2
			}
			if !near(cov, want, bound) {
				t.Errorf("covariance %d %d: %v, want %v", k, l, cov, want)
			}
		}
	}
}

// TestSDEPeriods: the noise of an environment is one linear function of the features for freq steps, then another, and
// does not depend on the row or on earlier calls with the same work.
func TestSDEPeriods(t *testing.T) {
	const freq = 4
	p := new(nn.Params[float64])
	p.Group("actor")
	s := newSDE(p, "actor", 2, 1, 0, freq, false)
	test.OK(t, p.Alloc(tensor.Heap))
	w := s.NewWork(2)
	at := func(env, step uint64, row int) float64 {
		in := inputs[float64]{n: 2, out: make([]float64, 2), features: []float64{1, 2, 1, 2}}
		a := actions[float64]{box: make([]float64, 2)}
		noise := Noise{Seed: 1, Env: []uint64{99, 99}, Step: []uint64{7, 7}}
		noise.Env[row], noise.Step[row] = env, step
		w.Choose(a, make([]float64, 2), in, Sample, noise)
		return a.box[row]
	}
	first := at(5, 0, 0)
	for step := range uint64(freq) {
		if at(5, step, int(step)%2) != first {
			t.Errorf("step %d: another noise within a period", step)
		}
	}
	next := at(5, freq, 0) // the same row in successive calls, where a wrong matrix may be kept
	last := at(5, freq-1, 0)
	other := at(6, freq-1, 0)
	if next == first || other == first || other == next {
		t.Error("another period or environment has the same noise")
	}
	if last != first || at(5, 0, 1) != first {
		t.Error("the noise of a period depends on what came before")
	}
}
