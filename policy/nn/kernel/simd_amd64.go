package kernel

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asmgen

// best is the highest instruction set of this machine. Only tests change it.
var best = detect()

func detect() level {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX2 && x.HasFMA:
		return avx512
	case x.HasAVX2 && x.HasFMA:
		return avx2
	}
	return portable
}

// transposeTile is the number of rows and of columns that transposeSIMD handles at a time. A tile fits the second-level
// cache. So each cache line is read once and written once, even if rows are far apart.
const transposeTile = 64

// transposeSIMD transposes those 8×8 blocks of the matrix a, [m,n], that are complete. It returns the number of rows
// and the number of columns that these blocks cover.
func transposeSIMD(dst, a []float32, m, n int) (rows, columns int) {
	rows, columns = m&^7, n&^7
	for i := 0; i < rows; i += transposeTile {
		blocks := min(transposeTile, rows-i) / 8
		for j := 0; j < columns; j += transposeTile {
			for k := j; k < min(j+transposeTile, columns); k += 8 {
				transpose8(&dst[k*m+i], &a[i*n+k], 4*m, 4*n, blocks)
			}
		}
	}
	return rows, columns
}
