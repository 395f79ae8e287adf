package ptx

import (
	"cmp"
	"math"
)

// run runs thread t to the next barrier or to its end.
func (l *launch) run(t int) *Fault {
	r := l.registers[t*l.count : (t+1)*l.count]
	for at := l.next[t]; ; {
		in := &l.code[at]
		at++
		if in.when != noRegister && (r[in.when] != 0) == in.unless {
			continue
		}
		switch in.op {
		case branch:
			at = in.target
		case barrier:
			l.next[t] = at
			return nil
		case exit:
			l.next[t] = ended
			return nil
		case load, store:
			if f := l.access(t, at-1, r); f != nil {
				return f
			}
		case move:
			r[in.to] = r[in.a]
		case truncate:
			r[in.to] = uint64(uint32(r[in.a]))
		case extend:
			r[in.to] = uint64(signed(r[in.a]))

		case add32:
			r[in.to] = uint64(uint32(r[in.a] + r[in.b]))
		case add64:
			r[in.to] = r[in.a] + r[in.b]
		case sub32:
			r[in.to] = uint64(uint32(r[in.a] - r[in.b]))
		case sub64:
			r[in.to] = r[in.a] - r[in.b]
		case neg64:
			r[in.to] = -r[in.a]
		case mul32:
			r[in.to] = uint64(uint32(r[in.a] * r[in.b]))
		case mad32:
			r[in.to] = uint64(uint32(r[in.a]*r[in.b] + r[in.c]))
		case mul64:
			r[in.to] = r[in.a] * r[in.b]
		case mulWide:
			r[in.to] = uint64(signed(r[in.a]) * signed(r[in.b]))
		case div32, div64, divU, remU, rem64:
			if r[in.b] == 0 {
				return l.fault(t, at-1, "division by 0")
			}
			r[in.to] = divide(in.op, r[in.a], r[in.b])
		case min32:
			r[in.to] = uint64(uint32(min(signed(r[in.a]), signed(r[in.b]))))
		case max32:
			r[in.to] = uint64(uint32(max(signed(r[in.a]), signed(r[in.b]))))
		case min64:
			r[in.to] = uint64(min(int64(r[in.a]), int64(r[in.b])))
		case shl32:
			r[in.to] = uint64(uint32(r[in.a]) << r[in.b])
		case shl64:
			r[in.to] = r[in.a] << r[in.b]
		case shr:
			r[in.to] = r[in.a] >> r[in.b]
		case shrS32:
			r[in.to] = uint64(uint32(int32(r[in.a]) >> r[in.b]))
		case and:
			r[in.to] = r[in.a] & r[in.b]
		case or:
			r[in.to] = r[in.a] | r[in.b]
		case xor:
			r[in.to] = r[in.a] ^ r[in.b]
		case invert:
			r[in.to] = r[in.a] ^ 1
		case choose:
			if r[in.c] != 0 {
				r[in.to] = r[in.a]
			} else {
				r[in.to] = r[in.b]
			}
		case compare32:
			r[in.to] = holds(in.relation, signed(r[in.a]), signed(r[in.b]))
		case compare64:
			r[in.to] = holds(in.relation, int64(r[in.a]), int64(r[in.b]))
		case compareU:
			r[in.to] = holds(in.relation, r[in.a], r[in.b])
		case compareF:
			r[in.to] = holds(in.relation, float(r[in.a]), float(r[in.b]))

		case addF:
			r[in.to] = bits(float(r[in.a]) + float(r[in.b]))
		case subF:
			r[in.to] = bits(float(r[in.a]) - float(r[in.b]))
		case mulF:
			r[in.to] = bits(float(r[in.a]) * float(r[in.b]))
		case divF:
			r[in.to] = bits(float(r[in.a]) / float(r[in.b]))
		case fmaF:
			r[in.to] = bits(fma32(float(r[in.a]), float(r[in.b]), float(r[in.c])))
		case sqrtF:
			r[in.to] = bits(float32(math.Sqrt(float64(float(r[in.a])))))
		case recipF:
			r[in.to] = bits(1 / float(r[in.a]))
		case negF:
			r[in.to] = r[in.a] ^ 1<<31
		case absF:
			r[in.to] = r[in.a] &^ (1 << 31)
		case intToF:
			r[in.to] = bits(float32(int32(r[in.a])))
		case floatToD:
			r[in.to] = math.Float64bits(float64(float(r[in.a])))
		case intToD:
			r[in.to] = math.Float64bits(float64(int32(r[in.a])))
		case dToFloat:
			r[in.to] = bits(float32(double(r[in.a])))
		case addD:
			r[in.to] = math.Float64bits(double(r[in.a]) + double(r[in.b]))
		case mulD:
			r[in.to] = math.Float64bits(double(r[in.a]) * double(r[in.b]))
		case divD:
			r[in.to] = math.Float64bits(double(r[in.a]) / double(r[in.b]))
		case sqrtD:
			r[in.to] = math.Float64bits(math.Sqrt(double(r[in.a])))
		case recipD:
			r[in.to] = math.Float64bits(1 / double(r[in.a]))
		}
	}
}

// signed returns the lower half of x as a signed number.
func signed(x uint64) int64 { return int64(int32(x)) }

// divide returns the quotient or the remainder of a and b. b is not 0.
func divide(op opcode, a, b uint64) uint64 {
	switch op {
	case div32:
		return uint64(uint32(signed(a) / signed(b)))
	case div64:
		return uint64(int64(a) / int64(b))
	case divU:
		return a / b
	case remU:
		return a % b
	}
	return uint64(int64(a) % int64(b))
}

// holds returns 1 if the relation is true, else 0.
func holds[T cmp.Ordered](relation relation, a, b T) uint64 {
	var is bool
	switch relation {
	case equal:
		is = a == b
	case unequal:
		is = a != b
	case less:
		is = a < b
	case lessEqual:
		is = a <= b
	case greater:
		is = a > b
	case greaterEqual:
		is = a >= b
	case unordered:
		is = a != a || b != b
	case lessEqualOrUnordered:
		is = !(a > b)
	}
	if is {
		return 1
	}
	return 0
}
