package main

import "fmt"

// transformer writes the kernels of transformers: norms, rotations, softmax and SwiGLU of rows. The
// formulas are in the doc comments of transformer.go.
func transformer() *asm {
	file := newFile()
	constants := new(constants)
	for _, w := range widths {
		file.fused(w, constants, "rmsNorm", "y, inv, x, w *float32, m, n int, eps float64", (*vector).rmsNorm)
		file.fused(w, constants, "rmsNormGrad", "p *normGrad", (*vector).rmsNormGrad)
		if !w.masks() { // half a head has often eight elements, and masked stores are slow before loads near them
			file.fused(w, constants, "rotate", "p *rotation", (*vector).rotate)
		}
		file.fused(w, constants, "swigluGrad", "y, gate, up, dy *float32, n int", (*vector).swigluGrad)
		file.fused(w, constants, "softmax", "p *softmax", (*vector).softmax)
		file.fused(w, constants, "attendScores", "p *attention, n int", (*vector).attendScores)
		file.fused(w, constants, "attendSoftmax", "p *attention, n int", (*vector).attendSoftmax)
		file.fused(w, constants, "attendValues", "p *attention, n int", (*vector).attendValues)
		file.fused(w, constants, "softmaxGrad", "p *softmax", (*vector).softmaxGrad)
		file.fused(w, constants, "sumExp", "sums *[3]float32, x *float32, n int", (*vector).sumExp)
		file.fused(w, constants, "dot", "sum, x, y *float32, n int", (*vector).dot)
	}
	file.raw("\nDATA lanes<>+0(SB)/8, $0x0000000100000000\n")
	for i := 2; i < 16; i += 2 {
		file.raw("DATA lanes<>+%d(SB)/8, $0x%08x%08x\n", 4*i, i+1, i)
	}
	file.raw("GLOBL lanes<>(SB), RODATA|NOPTR, $64\n")
	constants.write(file)
	return file
}

// fused writes a function that loads constants into registers, and then runs the code that body writes.
func (a *asm) fused(w width, c *constants, name, params string, body func(v *vector)) {
	v := &vector{asm: new(asm), w: w, c: c, held: map[uint32]string{}}
	body(v)
	a.function(name, w, params)
	a.Write(v.before.Bytes())
	a.Write(v.asm.Bytes())
	a.ret()
}

// Registers of functions on rows: index is the offset of the present chunk and whole the end of the last full chunk,
// both in bytes. rest is the number of elements after the last full chunk.
const index, whole, rest = "BX", "R14", "R15"

// chunk is the number of elements of a row that functions with sums process at a time. A chunk has one or two vectors.
const chunk = 16

func (v *vector) perChunk() int { return chunk / v.w.floats() }

// fields loads fields of the struct at R13 into registers.
func (v *vector) fields(name string, pairs ...string) {
	v.op("MOVQ", "p+0(FP)", "R13")
	for i := 0; i < len(pairs); i += 2 {
		v.op("MOVQ", name+"_"+pairs[i]+"(R13)", pairs[i+1])
	}
}

// splitRow sets the registers that the method columns reads, for rows of n elements. n is in CX, which splitRow
// overwrites.
func (v *vector) splitRow(vectors int) {
	v.op("MOVQ", "CX", rest)
	v.op("ANDQ", fmt.Sprintf("$%d", vectors*v.w.floats()-1), rest)
	v.op("SUBQ", rest, "CX")
	v.op("SHLQ", "$2", "CX")
	v.op("MOVQ", "CX", whole)
	v.op("MOVQ", rest, "CX")
	v.tailMask(v.w, vectors)
}

// A part is one vector of a row: a whole vector, or the masked rest of the row.
type part struct {
	*vector
	h, vectors int // the index h of the vector in its chunk, and the number of vectors in a chunk
	masked     bool
	tag        string // for labels
}

// columns processes a row, chunk by chunk.
func (v *vector) columns(tag string, vectors int, body func(p part)) {
	v.op("XORQ", index, index)
	v.label(tag)
	v.op("CMPQ", index, whole)
	v.op("JGE", tag+"Rest")
	for h := range vectors {
		body(part{v, h, vectors, false, fmt.Sprintf("%s%d", tag, h)})
	}
	v.op("ADDQ", fmt.Sprintf("$%d", vectors*v.w.bytes), index)
	v.op("JMP", tag)
	v.label(tag + "Rest")
	v.op("TESTQ", rest, rest)
	v.op("JZ", tag+"Done")
	for h := range vectors {
		body(part{v, h, vectors, true, fmt.Sprintf("%sRest%d", tag, h)})
	}
	v.label(tag + "Done")
}

