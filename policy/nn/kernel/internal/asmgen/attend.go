package main

import "fmt"

// The functions attend… compute n blocks of attention. Each does one step for all rows of all blocks, because rows are
// independent of each other: a processor then computes several rows at the same time. Sums are in registers that begin
// with register 6.

// attention returns the address of a field of the block at R13.
func attention(field string) string { return "attention_" + field + "(R13)" }

// parts are the numbers of chunks that are processed at a time, as long as so many are left.
var parts = []int{4, 2, 1}

// eachVector calls f for each vector of n chunks, with the register of its sum and its offset in its chunk.
func (v *vector) eachVector(n int, f func(chunk, bytes, sum int)) {
	for i := range n * v.perChunk() {
		f(i/v.perChunk(), i%v.perChunk()*v.w.bytes, 6+i)
	}
}

// eachBlock runs body for n blocks. The register count holds the number of blocks that are left.
func (v *vector) eachBlock(count string, body func()) {
	v.arguments("p", "R13")
	v.op("MOVQ", "n+8(FP)", count)
	v.label("block")
	v.op("DECQ", count)
	v.op("JLT", "done")
	body()
	v.op("ADDQ", "$attention__size", "R13")
	v.op("JMP", "block")
	v.label("done")
}

// attendScores multiplies a query by the keys of four, two or one pages at a time. It also fetches the values, and what
// follows them: in a cache, the keys of the next head.
func (v *vector) attendScores() {
	pages := []string{"AX", "DX", "R8", "R9"}
	v.eachBlock("R15", func() {
		v.op("MOVQ", attention("q"), "SI")
		v.op("LEAQ", attention("scores"), "R11")
		v.op("MOVQ", attention("e"), "R14")
		v.op("MOVQ", attention("rows"), "AX")
		v.op("MOVQ", "AX", attention("left"))
		v.label("row")
		v.op("MOVQ", attention("count"), "R12")
		for _, n := range parts {
			end, loop := fmt.Sprintf("scored%d", n), fmt.Sprintf("scores%d", n)
			v.op("CMPQ", "R12", fmt.Sprintf("$%d", chunk*(n-1)))
			v.op("JLE", end)
			v.op("MOVQ", "R14", "CX")
			v.op("SHLQ", "$4", "CX")
			v.op("LEAQ", "(CX)(CX*1)", "R10")
			v.op("XORQ", "DI", "DI")
			if n == 1 { // the last page of one or of three
				v.op("MOVQ", attention("count"), "BX")
				v.op("DECQ", "BX")
				v.op("SHRQ", "$4", "BX")
				v.op("MOVQ", attention("pages")+"(BX*8)", pages[0])
			} else {
				for i, page := range pages[:n] {
					v.op("MOVQ", fmt.Sprintf("attention_pages+%d(R13)", 8*i), page)
				}
			}
			v.op("XORQ", "BX", "BX")
			v.eachVector(n, func(_, _, sum int) { v.zero(sum) })
			v.label(loop)
			v.op("VBROADCASTSS", "(SI)(DI*1)", v.r(0))
			v.eachVector(n, func(page, bytes, sum int) {
				v.op("VFMADD231PS", offset(bytes, pages[page])+"(BX*1)", v.r(0), v.r(sum))
				if bytes == 0 {
					v.op("PREFETCHT1", "("+pages[page]+")(CX*1)")
					v.op("PREFETCHT1", "("+pages[page]+")(R10*1)")
				}
			})
			for _, at := range []string{"BX", "CX", "R10"} {
				v.op("ADDQ", "$64", at)
			}
			v.op("ADDQ", "$4", "DI")
			v.op("CMPQ", "DI", "R14")
			v.op("JLT", loop)
			to := "R11"
			if n == 1 {
				v.op("MOVQ", attention("count"), "BX")
				v.op("DECQ", "BX")
				v.op("ANDQ", "$-16", "BX")
				to = "R11)(BX*4"
			}
			v.eachVector(n, func(page, bytes, sum int) { v.op("VMOVUPS", v.r(sum), offset(64*page+bytes, to)) })
			v.op("SUBQ", fmt.Sprintf("$%d", chunk*n), "R12")
			v.label(end)
		}
		v.op("ADDQ", "$256", "R11")
		v.op("ADDQ", attention("step"), "SI")
		v.op("DECQ", attention("left"))
		v.op("JNZ", "row")
	})
}

