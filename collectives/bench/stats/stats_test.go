package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestPercentile(t *testing.T) {
	x := []float64{15, 20, 35, 40, 50} // R: quantile(c(15,20,35,40,50), p, type=7)
	for _, c := range []struct{ p, want float64 }{{0, 15}, {25, 20}, {40, 29}, {50, 35}, {90, 46}, {100, 50}} {
		near(t, "percentile", percentile(x, c.p), c.want, 1e-12)
	}
	near(t, "of an even number", Median([]float64{4, 1, 3, 2}), 2.5, 0)
	near(t, "of one", percentile([]float64{7}, 99), 7, 0)
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
	unsorted := []float64{3, 1, 2}
	Summarize(unsorted)
	if unsorted[0] != 3 {
		t.Error("the samples were sorted in place")
	}
}

// TestMedianRanks compares the interval's ranks with table A.1 of Le Boudec, which counts from 1.
func TestMedianRanks(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{
		{6, 1, 6}, {7, 1, 7}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {12, 3, 10}, {20, 6, 15}, {30, 10, 21}, {50, 18, 33},
		{70, 27, 44},
		{100, 40, 61}, // ⌊50 - 0.98·10⌋ and its mirror image
		{10000, 4902, 5099},
		{1, 1, 1}, {5, 1, 5}, // no interval: the extremes
	} {
		if low, high := medianRanks(c.n); low+1 != c.low || high+1 != c.high {
			t.Errorf("of %d samples: ranks %d..%d, want %d..%d", c.n, low+1, high+1, c.low, c.high)
		}
	}
}

// TestCoverage counts how often the interval contains the true median of a skewed distribution.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 40, 200} {
		held := 0
		const rounds = 4000
		x := make([]float64, n)
		for range rounds {
			for i := range x {
				x[i] = math.Exp(r.NormFloat64() * 2) // median 1
			}
			if s := Summarize(x); s.CILow <= 1 && 1 <= s.CIHigh {
				held++
			}
		}
		if part := float64(held) / rounds; part < 0.94 || part > 0.99 {
			t.Errorf("%d samples: the interval holds the median in %.3f of cases, want 0.95 or a little more", n, part)
		}
	}
}

func TestRelativeCI(t *testing.T) {
	if got := Summarize([]float64{1, 1, 1, 1, 1}).RelativeCI(); !math.IsInf(got, 1) {
		t.Errorf("5 samples have an interval: %v", got)
	}
	near(t, "of equal samples", Summarize([]float64{2, 2, 2, 2, 2, 2}).RelativeCI(), 0, 0)
	// 1..9: median 5, interval [2, 8].
	near(t, "of 1..9", Summarize([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}).RelativeCI(), 0.6, 1e-12)
}

func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		u, p float64
	}{
		// By hand: of the C(6,3) = 20 orders one has U = 0 and one U = 9.
		{"apart", []float64{1, 2, 3}, []float64{4, 5, 6}, 0, 2.0 / 20},
		{"apart, the other way", []float64{4, 5, 6}, []float64{1, 2, 3}, 9, 2.0 / 20},
		// U counts 2>1, 5>1, 5>3, 5>4: 4 of 9 pairs. Orders with U <= 4: 1+1+2+3+3 = 10 of 20, twice that is 1.
		{"mixed", []float64{0, 2, 5}, []float64{1, 3, 4}, 4, 1},
		// Mann and Whitney's table: n = 4, m = 4, U <= 1 has probability 0.029; two-sided 4/70.
		{"4 and 4", []float64{1, 2, 3, 5}, []float64{4, 6, 7, 8}, 1, 4.0 / 70},
		// With ties: ranks 1, 2.5, 2.5, 4.5, 4.5, 6. U = 1+2.5+4.5-6 = 2. variance = 9/12·(7 - 12/30) = 4.95, z =
		// (2.5-0.5)/√4.95 = 0.8989.
		{"ties", []float64{1, 2, 3}, []float64{2, 3, 4}, 2, math.Erfc(2 / math.Sqrt(4.95) / math.Sqrt2)},
		{"all equal", []float64{1, 1}, []float64{1, 1, 1}, 3, 1},
		{"empty", nil, []float64{1}, 0, 1},
	} {
		u, p := MannWhitney(c.a, c.b)
		near(t, c.name+": U", u, c.u, 0)
		near(t, c.name+": p", p, c.p, 1e-12)
	}
}

// TestExactMeetsNormal compares the exact probability with the normal approximation where both are accurate.
func TestExactMeetsNormal(t *testing.T) {
	n := 20.0
	for _, u := range []int{60, 100, 150, 199} {
		z := (n*n/2 - float64(u) - 0.5) / math.Sqrt(n*n*(2*n+1)/12)
		near(t, "p", exactP(20, 20, u), math.Erfc(z/math.Sqrt2), 0.003)
	}
}