func (p part) at(base string) string {
	if p.h == 0 {
		return fmt.Sprintf("(%s)(%s*1)", base, index)
	}
	return fmt.Sprintf("%d(%s)(%s*1)", p.h*p.w.bytes, base, index)
}

func (p part) mask() string {
	if p.w.masks() {
		return "K1"
	}
	return p.r(p.w.regs - p.vectors + p.h)
}

func (p part) load(base string, to int) {
	if p.masked {
		p.loadMasked(p.w, p.mask(), p.at(base), p.r(to))
	} else {
		p.op("VMOVUPS", p.at(base), p.r(to))
	}
}

// loadOr is like load, but takes the lanes that are off in the mask from another register.
func (p part) loadOr(base string, to, other int) {
	switch {
	case !p.masked:
		p.load(base, to)
	case p.w.masks():
		p.op("VMOVUPS", p.r(other), p.r(to))
		p.op("VMOVUPS", p.at(base), p.mask(), p.r(to))
	default:
		p.load(base, to)
		p.op("VBLENDVPS", p.mask(), p.r(to), p.r(other), p.r(to))
	}
}

func (p part) store(from int, base string) {
	if p.masked {
		p.storeMasked(p.w, p.mask(), p.r(from), p.at(base))
	} else {
		p.op("VMOVUPS", p.r(from), p.at(base))
	}
}

func (v *vector) zero(regs ...int) {
	for _, i := range regs {
		v.op("VXORPS", v.r(i), v.r(i), v.r(i))
	}
}

// widen converts a register to float64, and sets registers lo and hi to the two halves. lo may be the source.
func (v *vector) widen(from, lo, hi int) {
	if v.w.masks() {
		v.op("VEXTRACTF64X4", "$1", v.r(from), fmt.Sprintf("Y%d", hi))
		v.op("VCVTPS2PD", fmt.Sprintf("Y%d", from), v.r(lo))
		v.op("VCVTPS2PD", fmt.Sprintf("Y%d", hi), v.r(hi))
		return
	}
	v.op("VEXTRACTF128", "$1", v.r(from), fmt.Sprintf("X%d", hi))
	v.op("VCVTPS2PD", fmt.Sprintf("X%d", from), v.r(lo))
	v.op("VCVTPS2PD", fmt.Sprintf("X%d", hi), v.r(hi))
}

// foldDoubles adds up sixteen float64, which begin in register 0. Each step adds the two halves. The sum is in X0.
// Register 1 is scratch.
func (v *vector) foldDoubles() {
	if v.w.masks() {
		v.op("VADDPD", "Z1", "Z0", "Z0")
		v.op("VEXTRACTF64X4", "$1", "Z0", "Y1")
	} else {
		v.op("VADDPD", "Y2", "Y0", "Y0")
		v.op("VADDPD", "Y3", "Y1", "Y1")
	}
	v.op("VADDPD", "Y1", "Y0", "Y0")
	v.op("VEXTRACTF128", "$1", "Y0", "X1")
	v.op("VADDPD", "X1", "X0", "X0")
	v.op("VPERMILPD", "$1", "X0", "X1")
	v.op("VADDSD", "X1", "X0", "X0")
}

// fold reduces sixteen lanes to one by op. Each step combines the two halves. The lanes are in register i, and in i+1
// if they take two vectors. The result is in the first lane of X<i>. The last argument is a scratch register.
func (v *vector) fold(op string, i, to int) {
	x, y := fmt.Sprintf("X%d", i), fmt.Sprintf("Y%d", i)
	other := fmt.Sprintf("X%d", to)
	if v.w.masks() {
		v.op("VEXTRACTF64X4", "$1", v.r(i), fmt.Sprintf("Y%d", to))
		v.op(op, fmt.Sprintf("Y%d", to), y, y)
	} else {
		v.op(op, v.r(i+1), y, y)
	}
	v.op("VEXTRACTF128", "$1", y, other)
	v.op(op, other, x, x)
	v.op("VPERMILPS", "$0x0e", x, other)
	v.op(op, other, x, x)
	v.op("VPERMILPS", "$1", x, other)
	v.op(op, other, x, x)
}

