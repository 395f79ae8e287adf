package ptx

import "math"

func float(x uint64) float32  { return math.Float32frombits(uint32(x)) }
func bits(x float32) uint64   { return uint64(math.Float32bits(x)) }
func double(x uint64) float64 { return math.Float64frombits(x) }

// fma32 returns x·y + z, rounded once. The product is exact in float64. The sum is rounded to odd there, so that the
// second rounding, to float32, is right (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums").
func fma32(x, y, z float32) float32 {
	product, addend := float64(x)*float64(y), float64(z)
	sum := product + addend
	back := sum - product
	lost := (product - (sum - back)) + (addend - back)
	if lost != 0 && math.Float64bits(sum)&1 == 0 && lost == lost && !math.IsInf(sum, 0) {
		step := uint64(1)
		if (lost > 0) != (sum > 0) {
			step = math.MaxUint64 // towards 0
		}
		sum = math.Float64frombits(math.Float64bits(sum) + step)
	}
	return float32(sum)
}
