package main

import (
	"fmt"
	"math"
)

// A function is an elementwise function. It computes one vector from the vectors x and y, or from dst, x and the scalar
// a.
type function struct {
	name     string
	operands string          // which of x, y, d (dst) and a the body reads
	body     func(v *vector) // leaves the result in register 0, regX
}

var functions = []function{
	{"tanh", "x", (*vector).tanh},
	{"tanhGrad", "xy", (*vector).tanhGrad},
	{"relu", "x", (*vector).relu},
	{"reluGrad", "xy", (*vector).reluGrad},
	{"exp", "x", (*vector).exp},
	{"log", "x", (*vector).log},
	{"axpy", "xda", (*vector).axpy},
	{"scale", "xa", (*vector).scale},
	{"expLess", "xa", (*vector).expLess},
	{"swiglu", "xy", (*vector).swiglu},
}

// elementwise writes func <name><width>(dst, x, y *float32, n int, a float32): whole vectors, then
// the rest under a mask.
func elementwise() *asm {
	file := newFile()
	constants := new(constants)
	for _, w := range widths {
		for _, f := range functions {
			file.mapped(w, f, constants)
		}
	}
	constants.write(file)
	return file
}

// Registers of an elementwise function: regX holds x, and regY holds y or dst. All others up to regLast are scratch.
// The registers after regLast hold constants, a and the mask.
const regX, regY, regLast = 0, 1, 8

func (a *asm) mapped(w width, f function, c *constants) {
	v := &vector{asm: new(asm), w: w, c: c, held: map[uint32]string{}}
	f.body(v)

	a.function(f.name, w, "dst, x, y *float32, n int, a float32")
	a.arguments("dst", "DI", "x", "SI", "y", "DX", "n", "CX")
	for _, o := range f.operands {
		if o == 'a' {
			a.op("VBROADCASTSS", "a+32(FP)", w.v(regA(w)))
		}
	}
	a.Write(v.before.Bytes())
	step := fmt.Sprintf("$%d", w.bytes)
	a.op("SUBQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JLT", "rest")
	a.label("loop")
	a.operands(f, func(from, to string) { a.op("VMOVUPS", "("+from+")", to) }, w)
	a.Write(v.asm.Bytes())
	a.op("VMOVUPS", w.v(regX), "(DI)")
	for _, p := range []string{"DI", "SI", "DX"} {
		a.op("ADDQ", step, p)
	}
	a.op("SUBQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JGE", "loop")
	a.label("rest")
	a.op("ADDQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JZ", "done")
	a.tailMask(w, 1)
	a.operands(f, func(from, to string) { a.loadMasked(w, w.mask(), "("+from+")", to) }, w)
	a.Write(v.asm.Bytes())
	a.storeMasked(w, w.mask(), w.v(regX), "(DI)")
	a.label("done")
	a.ret()
}

func regA(w width) int { return w.regs - 2 }

func (a *asm) operands(f function, load func(from, to string), w width) {
	for _, o := range f.operands {
		switch o {
		case 'x':
			load("SI", w.v(regX))
		case 'y':
			load("DX", w.v(regY))
		case 'd':
			load("DI", w.v(regY))
		}
	}
}

// A vector writes the body of a function for one vector width. The first argument of its methods is the destination, as
// in dst = a ∘ b. The last source may be a constant.
type vector struct {
	*asm
	w      width
	c      *constants
	before asm               // code before the loop: loads of constants into free registers
	held   map[uint32]string // constants in registers
}

func (v *vector) r(i int) string { return v.w.v(i) }

// k returns the constant with these bits as an operand: a register if one is free, else memory.
func (v *vector) k(bits uint32) string {
	if reg, ok := v.held[bits]; ok {
		return reg
	}
	at := fmt.Sprintf("constants<>+%d(SB)", v.c.place(bits))
	if i := regA(v.w) - 1 - len(v.held); v.w.masks() && i > regLast {
		v.held[bits] = v.r(i)
		v.before.op("VBROADCASTSS", at, v.r(i))
		return v.r(i)
	}
	if v.w.masks() {
		panic("asmgen: more constants than registers")
	}
	return at
}

