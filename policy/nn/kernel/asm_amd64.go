package kernel

// The kernels of the generated assembly, named by the width of their vectors in bits.

//go:noescape
func panel512x1(p *panel)

//go:noescape
func panel512x2(p *panel)

//go:noescape
func panel512x4(p *panel)

//go:noescape
func stream512x4(p *panel)

//go:noescape
func pages512x4(p *panel)

//go:noescape
func panel256x1(p *panel)

//go:noescape
func panel256x2(p *panel)

//go:noescape
func stream256x2(p *panel)

//go:noescape
func panel256x4(p *panel)

//go:noescape
func stream256x4(p *panel)

//go:noescape
func dots256(p *panel)

//go:noescape
func dots512(p *panel)

//go:noescape
func tanh256(dst, x, y *float32, n int, a float32)

//go:noescape
func tanhGrad256(dst, x, y *float32, n int, a float32)

//go:noescape
func relu256(dst, x, y *float32, n int, a float32)

//go:noescape
func reluGrad256(dst, x, y *float32, n int, a float32)

//go:noescape
func exp256(dst, x, y *float32, n int, a float32)

//go:noescape
func log256(dst, x, y *float32, n int, a float32)

//go:noescape
func axpy256(dst, x, y *float32, n int, a float32)

//go:noescape
func scale256(dst, x, y *float32, n int, a float32)

//go:noescape
func adam256(p, grad, m, v *float32, n int, c *adam)

//go:noescape
func sumSq256(lanes *[16]float64, x *float32, n int)

//go:noescape
func tanh512(dst, x, y *float32, n int, a float32)

//go:noescape
func tanhGrad512(dst, x, y *float32, n int, a float32)

//go:noescape
func relu512(dst, x, y *float32, n int, a float32)

//go:noescape
func reluGrad512(dst, x, y *float32, n int, a float32)

//go:noescape
func exp512(dst, x, y *float32, n int, a float32)

//go:noescape
func log512(dst, x, y *float32, n int, a float32)

//go:noescape
func axpy512(dst, x, y *float32, n int, a float32)

//go:noescape
func scale512(dst, x, y *float32, n int, a float32)

//go:noescape
func adam512(p, grad, m, v *float32, n int, c *adam)

//go:noescape
func sumSq512(lanes *[16]float64, x *float32, n int)

//go:noescape
func copyColumns256(dst, src *float32, dstStep, srcStep, width, n int)

//go:noescape
func addColumns256(dst, src *float32, dstStep, srcStep, width, n int)

//go:noescape
func copyColumns512(dst, src *float32, dstStep, srcStep, width, n int)

//go:noescape
func addColumns512(dst, src *float32, dstStep, srcStep, width, n int)

//go:noescape
func transpose8(dst, a *float32, dstStep, aStep, blocks int)

//go:noescape
func expLess256(dst, x, y *float32, n int, a float32)

//go:noescape
func swiglu256(dst, x, y *float32, n int, a float32)

//go:noescape
func rmsNorm256(y, inv, x, w *float32, m, n int, eps float64)

//go:noescape
func rmsNormGrad256(p *normGrad)

//go:noescape
func rotate256(p *rotation)

//go:noescape
func swigluGrad256(y, gate, up, dy *float32, n int)

//go:noescape
func softmax256(p *softmax)

//go:noescape
func softmaxGrad256(p *softmax)

//go:noescape
func sumExp256(lanes *[32]float32, x *float32, n int, top float32)

//go:noescape
func maxLanes256(lanes *[16]float32, x *float32, n int)

//go:noescape
func dotLanes256(lanes *[16]float32, x, y *float32, n int)

//go:noescape
func expLess512(dst, x, y *float32, n int, a float32)

//go:noescape
func swiglu512(dst, x, y *float32, n int, a float32)

//go:noescape
func rmsNorm512(y, inv, x, w *float32, m, n int, eps float64)

//go:noescape
func rmsNormGrad512(p *normGrad)

//go:noescape
func rotate512(p *rotation)

//go:noescape
func swigluGrad512(y, gate, up, dy *float32, n int)

//go:noescape
func softmax512(p *softmax)

//go:noescape
func softmaxGrad512(p *softmax)

//go:noescape
func sumExp512(lanes *[32]float32, x *float32, n int, top float32)

//go:noescape
func maxLanes512(lanes *[16]float32, x *float32, n int)

//go:noescape
func dotLanes512(lanes *[16]float32, x, y *float32, n int)
