package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// eachLevel runs f for every level that this machine has, with the code of that level.
func eachLevel(t *testing.T, f func(t *testing.T, lv level)) {
	for lv := portable; lv <= best; lv++ {
		t.Run([...]string{"portable", "avx2", "avx512"}[lv], func(t *testing.T) { atLevel(lv, func() { f(t, lv) }) })
	}
}

// atLevel runs f with the code of a level.
func atLevel(lv level, f func()) {
	defer func(was level) { best = was }(best)
	best = lv
	f()
}

// A guarded slice lies between words that must not change.
type guarded struct {
	all  []float32
	x    []float32
	skip int
}

const guard = 40 // words on either side, more than two vectors

// newGuarded returns a guarded slice of n words, which begins skip words later than one with skip 0.
func newGuarded(n, skip int) guarded {
	all := make([]float32, guard+skip+n+guard)
	for i := range all {
		all[i] = sentinel
	}
	return guarded{all, all[guard+skip:][:n:n], skip}
}

const sentinel = -123456.5

func (g guarded) check(t *testing.T, what string) {
	t.Helper()
	for i, v := range g.all {
		if inside := i >= guard+g.skip && i < guard+g.skip+len(g.x); !inside && v != sentinel {
			t.Fatalf("%s: wrote at %d of %d", what, i-guard-g.skip, len(g.x))
		}
	}
}

// random fills x with numbers of both signs and several magnitudes.
func random(x []float32, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(5)-2)))
	}
}

func randomN(n int, seed uint64) []float32 {
	x := make([]float32, n)
	random(x, seed)
	return x
}

// sameBits fails at the first element that differs. 0 and -0 differ, and all NaN are equal.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%#x), want %v (%#x)", what, i, len(want),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// ulps returns the distance of got from want, in units of the last place of the float32 nearest to want.
func ulps(got float32, want float64) float64 {
	near := float32(want)
	switch {
	case got != got && want != want:
		return 0
	case math.IsInf(float64(near), 0) || math.IsInf(float64(got), 0):
		if got == near {
			return 0
		}
		return math.Inf(1)
	}
	up := float64(math.Float32frombits(math.Float32bits(max(near, -near))+1)) - math.Abs(float64(near))
	return math.Abs(float64(got)-want) / up
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}
