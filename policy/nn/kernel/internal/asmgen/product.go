package main

import "fmt"

// tiles are the register tiles of the products, by vector width: their number of vectors and of rows. A tile has at
// least 8 vectors of sums, to hide the latency of a multiply-add, and leaves registers for a row of B and one element
// of A. If stream is set, there is also a stream version.
var tiles = map[string][]struct {
	vectors, rows int
	stream        bool
}{
	"256": {{1, 8, false}, {2, 6, true}, {4, 2, true}},
	"512": {{1, 8, false}, {2, 8, false}, {4, 6, true}},
}

// products writes func dots<width> and func panel<width>x<vectors>(p *panel); see type panel. A stream is a panel that
// also prefetches rows of B. In pages512x4, each vector of columns comes from its own matrix of 16 columns. Rows are
// processed in tiles; the last tile may be smaller. In a tile, for each k, one row of B is loaded, and each element of
// A is broadcast and multiplied into the sums of its row.
func products() *asm {
	a := newFile()
	for _, w := range widths {
		for _, t := range tiles[w.name] {
			a.panel("panel", w, t.vectors, t.rows)
			if t.stream {
				a.panel("stream", w, t.vectors, t.rows)
			}
		}
		if w.masks() {
			a.panel("pages", w, 4, 4)
		}
		a.dots(w)
	}
	return a
}

// Registers of a panel. SI, DI and R8 point to the tile's first row of A, of C and of the initial values.
const (
	args, rowsLeft          = "R13", "BX"
	aTile, cTile, startTile = "SI", "DI", "R8"
	aStep, aStep3           = "R10", "R14" // bytes from row to row, and three times that
	aCol, bStep             = "R11", "R12" // bytes from one k to the next
	aLow, aHigh             = "AX", "R15"  // column k of the tile's rows 0 and 4
	bRow, kLeft             = "DX", "CX"
	step                    = "R9"
)

func field(name string) string { return fmt.Sprintf("panel_%s(%s)", name, args) }

func (a *asm) panel(kind string, w width, vectors, most int) {
	a.function(fmt.Sprintf("%s%sx%d", kind, w.name, vectors), width{}, "p *panel")
	a.op("MOVQ", "p+0(FP)", args)
	for _, load := range [][2]string{{"a", aTile}, {"c", cTile}, {"start", startTile}, {"m", rowsLeft},
		{"aStep", aStep}, {"aCol", aCol}, {"bStep", bStep}} {
		a.op("MOVQ", field(load[0]), load[1])
	}
	a.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", aStep, aStep), aStep3)
	if w.masks() {
		a.op("KMOVW", field("mask512"), "K1")
	} else {
		a.op("VMOVDQU", field("mask256"), w.mask())
	}
	a.tiles(most, func(rows int) { a.tile(w, vectors, rows, kind) })
}

// tiles writes code that processes the largest tiles while enough rows are left. Then one smaller tile processes the
// rest, and the code returns.
func (a *asm) tiles(most int, tile func(rows int)) {
	for rows := most; rows >= 1; rows-- {
		this, below := fmt.Sprintf("rows%d", rows), fmt.Sprintf("rows%d", rows-1)
		if rows == 1 {
			below = "done"
		}
		a.label(this)
		a.op("CMPQ", rowsLeft, fmt.Sprintf("$%d", rows))
		a.op("JLT", below)
		tile(rows)
		if rows == most {
			a.op("JMP", this)
		} else {
			a.op("JMP", "done")
		}
	}
	a.label("done")
	a.ret()
}

// startRows sets the cursors aLow and aHigh to rows 0 and 4 of the tile in A.
func (a *asm) startRows(rows int) {
	a.op("MOVQ", aTile, aLow)
	if rows > 4 {
		a.op("LEAQ", fmt.Sprintf("(%s)(%s*4)", aTile, aStep), aHigh)
	}
}

// rowAddress returns the address of row r of the tile in A, plus some bytes, relative to a cursor.
func rowAddress(r, bytes int) string {
	base := aLow
	if r >= 4 {
		base = aHigh
	}
	return offset(bytes, base) + []string{"", "(" + aStep + "*1)", "(" + aStep + "*2)", "(" + aStep3 + "*1)"}[r%4]
}

// nextRows moves aTile to the next tile, and lowers rowsLeft.
func (a *asm) nextRows(rows int) {
	for range rows {
		a.op("ADDQ", aStep, aTile)
	}
	a.op("SUBQ", fmt.Sprintf("$%d", rows), rowsLeft)
}

