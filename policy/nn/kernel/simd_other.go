//go:build !amd64

package kernel

// best is portable, because this machine has no vector code.
var best = portable

const noSIMD = "kernel: no vector code on this architecture"

func productSIMD([]float32, []float32, *matrix[float32], *start[float32], int, int, int) {
	panic(noSIMD)
}
func transposeSIMD([]float32, []float32, int, int) (rows, columns int) { panic(noSIMD) }
func stridedSIMD([]float32, int, origin, []float32, int, int, []float32, int, int, int, int, []origin, int) {
	panic(noSIMD)
}
func pagesSIMD([]float32, int, []float32, int, [maxPages][]float32, int, int) { panic(noSIMD) }
func packSIMD([]float32, []float32, int, int, int, int)                       { panic(noSIMD) }