// f returns a float32 constant as an operand.
func (v *vector) f(x float64) string { return v.k(math.Float32bits(float32(x))) }

func (v *vector) set(dst int, constant string)         { v.op("VMOVUPS", constant, v.r(dst)) }
func (v *vector) of(name string, dst, a int, b string) { v.op(name, b, v.r(a), v.r(dst)) }           // dst = a ∘ b
func (v *vector) addMul(dst, a int, b string)          { v.op("VFMADD231PS", b, v.r(a), v.r(dst)) }  // dst += a·b
func (v *vector) subMul(dst, a int, b string)          { v.op("VFNMADD231PS", b, v.r(a), v.r(dst)) } // dst -= a·b
func (v *vector) mulAdd(dst, a int, c string)          { v.op("VFMADD213PS", c, v.r(a), v.r(dst)) }  // dst = dst·a + c
func (v *vector) logic(name string, dst, a int, b string) {
	v.of(v.w.bits(name), dst, a, b)
}
func (v *vector) shift(name string, dst, a, n int) {
	v.op(name, fmt.Sprintf("$%d", n), v.r(a), v.r(dst))
}

// Predicates of VCMPPS.
const (
	eq, lt, le = 0, 1, 2 // ordered: false with NaN
	notGE      = 9       // true with NaN
)

// compare makes the mask of a ∘ b, in register mask or in K2.
func (v *vector) compare(mask, a, predicate int, b string) {
	to := v.r(mask)
	if v.w.masks() {
		to = "K2"
	}
	v.op("VCMPPS", fmt.Sprintf("$%d", predicate), b, v.r(a), to)
}

// where copies another operand to dst, in the lanes that are on in the mask from compare.
func (v *vector) where(mask, dst int, other string) {
	if v.w.masks() {
		v.op("VBLENDMPS", other, v.r(dst), "K2", v.r(dst))
	} else {
		v.op("VBLENDVPS", v.r(mask), other, v.r(dst), v.r(dst))
	}
}

const (
	signBit = 0x80000000
	absBits = 0x7fffffff
	one     = 0x3f800000
	magic   = 0x1.8p23 // x + magic has round(x) in its low bits, for |x| < 2^22
	ln2Hi   = 0.693359375
	ln2Lo   = math.Ln2 - ln2Hi // n·ln2Hi is exact for |n| < 2^14
)

// expReduced splits x = n·ln 2 + r. x is in register 0. The results are r in register 0, magic+n in register 2, n in
// register 3, and r²·q(r) + r = e^r - 1 in register 4. Register 5 is scratch.
//
// q is the polynomial of degree 5 that interpolates (e^r-1-r)/r² at the Chebyshev nodes of ±ln 2/2.
func (v *vector) expReduced() {
	v.set(2, v.f(magic))
	v.addMul(2, 0, v.f(math.Log2E))
	v.of("VSUBPS", 3, 2, v.f(magic))
	v.subMul(0, 3, v.f(ln2Hi))
	v.subMul(0, 3, v.f(ln2Lo))
	q := interpolate(func(r float64) float64 {
		return (math.Expm1(r) - r) / (r * r)
	}, math.Ln2/2, 6)
	v.set(4, v.f(q[5]))
	for i := 4; i >= 0; i-- {
		v.mulAdd(4, 0, v.f(q[i]))
	}
	v.of("VMULPS", 5, 0, v.r(0))
	v.mulAdd(4, 5, v.r(0))
}

