package bench

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A pattern defines the numbers in the members' buffers, and so the results of operations. Element i of member m is a
// function of (salt, m, i mod period). The period is a prime, so that a block in the wrong place or a wrong stride
// gives wrong numbers.
type pattern struct {
	op      spmd.Op
	dtype   tensor.DType
	members int
	salt    uint64 // changes with every check, so that the result of an earlier call is wrong
	real    bool   // floats in [-1, 1) instead of integers
}

const period = 251

// digits has the number of binary digits of the integers that each type holds exactly. Numbers are made from float64,
// so I64 has no more digits than F64.
var digits = map[tensor.DType]int{tensor.F32: 24, tensor.F64: 53, tensor.I32: 31, tensor.I64: 53, tensor.BF16: 8}

// top returns the largest integer among the numbers: at most 15, and so small that every partial sum is exact. It
// returns 0 if even sums of ones are not exact.
func (p *pattern) top() int64 {
	if p.dtype == tensor.U8 {
		return 15 // sums wrap, with the same result in any order
	}
	return min(15, int64(1)<<digits[p.dtype]/int64(p.members))
}

// exact reports whether a reduction has the same bits in any order.
func (p *pattern) exact() bool {
	isFloat := p.dtype == tensor.F32 || p.dtype == tensor.F64 || p.dtype == tensor.BF16
	return !isFloat || !p.real && (p.op != spmd.Sum || p.top() > 0)
}

// number returns element i of member m.
func (p *pattern) number(m, i int) float64 {
	h := mix(p.salt<<40 ^ uint64(m)<<20 ^ uint64(i%period))
	switch {
	case !p.exact():
		return round(p.dtype, float64(int64(h>>11))/(1<<52)-1)
	case p.op == spmd.Prod:
		return float64(1 + (h+uint64(m))%7/6) // six of seven numbers are 1, one is 2; powers of two are exact
	}
	return float64(1 + h%uint64(max(1, p.top())))
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// reduced returns x, which is element i of the reduction over all members. A correct result that was computed in
// another order differs from x by at most tolerance.
func (p *pattern) reduced(i int) (x, tolerance float64) {
	x = p.number(0, i)
	sum := math.Abs(x)
	for m := 1; m < p.members; m++ {
		v := p.number(m, i)
		sum += math.Abs(v)
		switch p.op {
		case spmd.Sum:
			x += v
		case spmd.Prod:
			x *= v
		case spmd.Min:
			x = min(x, v)
		case spmd.Max:
			x = max(x, v)
		}
	}
	if p.exact() || p.op == spmd.Min || p.op == spmd.Max {
		return x, 0
	}
	if p.op == spmd.Prod {
		sum = math.Abs(x)
	}
	// Each of the n-1 operations and the last rounding has an error of at most half a unit in the last place of a
	// partial result, which is at most Σ|x|.
	return x, float64(p.members) * math.Ldexp(sum, 1-digits[p.dtype])
}

// fill writes elements first, first+1, … of member m into b.
func (p *pattern) fill(b []byte, m, first int) {
	e := p.dtype.Size()
	n := min(len(b)/e, period)
	for i := range n {
		put(b[i*e:], p.dtype, p.number(m, (first+i)%period))
	}
	spread(b, n*e)
}

// spread repeats the first n bytes of b over the rest of b.
func spread(b []byte, n int) {
	for ; n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// wrong returns how many elements of b differ from elements first, first+1, … of member m.
func (p *pattern) wrong(b []byte, m, first int) int64 {
	return p.differ(b, first, func(i int) (float64, float64) { return p.number(m, i), 0 })
}

// wrongSum returns how many elements of b differ from elements first, first+1, … of the reduction.
func (p *pattern) wrongSum(b []byte, first int) int64 { return p.differ(b, first, p.reduced) }

// differ returns how many elements of b differ from of(first), of(first+1), … by more than the tolerance.
func (p *pattern) differ(b []byte, first int, of func(i int) (x, tolerance float64)) int64 {
	e := p.dtype.Size()
	var want, tolerance [period]float64
	bits := make([]byte, period*e)
	for i := range period {
		want[i], tolerance[i] = of((first + i) % period)
		put(bits[i*e:], p.dtype, want[i])
	}
	wrong := int64(0)
	for at := 0; at < len(b); at += len(bits) {
		part := b[at:min(len(b), at+len(bits))]
		if bytes.Equal(part, bits[:len(part)]) {
			continue
		}
		for i := range len(part) / e {
			got := part[i*e : (i+1)*e]
			near := tolerance[i] > 0 && math.Abs(get(got, p.dtype)-want[i]) <= tolerance[i]
			if !near && !bytes.Equal(got, bits[i*e:(i+1)*e]) {
				wrong++
			}
		}
	}
	return wrong
}

// put writes x as an element; integers wrap.
func put(b []byte, d tensor.DType, x float64) {
	switch d {
	case tensor.F32:
		binary.NativeEndian.PutUint32(b, math.Float32bits(float32(x)))
	case tensor.F64:
		binary.NativeEndian.PutUint64(b, math.Float64bits(x))
	case tensor.I32:
		binary.NativeEndian.PutUint32(b, uint32(int64(x)))
	case tensor.I64:
		binary.NativeEndian.PutUint64(b, uint64(int64(x)))
	case tensor.U8:
		b[0] = byte(int64(x))
	case tensor.BF16:
		var bits [1]uint16
		tensor.ToBF16(bits[:], []float32{float32(x)})
		binary.NativeEndian.PutUint16(b, bits[0])
	}
}

// get reads a floating-point element.
func get(b []byte, d tensor.DType) float64 {
	switch d {
	case tensor.F32:
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
	case tensor.BF16:
		return float64(math.Float32frombits(uint32(binary.NativeEndian.Uint16(b)) << 16))
	}
	return math.Float64frombits(binary.NativeEndian.Uint64(b))
}

// round returns x rounded to the type.
func round(d tensor.DType, x float64) float64 {
	var b [8]byte
	put(b[:], d, x)
	return get(b[:], d)
}

// poison is the value of guards, and of result buffers before an operation.
const poison = 0xa5

func poisonAll(b []byte) {
	if len(b) > 0 {
		b[0] = poison
		spread(b, 1)
	}
}

func poisoned(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return x != poison })
}
