package nn

// Ops is the arithmetic of layers. Layers get it from their Params. A call handles any number of rows, so the number of
// calls of a pass does not depend on the batch. The functions of package kernel are the reference for the bits of every
// implementation.
//
// Matrices are dense and row-major. The destination is the first argument. It overlaps no input, unless the method
// allows it. Methods do not allocate and keep no memory, so any number of goroutines may call them. Their arguments lie
// in the memory of layers, because a slice of a local array would escape to the heap.
type Ops[T Float] interface {
	// Product sets c [m,n] to a·b for a [m,k] and b [k,n]. Unless bias [n] is nil, it adds bias to every row. With acc,
	// it adds a·b to c instead, and bias must be nil.
	Product(c, a, b, bias []T, m, n, k int, acc bool)
	// Gradient sets c [m,n] to aᵀ·b for a [k,m] and b [k,n]. With acc, it adds to c.
	Gradient(c, a, b []T, m, n, k int, acc bool)
	// ColSum sets dst [n] to the sum of the rows of a [m,n]. With acc, it adds to dst.
	ColSum(dst, a []T, m, n int, acc bool)
	// Transpose sets the matrices [n,m] in dst to the transposes of the matrices [m,n] in a. count is their number.
	Transpose(dst, a []T, m, n, count int)

	// Conv sets y, n images of shape s.Out, for x, n images of shape s.In: y = windows(x)·weight + bias. bias may be
	// nil. w must be large enough for s.
	Conv(y, x, weight, bias []T, s *Windows, w *ConvWork[T], n int)
	// ConvGrad adds the gradient of weight to dWeight. Unless dBias is nil, it adds the gradient of bias to dBias. dy
	// is the gradient of y. Unless dx is nil, ConvGrad sets dx to the gradient of x.
	ConvGrad(dx, dWeight, dBias, x, dy, weight []T, s *Windows, w *ConvWork[T], n int)
	// Modulate sets y to (1+γ)x + β for n images of the shape s. For each image, film has the γ of all channels, then
	// the β of all channels (FiLM, Perez et al. 2018, arXiv:1709.07871).
	Modulate(y, x, film []T, s Image, n int)
	// ModulateGrad sets dFilm to the gradient of film. d holds the gradient of y; ModulateGrad replaces it with the
	// gradient of x.
	ModulateGrad(dFilm, d, x, film []T, s Image, n int)
	// SpatialSoftmax sets y, [n,2,c], to the positions of n·c channels u [n,c,pixels]: all x of an image, then all y.
	// It replaces u with the logits, sets prob [n,c,pixels] to their softmax, and sets scale [n,c] to the factors of
	// the channels.
	SpatialSoftmax(y, scale, prob, u []T, g *PixelGrid[T], n, c int)
	// SpatialSoftmaxGrad replaces prob with the gradient of the channels. dy is the gradient of y. The other arguments
	// are from SpatialSoftmax.
	SpatialSoftmaxGrad(prob, u, y, scale, dy []T, g *PixelGrid[T], n, c int)

	// Activate sets y to f(x). y may be x.
	Activate(f Activation, y, x []T)
	// ActivateGrad sets dx to the gradient of x for y = f(x), given the gradient dy. dx may be dy.
	ActivateGrad(f Activation, dx, dy, y []T)
	// Exp sets dst to e^x, and Log sets it to the natural logarithm of x. dst may be x.
	Exp(dst, x []T)
	Log(dst, x []T)
	// LogSoftmax sets each row of dst [m,n] to x - log Σ e^x. dst may be x.
	LogSoftmax(dst, x []T, m, n int)
	// Normalize sets dst [m,n] to (x - mean)·inv, limited to ±clip. mean and inv [n] have an element for each column.
	// dst may be x.
	Normalize(dst, x, mean, inv []T, m, n int, clip T)

	// Cell computes one step of n sequences in a recurrent layer. It sets the state next, given the state prev, xw =
	// x·W + b and hu = h·U + d. It also sets gates, for CellGrad.
	Cell(c Cell, next, prev CellState[T], gates, xw, hu []T, n int)
	// CellGrad replaces xw and hu, which have the values that Cell used, with their gradients. It also replaces d, the
	// gradient of next, with the gradient of prev, except for the part that passes through hu.
	CellGrad(c Cell, d, next, prev CellState[T], gates, xw, hu []T, n int)

	// Axpy adds a·x to dst.
	Axpy(dst []T, a T, x []T)
	// Scale multiplies dst by a.
	Scale(dst []T, a T)
	// CopyColumns copies width elements of each of n rows of src to dst. Rows begin dstStep and srcStep elements apart.
	CopyColumns(dst []T, dstStep int, src []T, srcStep, width, n int)
	// AddColumns is CopyColumns, but it adds to dst, row by row. With a step of 0, all rows are the same row.
	AddColumns(dst []T, dstStep int, src []T, srcStep, width, n int)
	// CopyRows copies n rows of src to rows of dst. For each i, the argument to selects the row of dst, and the
	// argument from selects the row of src. Unless scale is nil, it multiplies the row by scale[i]. Rows have width
	// elements.
	CopyRows(dst []T, to Rows, src []T, from Rows, scale []T, width, n int)
	// AddRows is CopyRows, but it adds to dst, in the order of i.
	AddRows(dst []T, to Rows, src []T, from Rows, scale []T, width, n int)
	// DotRows sets dst[i], for n pairs of rows, to the product of the row of x that a selects and the row of y that b
	// selects. Rows have width elements.
	DotRows(dst, x []T, a Rows, y []T, b Rows, width, n int)

	// SumSq returns the sum of x², in an order that depends only on the length.
	SumSq(x []T) float64
	// AdamStep updates the parameters p and the moments m and v with the gradient g·scale; see kernel.AdamStep.
	AdamStep(p, g, m, v []T, lr, beta1, beta2, eps, wd, c1, c2, scale float32)
}

// Rows selects a row of a matrix for each i of a call: row First + Index[i·Step]/Repeat. If Index is nil, i stands in
// place of Index[i·Step]. If an index selects a row outside the matrix, the call leaves it out. The zero Rows selects
// row i.
type Rows struct {
	Index         []int32
	Step          int // 0 means 1
	First, Repeat int
}

// At returns the number of the row for i.
func (r *Rows) At(i int) int {
	if r.Index != nil {
		i = int(r.Index[i*max(r.Step, 1)])
	}
	if r.Repeat > 1 {
		i /= r.Repeat
	}
	return r.First + i
}

// Use replaces the Ops of the layers of p. The default is package kernel, whose results for a row do not depend on the
// other rows of the batch.
func (p *Params[T]) Use(o Ops[T]) { p.ops = o }

// Ops returns the arithmetic of the layers of p.
func (p *Params[T]) Ops() Ops[T] {
	if p.ops == nil {
		return cpu[T]{}
	}
	return p.ops
}