// tanh x has the sign of x. For |x| < ½·ln 3, where |tanh x| < ½, it is x + x³·p(x²), which is accurate for small x.
// For larger |x|, it is 1 - 2e/(1+e) with e = e^(-2|x|) = 2ⁿ·(e^r-1) + 2ⁿ, which makes errors of the quotient smaller.
//
// p interpolates (tanh √z / √z - 1)/z at the Chebyshev nodes of |z| ≤ (½·ln 3)², with tan instead for z < 0.
func (v *vector) tanh() {
	const joint = 0.5493061443340548 // ½·ln 3
	p := interpolate(func(z float64) float64 {
		s, ratio := math.Sqrt(math.Abs(z)), math.Tanh
		if z < 0 {
			ratio = math.Tan
		}
		return (ratio(s)/s - 1) / z
	}, joint*joint, 6)

	v.of("VMULPS", 6, 0, v.r(0)) // the lower branch, in 6
	v.set(7, v.f(p[5]))
	for i := 4; i >= 0; i-- {
		v.mulAdd(7, 6, v.f(p[i]))
	}
	v.of("VMULPS", 6, 6, v.r(0))
	v.mulAdd(6, 7, v.r(0))

	v.logic("VPAND", 7, 0, v.k(signBit)) // the sign, in 7
	v.logic("VPOR", 0, 0, v.k(signBit))
	v.of("VADDPS", 0, 0, v.r(0))
	v.set(1, v.f(-20))           // tanh 10 rounds to 1
	v.of("VMAXPS", 0, 1, v.r(0)) // NaN passes: max returns its second operand
	v.compare(8, 0, lt, v.f(-2*joint))
	v.expReduced()
	v.shift("VPSLLD", 2, 2, 23) // the bits of magic are shifted out
	v.of("VPADDD", 2, 2, v.k(one))
	v.mulAdd(4, 2, v.r(2)) // e
	v.of("VADDPS", 5, 4, v.f(1))
	v.of("VADDPS", 4, 4, v.r(4))
	v.of("VDIVPS", 4, 4, v.r(5))
	v.set(1, v.f(1))
	v.of("VSUBPS", 4, 1, v.r(4))
	v.where(8, 6, v.r(4))
	v.logic("VPOR", 0, 6, v.r(7)) // restore the sign, also of a -0 that the lower branch made 0
}

// exp x = 2ⁿ·e^r. AVX-512 has an instruction for the product. Otherwise 2ⁿ is applied in two halves. Both round
// subnormal results once, and large results overflow.
func (v *vector) exp() {
	v.set(1, v.f(-105))
	v.of("VMAXPS", 0, 1, v.r(0))
	v.set(1, v.f(90))
	v.of("VMINPS", 0, 1, v.r(0))
	v.expReduced()
	v.of("VADDPS", 0, 4, v.f(1))
	if v.w.masks() {
		v.of("VSCALEFPS", 0, 0, v.r(3))
		return
	}
	v.of("VPSUBD", 2, 2, v.f(magic)) // n
	v.shift("VPSRAD", 3, 2, 1)
	v.of("VPSUBD", 2, 2, v.r(3))
	for _, half := range []int{2, 3} {
		v.shift("VPSLLD", half, half, 23)
		v.of("VPADDD", half, half, v.k(one))
		v.of("VMULPS", 0, 0, v.r(half))
	}
}

// expLess returns e^(x-a).
func (v *vector) expLess() {
	v.of("VSUBPS", 0, 0, v.r(regA(v.w)))
	v.exp()
}