// rmsNorm: registers 12 and 13 hold eps and n, 11 holds 1.
func (v *vector) rmsNorm() {
	v.arguments("y", "DI", "inv", "R8", "x", "SI", "w", "DX", "m", "R9", "n", "CX")
	v.op("VMOVSD", "eps+48(FP)", "X12")
	v.op("VCVTSI2SDQ", "CX", "X13", "X13")
	v.op("MOVQ", "$0x3ff0000000000000", "AX")
	v.op("VMOVQ", "AX", "X11")
	v.op("MOVQ", "CX", "R10")
	v.op("SHLQ", "$2", "R10")
	v.splitRow(v.perChunk())
	v.label("row")
	v.op("DECQ", "R9")
	v.op("JLT", "done")
	v.zero(0, 1, 2, 3)
	v.columns("sum", v.perChunk(), func(p part) {
		p.load("SI", 8)
		p.widen(8, 9, 10)
		for i := range 2 {
			p.op("VFMADD231PD", p.r(9+i), p.r(9+i), p.r(2*p.h+i))
		}
	})
	v.foldDoubles()
	v.op("VDIVSD", "X13", "X0", "X0")
	v.op("VADDSD", "X12", "X0", "X0")
	v.op("VSQRTSD", "X0", "X0", "X0")
	v.op("VDIVSD", "X0", "X11", "X0")
	v.op("VCVTSD2SS", "X0", "X0", "X0")
	v.op("VMOVSS", "X0", "(R8)")
	v.op("VBROADCASTSS", "X0", v.r(4))
	v.columns("scale", v.perChunk(), func(p part) {
		p.load("SI", 0)
		p.load("DX", 1)
		p.of("VMULPS", 0, 0, p.r(4))
		p.of("VMULPS", 0, 0, p.r(1))
		p.store(0, "DI")
	})
	v.op("ADDQ", "R10", "SI")
	v.op("ADDQ", "R10", "DI")
	v.op("ADDQ", "$4", "R8")
	v.op("JMP", "row")
	v.label("done")
}

// rmsNormGrad: register 4 holds inv, 5 the mean.
func (v *vector) rmsNormGrad() {
	v.fields("normGrad", "dx", "DI", "dy", "SI", "x", "DX", "w", "R8", "dw", "R9", "inv", "R10", "m", "R11", "n", "CX")
	v.op("MOVQ", "CX", "R12")
	v.op("SHLQ", "$2", "R12")
	v.splitRow(v.perChunk())
	v.label("row")
	v.op("DECQ", "R11")
	v.op("JLT", "done")
	v.zero(0, 1, 2, 3)
	v.columns("sum", v.perChunk(), func(p part) {
		p.load("SI", 6)
		p.load("R8", 7)
		p.of("VMULPS", 6, 6, p.r(7))
		p.load("DX", 7)
		p.widen(6, 8, 9)
		p.widen(7, 10, 11)
		for i := range 2 {
			p.op("VFMADD231PD", p.r(8+i), p.r(10+i), p.r(2*p.h+i))
		}
	})
	v.foldDoubles()
	v.op("VMOVSS", "(R10)", "X4")
	v.op("VCVTSS2SD", "X4", "X4", "X5")
	v.op("VMULSD", "X5", "X0", "X0")
	v.op("VMULSD", "X5", "X0", "X0")
	v.op("VCVTSI2SDQ", "normGrad_n(R13)", "X5", "X5")
	v.op("VDIVSD", "X5", "X0", "X0")
	v.op("VCVTSD2SS", "X0", "X0", "X0")
	v.op("VBROADCASTSS", "X0", v.r(5))
	v.op("VBROADCASTSS", "X4", v.r(4))
	v.columns("scale", v.perChunk(), func(p part) {
		p.load("SI", 0)
		p.load("DX", 1)
		p.load("R8", 2)
		p.of("VMULPS", 2, 2, p.r(0)) // w∘dy
		p.op("TESTQ", "R9", "R9")
		p.op("JZ", p.tag+"Frozen")
		p.of("VMULPS", 3, 1, p.r(4))
		p.of("VMULPS", 3, 3, p.r(0))
		p.load("R9", 6)
		p.of("VADDPS", 3, 3, p.r(6))
		p.store(3, "R9")
		p.label(p.tag + "Frozen")
		p.of("VMULPS", 1, 1, p.r(5))
		p.of("VSUBPS", 2, 2, p.r(1))
		p.of("VMULPS", 2, 2, p.r(4))
		p.op("CMPQ", "normGrad_acc(R13)", "$0")
		p.op("JEQ", p.tag+"Set")
		p.load("DI", 6)
		p.of("VADDPS", 2, 2, p.r(6))
		p.label(p.tag + "Set")
		p.store(2, "DI")
	})
	for _, base := range []string{"DI", "SI", "DX"} {
		v.op("ADDQ", "R12", base)
	}
	v.op("ADDQ", "$4", "R10")
	v.op("JMP", "row")
	v.label("done")
}