// TestFalseAlarms: equal distributions give p < 0.01 in about one case of a hundred, and a shift by half a deviation
// is found.
func TestFalseAlarms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	alarms, found := 0, 0
	const rounds = 2000
	for range rounds {
		a, b, c := make([]float64, 50), make([]float64, 60), make([]float64, 60)
		for i := range a {
			a[i] = math.Exp(r.NormFloat64())
		}
		for i := range b {
			b[i] = math.Exp(r.NormFloat64())
			c[i] = math.Exp(r.NormFloat64() + 1)
		}
		if _, p := MannWhitney(a, b); p < 0.01 {
			alarms++
		}
		if _, p := MannWhitney(a, c); p < 0.01 {
			found++
		}
	}
	if alarms < rounds/250 || alarms > rounds/50 {
		t.Errorf("%d false alarms of %d, want about 1 in 100", alarms, rounds)
	}
	if found < rounds*95/100 {
		t.Errorf("a shift by a deviation was found in %d of %d", found, rounds)
	}
}

func TestFit(t *testing.T) {
	var points []FitPoint
	for bytes := 8.0; bytes <= 1<<26; bytes *= 4 {
		points = append(points, FitPoint{Rounds: 3, Bytes: 1.5 * bytes, Time: 3*2 + 1.5*bytes*0.0005})
	}
	l := Fit(points)
	near(t, "alpha", l.Alpha, 2, 1e-9)
	near(t, "beta", l.Beta, 0.0005, 1e-12)
	near(t, "residual", l.Residual, 0, 1e-9)
	near(t, "at", l.At(2, 1000), 4.5, 1e-9)

	// By hand: times 1 and 3 at no bytes: Σ(1-α/T)² is least at α = (1+1/3)/(1+1/9) = 1.2; errors 0.2 and 0.6, root of
	// the mean of their squares.
	l = Fit([]FitPoint{{1, 0, 1}, {1, 0, 3}, {1, 0, 0}})
	near(t, "alpha alone", l.Alpha, 1.2, 1e-12)
	near(t, "its residual", l.Residual, math.Sqrt((0.04+0.36)/2), 1e-12)

	// Times that fall with size have no negative β.
	if l = Fit([]FitPoint{{1, 1, 10}, {1, 1000, 5}}); l.Beta < 0 || l.Alpha <= 0 {
		t.Errorf("times that fall: %+v", l)
	}
	if l = Fit(nil); l != (LinearFit{}) {
		t.Errorf("of nothing: %+v", l)
	}
}

func TestRule(t *testing.T) {
	r := StopRule{RelativeCI: 0.02, MinSamples: 30, MaxTime: time.Second, MaxSamples: 100}
	steady, noisy := make([]float64, 100), make([]float64, 100)
	for i := range steady {
		steady[i], noisy[i] = 100+float64(i%3), float64(1+i%10)
	}
	for _, c := range []struct {
		name    string
		samples []float64
		elapsed time.Duration
		want    bool
	}{
		{"too few", steady[:29], 0, false},
		{"enough", steady[:30], 0, true},
		{"noisy", noisy[:99], 0, false},
		{"most there may be", noisy[:100], 0, true},
		{"too long", noisy[:3], time.Second, true},
		{"nothing yet", nil, time.Hour, false},
	} {
		if got := r.Done(c.samples, c.elapsed); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestBatch(t *testing.T) {
	for _, c := range []struct {
		call, step time.Duration
		want       int
	}{{100, 1, 1}, {99, 1, 2}, {50 * time.Nanosecond, 40 * time.Nanosecond, 80}, {time.Millisecond, 40, 1},
		{0, 10, 1000}} {
		if got := Batch(c.call, c.step); got != c.want {
			t.Errorf("%v with steps of %v: %d calls, want %d", c.call, c.step, got, c.want)
		}
	}
}

// TestRatioInterval: the ends agree with tables of the test, and the interval contains the ratio in 95 of 100 cases.
func TestRatioInterval(t *testing.T) {
	a, b := []float64{11, 12, 13, 14, 15}, []float64{1, 1, 1, 1, 1}
	// the third and the 23rd of 25
	if ratio, low, high, ok := RatioInterval(a, b); ratio != 13 || low != 11 || high != 15 || !ok {
		t.Errorf("got %v in [%v, %v], %v", ratio, low, high, ok)
	}
	for _, c := range []struct {
		n, m int
		ok   bool
	}{{1, 1, false}, {3, 3, false}, {3, 5, true}, {4, 4, true}, {1, 30, false}, {0, 3, false}} {
		x := make([]float64, max(c.n, c.m))
		for i := range x {
			x[i] = 1 + float64(i)
		}
		if _, _, _, ok := RatioInterval(x[:c.n], x[:c.m]); ok != c.ok {
			t.Errorf("%d and %d samples: %v", c.n, c.m, ok)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	within := 0
	const times = 2000
	for range times {
		draw := func(scale float64) []float64 {
			x := make([]float64, 5)
			for i := range x {
				x[i] = scale * math.Exp(0.2*r.NormFloat64())
			}
			return x
		}
		if _, low, high, _ := RatioInterval(draw(3), draw(2)); low <= 1.5 && 1.5 <= high {
			within++
		}
	}
	if share := float64(within) / times; share < 0.95 || share > 0.985 { // exactly 0.968
		t.Errorf("%v of the intervals hold the ratio", share)
	}
}