// attendSoftmax updates the largest scores and the sums, and sets inverse to 1/sum.
func (v *vector) attendSoftmax() {
	v.eachBlock("R10", func() {
		v.op("LEAQ", attention("scores"), "SI")
		v.op("MOVQ", attention("rows"), "R8")
		v.op("MOVQ", attention("top"), "DI")
		v.op("MOVQ", attention("sum"), "R9")
		v.op("LEAQ", attention("decay"), "R15")
		v.op("MOVQ", attention("count"), "R11")
		v.op("ADDQ", "$15", "R11")
		v.op("ANDQ", "$-16", "R11")
		v.op("SHLQ", "$2", "R11")
		v.label("row")
		v.op("CMPQ", attention("first"), "$0")
		v.op("JEQ", "later")
		v.op("MOVL", fmt.Sprintf("$%#x", infinite), "(DI)")
		v.label("later")
		v.op("MOVQ", attention("count"), "CX")
		v.softmaxRow()
		v.op("CMPQ", attention("first"), "$0")
		v.op("JNE", "summed")
		v.op("VBROADCASTSS", "(R15)", v.r(0))
		v.exp()
		v.op("VMOVSS", "X0", "(R15)")
		v.op("VMULSS", "(R9)", "X0", "X0")
		v.op("VADDSS", "X0", "X6", "X6")
		v.label("summed")
		v.op("VMOVSS", "X6", "(R9)")
		v.op("MOVL", fmt.Sprintf("$%#x", one), "AX")
		v.op("VMOVD", "AX", "X0")
		v.op("VDIVSS", "X6", "X0", "X0")
		v.op("VMOVSS", "X0", "32(R15)") // inverse
		v.op("ADDQ", "$256", "SI")
		for _, pointer := range []string{"DI", "R9", "R15"} {
			v.op("ADDQ", "$4", pointer)
		}
		v.op("DECQ", "R8")
		v.op("JNZ", "row")
	})
}

// attendValues adds the values, multiplied by the scores, to the output. R12 is the offset of the columns, and R14 the
// number of bytes of the columns that are left.
func (v *vector) attendValues() {
	v.eachBlock("R15", func() {
		v.op("MOVQ", attention("o"), "DI")
		v.op("MOVQ", attention("e"), "DX")
		v.op("LEAQ", attention("scores"), "BX")
		v.op("LEAQ", attention("decay"), "AX")
		v.op("MOVQ", attention("rows"), "R8")
		v.label("row")
		v.op("MOVQ", "DX", "R14")
		v.op("XORQ", "R12", "R12")
		for _, n := range parts {
			at := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
			bytes := fmt.Sprintf("$%d", 64*n)
			out := func(chunk, bytes int) string { return offset(64*chunk+bytes, "DI") + "(R12*1)" }
			v.label(at("columns"))
			v.op("CMPQ", "R14", bytes)
			v.op("JLT", at("end"))
			v.op("CMPQ", attention("first"), "$0")
			v.op("JNE", at("zero"))
			v.op("VBROADCASTSS", "(AX)", v.r(1))
			v.eachVector(n, func(chunk, bytes, sum int) { v.op("VMULPS", out(chunk, bytes), v.r(1), v.r(sum)) })
			v.op("JMP", at("start"))
			v.label(at("zero"))
			v.eachVector(n, func(_, _, sum int) { v.zero(sum) })
			v.label(at("start"))
			v.op("LEAQ", attention("pages"), "R10")
			v.op("MOVQ", "BX", "R11")
			v.op("MOVQ", attention("count"), "R9")
			v.label(at("page"))
			v.op("MOVQ", "DX", "SI")
			v.op("SHLQ", "$4", "SI") // the bytes of the keys
			v.op("ADDQ", "(R10)", "SI")
			v.op("ADDQ", "R12", "SI")
			v.op("ADDQ", "$8", "R10")
			v.op("MOVQ", fmt.Sprintf("$%d", chunk), "CX")
			v.op("CMPQ", "R9", "CX")
			v.op("CMOVQLT", "R9", "CX")
			v.op("SUBQ", "CX", "R9")
			v.label(at("key"))
			v.op("VBROADCASTSS", "(R11)", v.r(0))
			v.eachVector(n, func(chunk, bytes, sum int) {
				v.op("VFMADD231PS", offset(64*chunk+bytes, "SI"), v.r(0), v.r(sum))
			})
			v.op("ADDQ", "DX", "SI")
			v.op("ADDQ", "$4", "R11")
			v.op("DECQ", "CX")
			v.op("JNZ", at("key"))
			v.op("TESTQ", "R9", "R9")
			v.op("JNZ", at("page"))
			v.op("CMPQ", attention("last"), "$0")
			v.op("JEQ", at("store"))
			v.op("VBROADCASTSS", "32(AX)", v.r(1)) // inverse
			v.eachVector(n, func(_, _, sum int) { v.of("VMULPS", sum, sum, v.r(1)) })
			v.label(at("store"))
			v.eachVector(n, func(chunk, bytes, sum int) { v.op("VMOVUPS", v.r(sum), out(chunk, bytes)) })
			v.op("ADDQ", bytes, "R12")
			v.op("SUBQ", bytes, "R14")
			v.op("JMP", at("columns"))
			v.label(at("end"))
		}
		v.op("ADDQ", attention("step"), "DI")
		v.op("ADDQ", "$256", "BX")
		v.op("ADDQ", "$4", "AX")
		v.op("DECQ", "R8")
		v.op("JNZ", "row")
	})
}