// rotate: register 6 holds the sign of the sines, 7 the scale.
func (v *vector) rotate() {
	v.fields("rotation", "x", "DI", "cos", "SI", "sin", "DX", "rows", "R8", "half", "CX")
	v.op("MOVQ", "CX", "R10")
	v.op("SHLQ", "$2", "R10") // bytes of half a head
	v.op("VBROADCASTSS", "rotation_sign(R13)", v.r(6))
	v.op("VBROADCASTSS", "rotation_scale(R13)", v.r(7))
	v.splitRow(1)
	v.label("row")
	v.op("DECQ", "R8")
	v.op("JLT", "done")
	v.op("MOVQ", "rotation_heads(R13)", "R9")
	v.label("head")
	v.op("LEAQ", "(DI)(R10*1)", "R11")
	v.columns("turn", 1, func(p part) {
		p.load("DI", 0)
		p.load("R11", 1)
		p.load("SI", 2)
		p.load("DX", 3)
		p.op("VXORPS", p.r(6), p.r(3), p.r(3))
		p.of("VMULPS", 4, 0, p.r(2))
		p.of("VMULPS", 5, 1, p.r(3))
		p.of("VSUBPS", 4, 4, p.r(5)) // a·c - b·s
		p.of("VMULPS", 1, 1, p.r(2))
		p.of("VMULPS", 0, 0, p.r(3))
		p.of("VADDPS", 1, 1, p.r(0)) // b·c + a·s
		p.of("VMULPS", 4, 4, p.r(7))
		p.of("VMULPS", 1, 1, p.r(7))
		p.store(4, "DI")
		p.store(1, "R11")
	})
	v.op("LEAQ", "(DI)(R10*2)", "DI")
	v.op("DECQ", "R9")
	v.op("JNZ", "head")
	v.op("ADDQ", "R10", "SI")
	v.op("ADDQ", "R10", "DX")
	v.op("JMP", "row")
	v.label("done")
}

// sigmoid replaces register 0 with 1/(1+e^-x). Scratch: 1 to 5.
func (v *vector) sigmoid() {
	v.logic("VPXOR", 0, 0, v.k(signBit))
	v.exp()
	v.of("VADDPS", 0, 0, v.f(1))
	v.set(1, v.f(1))
	v.of("VDIVPS", 0, 1, v.r(0))
}

func (v *vector) swiglu() {
	v.op("VMOVUPS", v.r(0), v.r(6))
	v.op("VMOVUPS", v.r(1), v.r(7))
	v.sigmoid()
	v.of("VMULPS", 0, 0, v.r(6))
	v.of("VMULPS", 0, 0, v.r(7))
}

func (v *vector) swigluGrad() {
	v.arguments("y", "DI", "gate", "SI", "up", "DX", "dy", "R8", "n", "CX")
	v.splitRow(1)
	v.columns("all", 1, func(p part) {
		p.load("SI", 0)
		p.op("VMOVUPS", p.r(0), p.r(6))
		p.sigmoid()
		p.load("DX", 7)
		p.load("R8", 8)
		p.of("VMULPS", 1, 6, p.r(0)) // silu
		p.of("VMULPS", 2, 1, p.r(7))
		p.store(2, "DI")
		p.of("VMULPS", 2, 8, p.r(1))
		p.store(2, "DX")
		p.set(3, p.f(1))
		p.of("VSUBPS", 3, 3, p.r(0))
		p.of("VMULPS", 3, 3, p.r(1))
		p.of("VADDPS", 3, 3, p.r(0)) // the derivative of silu
		p.of("VMULPS", 2, 8, p.r(7))
		p.of("VMULPS", 2, 2, p.r(3))
		p.store(2, "SI")
	})
}

