package main

import "fmt"

// columns writes func copyColumns<width> and func addColumns<width>(dst, src *float32, dstStep,
// srcStep, width, n int). They process width elements of each of n rows, row by row: whole vectors,
// then the rest under a mask. Steps are bytes from row to row.
func columns() *asm {
	a := newFile()
	for _, w := range widths {
		a.columns(w, "copyColumns", false)
		a.columns(w, "addColumns", true)
	}
	return a
}

func (a *asm) columns(w width, name string, add bool) {
	a.function(name, w, "dst, src *float32, dstStep, srcStep, width, n int")
	a.arguments("dst", "DI", "src", "SI", "dstStep", "R8", "srcStep", "R9", "width", "CX", "n", "BX")
	const whole, rest, at = "R10", "R11", "DX" // bytes of whole vectors, elements after them, bytes done
	a.op("MOVQ", "CX", whole)
	a.op("ANDQ", fmt.Sprintf("$%d", w.floats()-1), "CX")
	a.op("SUBQ", "CX", whole)
	a.op("SHLQ", "$2", whole)
	a.op("MOVQ", "CX", rest)
	a.tailMask(w, 1)
	from, to := "(SI)("+at+"*1)", "(DI)("+at+"*1)"
	x, y := w.v(0), w.v(1)

	a.label("row")
	a.op("XORQ", at, at)
	a.op("CMPQ", at, whole)
	a.op("JGE", "tail")
	a.label("vector")
	a.op("VMOVUPS", from, x)
	if add {
		a.op("VADDPS", to, x, x)
	}
	a.op("VMOVUPS", x, to)
	a.op("ADDQ", fmt.Sprintf("$%d", w.bytes), at)
	a.op("CMPQ", at, whole)
	a.op("JLT", "vector")

	a.label("tail")
	a.op("TESTQ", rest, rest)
	a.op("JZ", "next")
	a.loadMasked(w, w.mask(), from, x)
	if add {
		a.loadMasked(w, w.mask(), to, y)
		a.op("VADDPS", y, x, x)
	}
	a.storeMasked(w, w.mask(), x, to)

	a.label("next")
	a.op("ADDQ", "R8", "DI")
	a.op("ADDQ", "R9", "SI")
	a.op("DECQ", "BX")
	a.op("JNZ", "row")
	a.ret()
}
