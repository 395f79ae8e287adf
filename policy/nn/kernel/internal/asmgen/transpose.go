package main

import "fmt"

// transpose writes func transpose8(dst, a *float32, dstStep, aStep, blocks int). It transposes a
// column of 8×8 blocks in a into a row of blocks in dst. Steps are bytes from row to row.
func transpose() *asm {
	a := newFile()
	a.function("transpose8", width{}, "dst, a *float32, dstStep, aStep, blocks int")
	a.arguments("dst", "DI", "a", "SI", "dstStep", "R8", "aStep", "R9", "blocks", "CX")
	y := func(i int) string { return fmt.Sprintf("Y%d", i) }
	a.label("loop")
	a.op("MOVQ", "DI", "DX")
	for i := range 8 {
		a.op("VMOVUPS", "(SI)", y(i))
		a.op("ADDQ", "R9", "SI")
	}
	for i := 0; i < 8; i += 2 { // pairs of rows: elements 0,1 and 4,5, then 2,3 and 6,7, interleaved
		a.op("VUNPCKLPS", y(i+1), y(i), y(8+i))
		a.op("VUNPCKHPS", y(i+1), y(i), y(9+i))
	}
	for i := 0; i < 8; i += 4 { // fours of rows: columns 0+4, 1+5, 2+6, 3+7
		for c := range 4 {
			shuffle := []string{"$0x44", "$0xee"}[c%2]
			a.op("VSHUFPS", shuffle, y(10+i+c/2), y(8+i+c/2), y(i+c))
		}
	}
	for c := range 8 { // all eight rows: the low halves are columns 0 to 3, the high ones 4 to 7
		a.op("VPERM2F128", []string{"$0x20", "$0x31"}[c/4], y(4+c%4), y(c%4), y(8+c%4))
		a.op("VMOVUPS", y(8+c%4), "(DX)")
		a.op("ADDQ", "R8", "DX")
	}
	a.op("ADDQ", "$32", "DI")
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	a.ret()
	return a
}