// Registers of softmax rows. A column counts if its score is part of the softmax. The register left has the number of
// remaining columns that count. The register shown is the mask of the lanes that count (K2 if there are mask
// registers).
const left, shown = 13, 12

const infinite = 0xff800000 // -Inf

// counted sets CX to the number of columns of a row that count.
func (v *vector) counted() {
	v.op("XORQ", "AX", "AX")
	v.op("MOVQ", "R9", "CX")
	v.op("CMPQ", "CX", "AX")
	v.op("CMOVQLT", "AX", "CX")
	v.op("CMPQ", "CX", "R12")
	v.op("CMOVQGT", "R12", "CX")
}

// showFrom sets all lanes of register left to CX.
func (v *vector) showFrom() {
	low := fmt.Sprintf("X%d", left)
	v.op("VMOVD", "CX", low)
	v.op("VPBROADCASTD", low, v.r(left))
}

// show makes the mask of the lanes that count in vector h of a chunk.
func (v *vector) show(h int) {
	numbers, mask := fmt.Sprintf("lanes<>+%d(SB)", h*v.w.bytes), v.r(shown)
	if v.w.masks() {
		mask = "K2"
	}
	v.op("VPCMPGTD", numbers, v.r(left), mask)
}

// hide copies another operand to register i, in the lanes that do not count.
func (v *vector) hide(i int, other string) {
	if v.w.masks() {
		v.op("VBLENDMPS", v.r(i), other, "K2", v.r(i))
	} else {
		v.op("VBLENDVPS", v.r(shown), v.r(i), other, v.r(i))
	}
}

// eachChunk runs body for every vector of the row at SI, without masks: rows have room for whole chunks. R11 holds the
// length of the row in bytes.
func (v *vector) eachChunk(tag string, body func(h int, at string)) {
	v.op("XORQ", index, index)
	v.label(tag)
	for h := range v.perChunk() {
		body(h, offset(h*v.w.bytes, "SI")+"("+index+"*1)")
	}
	v.of("VPSUBD", left, left, v.k(chunk))
	v.op("ADDQ", "$64", index)
	v.op("CMPQ", index, "R11")
	v.op("JLT", tag)
}

// softmaxRows begins the loop over rows. nextRow ends it.
func (v *vector) softmaxRows() {
	v.fields("softmax", "x", "SI", "step", "R8", "first", "R9", "rows", "R10", "bytes", "R11", "width", "R12", "top",
		"DI", "sum", "R14", "d", "R15")
	v.label("row")
	v.op("DECQ", "R10")
	v.op("JLT", "done")
	v.counted()
}

func (v *vector) nextRow() {
	v.op("ADDQ", "R8", "SI")
	v.op("ADDQ", "$4", "DI")
	v.op("ADDQ", "$4", "R14")
	v.op("ADDQ", "softmax_more(R13)", "R9")
	v.op("JMP", "row")
	v.label("done")
}

func (v *vector) softmax() {
	v.softmaxRows()
	v.softmaxRow()
	v.op("VMOVSS", "X6", "(R14)")
	v.op("ADDQ", "$4", "R15")
	v.nextRow()
}

