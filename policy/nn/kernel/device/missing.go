package device

import "github.com/rlinf/rlinf/policy/nn"

// missing panics in a call that has no kernel yet.
func missing(call string) { panic("device: " + call + " has no kernel yet") }

// The following methods panic.

func (o *Ops) Modulate(y, x, film []float32, s nn.Image, n int) { missing("Modulate") }

func (o *Ops) ModulateGrad(dFilm, d, x, film []float32, s nn.Image, n int) { missing("ModulateGrad") }

func (o *Ops) SpatialSoftmax(y, scale, prob, u []float32, g *nn.PixelGrid[float32], n, c int) {
	missing("SpatialSoftmax")
}

func (o *Ops) SpatialSoftmaxGrad(prob, u, y, scale, dy []float32, g *nn.PixelGrid[float32], n, c int) {
	missing("SpatialSoftmaxGrad")
}

func (o *Ops) Cell(c nn.Cell, next, prev nn.CellState[float32], gates, xw, hu []float32, n int) {
	missing("Cell")
}

func (o *Ops) CellGrad(c nn.Cell, d, next, prev nn.CellState[float32], gates, xw, hu []float32, n int) {
	missing("CellGrad")
}

func (o *Ops) DotRows(dst, x []float32, a nn.Rows, y []float32, b nn.Rows, width, n int) {
	missing("DotRows")
}
