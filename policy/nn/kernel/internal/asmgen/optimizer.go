package main

import "fmt"

// optimizer writes func adam<width>(p, grad, m, v *float32, n int, c *adam) and func
// sumSq<width>(lanes *[16]float64, x *float32, n int).
func optimizer() *asm {
	a := newFile()
	for _, w := range widths {
		a.adam(w)
		a.sumSq(w)
	}
	return a
}

// adam writes the portable loop of AdamStep with vector instructions. Like that loop, it rounds after every operation.
func (a *asm) adam(w width) {
	a.function("adam", w, "p, grad, m, v *float32, n int, c *adam")
	const p, g, m, v, t = 0, 1, 2, 3, 4
	pointers := []string{"DI", "SI", "DX", "R8"}
	a.arguments("p", "DI", "grad", "SI", "m", "DX", "v", "R8", "n", "CX", "c", "R9")
	factor := map[string]string{}
	for i, f := range []string{"scale", "beta1", "rest1", "beta2", "rest2", "decay", "step", "root", "eps"} {
		factor[f] = w.v(5 + i)
		a.op("VBROADCASTSS", fmt.Sprintf("adam_%s(R9)", f), factor[f])
	}
	of := func(name string, dst, x int, y string) { a.op(name, y, w.v(x), w.v(dst)) } // dst = x ∘ y
	body := func() {
		of("VMULPS", g, g, factor["scale"])
		of("VMULPS", m, m, factor["beta1"])
		of("VMULPS", t, g, factor["rest1"])
		of("VADDPS", m, m, w.v(t))
		of("VMULPS", v, v, factor["beta2"])
		of("VMULPS", t, g, factor["rest2"])
		of("VMULPS", t, t, w.v(g))
		of("VADDPS", v, v, w.v(t))
		a.op("VSQRTPS", w.v(v), w.v(t))
		of("VMULPS", t, t, factor["root"])
		of("VADDPS", t, t, factor["eps"])
		of("VDIVPS", t, m, w.v(t))
		of("VMULPS", t, t, factor["step"])
		of("VMULPS", p, p, factor["decay"])
		of("VSUBPS", p, p, w.v(t))
	}
	a.op("SUBQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JLT", "rest")
	a.label("loop")
	for i, at := range pointers {
		a.op("VMOVUPS", "("+at+")", w.v(i))
	}
	body()
	for _, i := range []int{p, m, v} {
		a.op("VMOVUPS", w.v(i), "("+pointers[i]+")")
	}
	for _, at := range pointers {
		a.op("ADDQ", fmt.Sprintf("$%d", w.bytes), at)
	}
	a.op("SUBQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JGE", "loop")
	a.label("rest")
	a.op("ADDQ", fmt.Sprintf("$%d", w.floats()), "CX")
	a.op("JZ", "done")
	a.tailMask(w, 1)
	for i, at := range pointers {
		a.loadMasked(w, w.mask(), "("+at+")", w.v(i))
	}
	body()
	for _, i := range []int{p, m, v} {
		a.storeMasked(w, w.mask(), w.v(i), "("+pointers[i]+")")
	}
	a.label("done")
	a.ret()
}

// sumSq writes a function that adds the square of element i, as float64, to lane i mod 16. n is a
// multiple of 16.
func (a *asm) sumSq(w width) {
	a.function("sumSq", w, "lanes *[16]float64, x *float32, n int")
	a.arguments("lanes", "DI", "x", "SI", "n", "CX")
	vectors := 128 / w.bytes // number of vectors for 16 float64
	for i := range vectors {
		a.op("VMOVUPD", offset(i*w.bytes, "DI"), w.v(i))
	}
	a.op("SUBQ", "$16", "CX")
	a.op("JLT", "done")
	a.label("loop")
	for i := range vectors {
		a.op("VCVTPS2PD", offset(i*w.bytes/2, "SI"), w.v(vectors+i))
		a.op("VFMADD231PD", w.v(vectors+i), w.v(vectors+i), w.v(i))
	}
	a.op("ADDQ", "$64", "SI")
	a.op("SUBQ", "$16", "CX")
	a.op("JGE", "loop")
	a.label("done")
	for i := range vectors {
		a.op("VMOVUPD", w.v(i), offset(i*w.bytes, "DI"))
	}
	a.ret()
}
