package main

import "fmt"

// dots writes func dots<width>(p *panel), for one column of a narrow product. b points to this column of B, in
// contiguous memory. The sum of a row has sixteen chains, one for each k mod 16. They are added as a tree: first chains
// l and l+8, then neighbours, then pairs of neighbours, then halves. The initial value is added last.
func (a *asm) dots(w width) {
	halves := 64 / w.bytes // number of vectors for sixteen chains
	most := 8 / halves     // number of rows: eight vectors of sums hide the latency of a multiply-add
	a.function("dots", w, "p *panel")
	a.op("MOVQ", "p+0(FP)", args)
	for _, load := range [][2]string{{"a", aTile}, {"c", cTile}, {"start", startTile}, {"m", rowsLeft},
		{"aStep", aStep}} {
		a.op("MOVQ", field(load[0]), load[1])
	}
	a.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", aStep, aStep), aStep3)
	if w.masks() {
		a.op("KMOVW", field("mask512"), "K1")
	}
	a.tiles(most, func(rows int) { a.dotTile(w, rows, halves) })
}

func (a *asm) dotTile(w width, rows, halves int) {
	sum := func(r, h int) string { return w.v(r*halves + h) }
	x := func(h int) string { return w.v(8 + h) }
	const element, lowMask = 10, 14

	for i := range rows * halves {
		a.op("VXORPS", w.v(i), w.v(i), w.v(i))
	}
	a.op("MOVQ", field("b"), bRow)
	a.startRows(rows)
	loop, rest, reduce := fmt.Sprintf("k%d", rows), fmt.Sprintf("rest%d", rows), fmt.Sprintf("reduce%d", rows)
	a.op("MOVQ", field("k"), kLeft)
	a.op("SUBQ", "$16", kLeft)
	a.op("JLT", rest)

	a.label(loop)
	for h := range halves {
		a.op("VMOVUPS", offset(h*w.bytes, bRow), x(h))
	}
	for r := range rows {
		for h := range halves {
			a.op("VFMADD231PS", rowAddress(r, h*w.bytes), x(h), sum(r, h))
		}
	}
	a.op("ADDQ", "$64", bRow)
	a.op("ADDQ", "$64", aLow)
	if rows > 4 {
		a.op("ADDQ", "$64", aHigh)
	}
	a.op("SUBQ", "$16", kLeft)
	a.op("JGE", loop)

	a.label(rest) // the last steps of k, with 0 in the unused lanes
	a.op("ADDQ", "$16", kLeft)
	a.op("JZ", reduce)
	masks := []string{"K1"}
	if !w.masks() {
		masks = []string{w.v(lowMask), w.v(lowMask + 1)}
		a.op("LEAQ", "·tailMasks+64(SB)", step)
		a.op("SHLQ", "$2", kLeft)
		a.op("SUBQ", kLeft, step)
		for h := range halves {
			a.op("VMOVDQU", offset(h*w.bytes, step), masks[h])
		}
	}
	for h := range halves {
		a.loadMasked(w, masks[h], offset(h*w.bytes, bRow), x(h))
	}
	for r := range rows {
		for h := range halves {
			a.loadMasked(w, masks[h], rowAddress(r, h*w.bytes), w.v(element))
			a.op("VFMADD231PS", w.v(element), x(h), sum(r, h))
		}
	}

	a.label(reduce)
	y := func(i int) string { return fmt.Sprintf("Y%d", i) }
	for r := range rows {
		high := y(2*r + 1)
		if w.masks() {
			high = y(element)
			a.op("VEXTRACTF64X4", "$1", sum(r, 0), high)
		}
		a.op("VADDPS", high, y(r*halves), y(r))
	}
	for r := 0; r < rows; r += 4 { // four rows at once; other registers are free
		a.op("VHADDPS", y(r+1), y(r), y(8))
		a.op("VHADDPS", y(r+3), y(r+2), y(9))
		a.op("VHADDPS", y(9), y(8), y(8))
		a.op("VEXTRACTF128", "$1", y(8), "X9")
		a.op("VADDPS", "X9", "X8", "X8")
		for i := range min(4, rows-r) {
			a.op("VPERMILPS", fmt.Sprintf("$%d", i), "X8", "X9")
			a.op("VADDSS", "("+startTile+")", "X9", "X9")
			a.op("VMOVSS", "X9", "("+cTile+")")
			a.op("ADDQ", field("startStep"), startTile)
			a.op("ADDQ", field("cStep"), cTile)
		}
	}
	a.nextRows(rows)
}
