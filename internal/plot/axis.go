package plot

import (
	"math"
	"strconv"
)

// A Scale is the spacing of an axis.
type Scale uint8

const (
	Linear Scale = iota // the default
	Log2                // equal distances between powers of 2
	Log10               // equal distances between powers of 10
)

// base returns the base of a logarithmic scale.
func (s Scale) base() float64 {
	if s == Log2 {
		return 2
	}
	return 10
}

// An axis covers the range of the added values. A logarithmic axis stores exponents.
type axis struct {
	scale  Scale
	lo, hi float64
}

func newAxis(s Scale) axis { return axis{s, math.Inf(1), math.Inf(-1)} }

// coordinate returns the coordinate of v on the axis: v on a linear axis, and the exponent of v on a logarithmic axis.
// The exponent is not finite for v <= 0.
func (a *axis) coordinate(v float64) float64 {
	switch a.scale {
	case Log2:
		return math.Log2(v)
	case Log10:
		return math.Log10(v)
	}
	return v
}

func (a *axis) add(v float64) {
	if p := a.coordinate(v); finite(p) {
		a.lo, a.hi = min(a.lo, p), max(a.hi, p)
	}
}

// ticks rounds the axis to whole steps and returns the tick values. A linear axis has about six steps of 1, 2 or 5
// times a power of ten. A logarithmic axis has at most eight steps of whole exponents.
func (a *axis) ticks() []float64 {
	if a.lo > a.hi { // no value was added
		a.lo, a.hi = 0, 1
	}
	if a.scale != Linear {
		return a.powers()
	}
	// If the values differ only by rounding, widen the axis. Otherwise, adding a tiny step to a value would not change
	// it.
	if size := max(math.Abs(a.lo), math.Abs(a.hi)); a.hi-a.lo <= 1e-9*size {
		d := max(size/10, 1e-3)
		a.lo, a.hi = a.lo-d, a.hi+d
	}
	rough := (a.hi - a.lo) / 6
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{2, 2.5, 2} { // steps 2, 5, 10
		if step < rough {
			step *= m
		}
	}
	first, last := math.Floor(a.lo/step), math.Ceil(a.hi/step)
	a.lo, a.hi = first*step, last*step
	var at []float64
	for k := first; k <= last; k++ {
		at = append(at, k*step)
	}
	return at
}

func (a *axis) powers() []float64 {
	a.lo, a.hi = math.Floor(a.lo), math.Ceil(a.hi)
	if a.lo == a.hi {
		a.hi++
	}
	var at []float64
	for e := a.lo; e <= a.hi; e += max(1, math.Ceil((a.hi-a.lo)/8)) {
		at = append(at, math.Pow(a.scale.base(), e))
	}
	return at
}

// position returns the position of v on the axis, from 0 to 1.
func (a *axis) position(v float64) float64 { return (a.coordinate(v) - a.lo) / (a.hi - a.lo) }

// label formats a tick: 2.5M, 40k, -150, 0.02.
func label(v float64) string {
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if math.Abs(v) >= unit.from {
			return strconv.FormatFloat(v/unit.size, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