// log x = e·ln 2 + log(1+f) for x = 2^e·(1+f) with 1+f from √½ to √2. The polynomial comes from
// Moshier's Cephes, logf.c.
func (v *vector) log() {
	v.of("VMULPS", 1, 0, v.f(0x1p25))
	v.op("VMOVUPS", v.r(0), v.r(2))
	v.set(3, v.f(0))
	v.compare(4, 0, lt, v.f(0x1p-126)) // subnormals are scaled up
	v.where(4, 2, v.r(1))
	v.where(4, 3, v.f(-25))
	v.of("VPSUBD", 4, 2, v.k(math.Float32bits(math.Sqrt2/2)))
	v.shift("VPSRAD", 4, 4, 23)
	v.shift("VPSLLD", 5, 4, 23)
	v.of("VPSUBD", 2, 2, v.r(5))
	v.op("VCVTDQ2PS", v.r(4), v.r(4))
	v.of("VADDPS", 3, 3, v.r(4)) // e
	v.of("VSUBPS", 2, 2, v.f(1)) // f
	v.of("VMULPS", 4, 2, v.r(2)) // f²
	p := []float64{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1,
		2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	v.set(5, v.f(p[0]))
	for _, c := range p[1:] {
		v.mulAdd(5, 2, v.f(c))
	}
	v.of("VMULPS", 5, 5, v.r(2))
	v.of("VMULPS", 5, 5, v.r(4)) // f³·p(f)
	v.addMul(5, 3, v.f(ln2Lo))
	v.subMul(5, 4, v.f(0.5))
	v.of("VADDPS", 2, 2, v.r(5))
	v.addMul(2, 3, v.f(ln2Hi))
	v.compare(4, 0, eq, v.f(math.Inf(1)))
	v.where(4, 2, v.r(0))
	v.compare(4, 0, eq, v.f(0))
	v.where(4, 2, v.f(math.Inf(-1)))
	v.compare(4, 0, notGE, v.f(0))
	v.where(4, 2, v.k(0x7fc00000))
	v.op("VMOVUPS", v.r(2), v.r(0))
}

func (v *vector) tanhGrad() {
	v.of("VMULPS", 1, 1, v.r(1))
	v.set(2, v.f(1))
	v.of("VSUBPS", 1, 2, v.r(1))
	v.of("VMULPS", 0, 0, v.r(1))
}

func (v *vector) relu() {
	v.set(2, v.f(0))
	v.of("VMAXPS", 0, 2, v.r(0)) // x unless 0 > x
}

func (v *vector) reluGrad() {
	v.set(2, v.f(0))
	v.compare(3, 1, le, v.r(2))
	v.where(3, 0, v.r(2))
}

func (v *vector) axpy() {
	v.of("VMULPS", 0, 0, v.r(regA(v.w)))
	v.of("VADDPS", 0, 0, v.r(1))
}

func (v *vector) scale() { v.of("VMULPS", 0, 0, v.r(regA(v.w))) }

// interpolate returns the coefficients of the polynomial that interpolates f at the n Chebyshev nodes of [-h, h],
// beginning with the constant.
func interpolate(f func(float64) float64, h float64, n int) []float64 {
	coef, basis := make([]float64, n), make([]float64, n) // Newton's form, converted to powers as it grows
	basis[0] = 1
	at := func(p []float64, x float64) (y float64) {
		for i := n - 1; i >= 0; i-- {
			y = y*x + p[i]
		}
		return y
	}
	for k := range n {
		x := h * math.Cos(math.Pi*(2*float64(k)+1)/float64(2*n))
		d := (f(x) - at(coef, x)) / at(basis, x)
		for i := range n {
			coef[i] += d * basis[i]
		}
		for i := n - 1; i >= 0; i-- { // basis·(r - x)
			basis[i] *= -x
			if i > 0 {
				basis[i] += basis[i-1]
			}
		}
	}
	return coef
}

// constants are 32-bit numbers in read-only memory, each repeated to fill 32 bytes.
type constants struct{ bits []uint32 }

func (c *constants) place(bits uint32) int {
	for i, b := range c.bits {
		if b == bits {
			return 32 * i
		}
	}
	c.bits = append(c.bits, bits)
	return 32 * (len(c.bits) - 1)
}

func (c *constants) write(a *asm) {
	a.raw("\n")
	for i, b := range c.bits {
		for j := range 4 {
			a.raw("DATA constants<>+%d(SB)/8, $0x%08x%08x\n", 32*i+8*j, b, b)
		}
	}
	a.raw("GLOBL constants<>(SB), RODATA|NOPTR, $%d\n", 32*len(c.bits))
}
