//go:build !amd64

package kernel

const best = portable

const noSIMD = "kernel: no vector code on this architecture"

func productSIMD(level, []float32, []float32, matrix[float32], start[float32], int, int, int) {
	panic(noSIMD)
}
func mapSIMD(level, op, []float32, []float32, []float32, float32)       { panic(noSIMD) }
func adamSIMD(level, []float32, []float32, []float32, []float32, *adam) { panic(noSIMD) }
func sumSqSIMD(level, *[sumLanes]float64, []float32)                    { panic(noSIMD) }
func transposeSIMD([]float32, []float32, int, int) (rows, columns int)  { panic(noSIMD) }
func stridedSIMD(level, []float32, int, origin, []float32, int, int, []float32, int, int, int, int) {
	panic(noSIMD)
}
func packSIMD([]float32, []float32, int, int, int, int) { panic(noSIMD) }