// softmaxRow processes the row at SI, of R11 bytes. The first CX columns count. It updates the largest score at DI, and
// writes the logarithm of the decay at R15. The sum is in X6. Registers 6 and 7 hold lanes of the largest score, then
// of the sum; 8 holds the largest score.
func (v *vector) softmaxRow() {
	v.showFrom()
	v.op("VBROADCASTSS", "(DI)", v.r(6))
	if !v.w.masks() {
		v.op("VMOVUPS", v.r(6), v.r(7))
	}
	v.set(9, v.k(infinite))
	v.eachChunk("top", func(h int, at string) {
		v.op("VMOVUPS", at, v.r(0))
		v.show(h)
		v.hide(0, v.r(9))
		v.of("VMAXPS", 6+h, 6+h, v.r(0))
	})
	v.fold("VMAXPS", 6, 0)
	v.op("VMOVSS", "(DI)", "X0")
	v.op("VSUBSS", "X6", "X0", "X0")
	v.op("VMOVSS", "X0", "(R15)") // logarithm of decay
	v.op("VMOVSS", "X6", "(DI)")
	v.op("VBROADCASTSS", "X6", v.r(8))
	v.showFrom()
	v.zero(6, 7)
	v.eachChunk("exp", func(h int, at string) {
		v.op("VMOVUPS", at, v.r(0))
		v.of("VSUBPS", 0, 0, v.r(8))
		v.exp()
		v.zero(1)
		v.show(h)
		v.hide(0, v.r(1))
		v.op("VMOVUPS", v.r(0), at)
		v.of("VADDPS", 6+h, 6+h, v.r(0))
	})
	v.fold("VADDPS", 6, 0)
}

// softmaxGrad: register 6 holds lse, and register 7 the mean. R15, the pointer to dp, advances with x.
func (v *vector) softmaxGrad() {
	v.softmaxRows()
	v.showFrom()
	v.op("VBROADCASTSS", "(DI)", v.r(6))
	v.op("VBROADCASTSS", "(R14)", v.r(7))
	v.eachChunk("all", func(h int, at string) {
		v.op("VMOVUPS", at, v.r(0))
		v.of("VSUBPS", 0, 0, v.r(6))
		v.exp()
		v.zero(1)
		v.show(h)
		v.hide(0, v.r(1))
		v.op("VMOVUPS", v.r(0), at)
		slope := offset(h*v.w.bytes, "R15") + "(" + index + "*1)"
		v.op("VMOVUPS", slope, v.r(2))
		v.of("VSUBPS", 2, 2, v.r(7))
		v.of("VMULPS", 0, 0, v.r(2))
		v.hide(0, v.r(1))
		v.op("VMOVUPS", v.r(0), slope)
	})
	v.op("ADDQ", "R8", "R15")
	v.nextRow()
}

// sumExp: registers 6 and 7 hold the largest elements, then sums; 8 and 9 hold weighted sums, 10 the largest element,
// and 12 -Inf.
func (v *vector) sumExp() {
	v.arguments("sums", "DI", "x", "SI", "n", "CX")
	v.splitRow(v.perChunk())
	v.set(12, v.k(infinite))
	v.op("VBROADCASTSS", "(SI)", v.r(6))
	v.op("VMOVUPS", v.r(6), v.r(7))
	v.columns("top", v.perChunk(), func(p part) {
		p.loadOr("SI", 0, 12)
		p.of("VMAXPS", 6+p.h, 6+p.h, p.r(0))
	})
	v.fold("VMAXPS", 6, 0)
	v.op("VMOVSS", "X6", "(DI)")
	v.op("VBROADCASTSS", "X6", v.r(10))
	v.zero(6, 7, 8, 9)
	v.columns("all", v.perChunk(), func(p part) {
		p.loadOr("SI", 0, 12)
		p.of("VSUBPS", 0, 0, p.r(10))
		p.set(1, p.f(-105))
		p.of("VMAXPS", 0, 1, p.r(0))
		p.op("VMOVUPS", p.r(0), p.r(11))
		p.exp()
		p.of("VADDPS", 6+p.h, 6+p.h, p.r(0))
		p.of("VMULPS", 0, 0, p.r(11))
		p.of("VADDPS", 8+p.h, 8+p.h, p.r(0))
	})
	for i, sums := range []int{6, 8} {
		v.fold("VADDPS", sums, 0)
		v.op("VMOVSS", fmt.Sprintf("X%d", sums), offset(4+4*i, "DI"))
	}
}

func (v *vector) dot() {
	v.arguments("sum", "DI", "x", "SI", "y", "DX", "n", "CX")
	v.zero(6, 7)
	v.splitRow(v.perChunk())
	v.columns("all", v.perChunk(), func(p part) {
		p.load("SI", 0)
		p.load("DX", 1)
		p.of("VMULPS", 0, 0, p.r(1))
		p.of("VADDPS", 6+p.h, 6+p.h, p.r(0))
	})
	v.fold("VADDPS", 6, 0)
	v.op("VMOVSS", "X6", "(DI)")
}
