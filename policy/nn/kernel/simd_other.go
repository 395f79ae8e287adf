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
func stridedSIMD(level, []float32, int, origin, []float32, int, int, []float32, int, int, int, int, []origin, int) {
	panic(noSIMD)
}
func pagesSIMD([]float32, int, []float32, int, [maxPages][]float32, int, int) { panic(noSIMD) }
func packSIMD([]float32, []float32, int, int, int, int)                       { panic(noSIMD) }

func copyColumnsSIMD(level, []float32, int, []float32, int, int, int)                  { panic(noSIMD) }
func addColumnsSIMD(level, []float32, int, []float32, int, int, int)                   { panic(noSIMD) }
func rmsNormSIMD(level, []float32, []float32, []float32, []float32, int, int, float64) { panic(noSIMD) }
func rmsNormGradSIMD(level, *normGrad)                                                 { panic(noSIMD) }
func rotateSIMD(level, *rotation)                                                      { panic(noSIMD) }
func swigluGradSIMD(level, []float32, []float32, []float32, []float32)                 { panic(noSIMD) }
func softmaxSIMD(level, *softmax)                                                      { panic(noSIMD) }
func softmaxGradSIMD(level, *softmax)                                                  { panic(noSIMD) }
func maxLanesSIMD(level, *[sumLanes]float32, []float32)                                { panic(noSIMD) }
func sumExpSIMD(level, *[2 * sumLanes]float32, []float32, float32)                     { panic(noSIMD) }
func dotLanesSIMD(level, *[sumLanes]float32, []float32, []float32)                     { panic(noSIMD) }