// tile writes the code for one tile of the given rows and vectors. The code computes the sums over all k, and moves to
// the next rows.
func (a *asm) tile(w width, vectors, rows int, kind string) {
	sum := func(r, j int) string { return w.v(r*vectors + j) }
	b := func(j int) string { return w.v(rows*vectors + j) }
	element := w.v(rows*vectors + vectors)

	a.op("MOVQ", field("startStep"), step)
	for r := range rows {
		for j := range vectors {
			a.loadColumns(w, startTile, j, vectors, sum(r, j))
		}
		a.op("ADDQ", step, startTile)
	}
	a.op("MOVQ", field("b"), bRow)
	a.startRows(rows)
	loop, end := fmt.Sprintf("k%d", rows), fmt.Sprintf("store%d", rows)
	a.op("MOVQ", field("k"), kLeft)
	a.op("TESTQ", kLeft, kLeft)
	a.op("JZ", end)
	pages := [4]string{bRow, step, bStep, aHigh} // address of a row of each page; aHigh is free below five rows
	switch kind {
	case "stream":
		a.op("MOVQ", field("ahead"), step)
	case "pages":
		for j, at := range pages[1:] {
			a.op("MOVQ", fmt.Sprintf("panel_pages+%d(%s)", 8*j, args), at)
		}
	}

	a.label(loop)
	for j := range vectors {
		switch kind {
		case "pages":
			a.op("VMOVUPS", "("+pages[j]+")", b(j))
			a.op("ADDQ", fmt.Sprintf("$%d", w.bytes), pages[j])
		case "stream":
			a.loadColumns(w, bRow, j, vectors, b(j))
			if j*w.bytes%64 == 0 {
				a.op("PREFETCHT1", offset(j*w.bytes, bRow)+"("+step+"*1)")
			}
		default:
			a.loadColumns(w, bRow, j, vectors, b(j))
		}
	}
	for r := range rows {
		if w.masks() && vectors == 1 { // to broadcast in a multiply-add is faster if no other one needs the element
			a.op("VFMADD231PS.BCST", rowAddress(r, 0), b(0), sum(r, 0))
			continue
		}
		a.op("VBROADCASTSS", rowAddress(r, 0), element)
		for j := range vectors {
			a.op("VFMADD231PS", b(j), element, sum(r, j))
		}
	}
	a.op("ADDQ", aCol, aLow)
	if rows > 4 {
		a.op("ADDQ", aCol, aHigh)
	}
	if kind != "pages" {
		a.op("ADDQ", bStep, bRow)
	}
	a.op("DECQ", kLeft)
	a.op("JNZ", loop)

	a.label(end)
	a.addends(w, vectors, rows, element)
	a.op("MOVQ", field("cStep"), step)
	if w.masks() {
		a.storeRows(w, vectors, rows, true)
	} else { // masked stores are slow on some machines: use them only for a partial vector
		part, stored := fmt.Sprintf("part%d", rows), fmt.Sprintf("stored%d", rows)
		a.op("CMPQ", field("whole"), "$0")
		a.op("JEQ", part)
		a.storeRows(w, vectors, rows, false)
		a.op("JMP", stored)
		a.label(part)
		a.storeRows(w, vectors, rows, true)
		a.label(stored)
	}
	a.nextRows(rows)
}

// addends adds rows of the matrices in panel.add to the sums of the tile, one matrix after the other.
func (a *asm) addends(w width, vectors, rows int, element string) {
	const count, addend, at, addStep = "CX", "AX", "DX", "R15"
	loop, end := fmt.Sprintf("add%d", rows), fmt.Sprintf("added%d", rows)
	a.op("MOVQ", field("addends"), count)
	a.op("TESTQ", count, count)
	a.op("JZ", end)
	a.op("LEAQ", field("add"), addend)
	a.label(loop)
	a.op("MOVQ", "8("+addend+")", addStep)
	a.op("MOVQ", field("added"), at)
	a.op("IMULQ", addStep, at)
	a.op("ADDQ", "("+addend+")", at)
	for r := range rows {
		for j := range vectors {
			sum := w.v(r*vectors + j)
			a.loadColumns(w, at, j, vectors, element)
			a.op("VADDPS", sum, element, sum)
		}
		a.op("ADDQ", addStep, at)
	}
	a.op("ADDQ", "$16", addend)
	a.op("DECQ", count)
	a.op("JNZ", loop)
	a.op("ADDQ", fmt.Sprintf("$%d", rows), field("added"))
	a.label(end)
}

func (a *asm) storeRows(w width, vectors, rows int, masked bool) {
	for r := range rows {
		for j := range vectors {
			at, sum := offset(j*w.bytes, cTile), w.v(r*vectors+j)
			if masked && j == vectors-1 {
				a.storeMasked(w, w.mask(), sum, at)
			} else {
				a.op("VMOVUPS", sum, at)
			}
		}
		a.op("ADDQ", step, cTile)
	}
}

// loadColumns loads vector j of a row. It loads the last vector under the mask.
func (a *asm) loadColumns(w width, base string, j, vectors int, to string) {
	at := offset(j*w.bytes, base)
	if j == vectors-1 {
		a.loadMasked(w, w.mask(), at, to)
	} else {
		a.op("VMOVUPS", at, to)
	}
}

func offset(n int, base string) string {
	if n == 0 {
		return fmt.Sprintf("(%s)", base)
	}
	return fmt.Sprintf("%d(%s)", n, base)
}
