package device

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Ops is the arithmetic of layers on a device, an nn.Device. Its arguments are memory from Vector or Share. It panics
// if an argument is other memory, if a length does not fit, if the device fails, and in calls that have no kernel yet.
// Only one goroutine at a time may use it.
type Ops struct {
	Memory
	functions [numKernels]Function
	scratch   []int32  // shared memory for lists and results of the program
	one       struct { // shared memory of SumSq
		sum   []float64
		piece []int64
	}
}

var _ nn.Device[float32] = (*Ops)(nil)

// New returns Ops for a device.
func New(d Driver) (*Ops, error) {
	o := &Ops{Memory: Memory{driver: d}}
	var err error
	if o.functions, err = load(d); err == nil {
		o.one.sum, o.one.piece = make([]float64, 1), make([]int64, 2)
		err = errors.Join(o.Share(tensor.BytesOf(o.one.sum)), o.Share(tensor.BytesOf(o.one.piece)))
	}
	return o, err
}

// Vector returns n zeros for Ops alone.
func (o *Ops) Vector(n int) []float32 {
	b, err := o.Alloc(4 * n)
	o.check("vector", err)
	return tensor.Of(b, tensor.F32, n).F32()
}

// Upload copies shared memory to the device.
func (o *Ops) Upload(memory []byte) {
	if at := at(o, "upload", memory, len(memory)); at != 0 {
		o.check("upload", o.driver.Upload(at, memory))
	}
}

// Download copies shared memory from the device.
func (o *Ops) Download(memory []byte) {
	if at := at(o, "download", memory, len(memory)); at != 0 {
		o.check("download", o.driver.Download(memory, at))
	}
}

// Send starts an Upload.
func (o *Ops) Send(memory []byte) {
	if at := at(o, "send", memory, len(memory)); at != 0 {
		o.check("send", o.driver.Send(at, memory))
	}
}

// Fetch starts a copy of shared memory, which is not empty, from the device.
func (o *Ops) Fetch(memory []byte) {
	o.check("fetch", o.driver.Fetch(memory, at(o, "fetch", memory, len(memory))))
}

// Fetched waits for the first Fetch for which no Fetched has waited.
func (o *Ops) Fetched() { o.check("fetched", o.driver.Fetched()) }

// Clear sets x to 0.
func (o *Ops) Clear(x []float32) {
	if at := o.at("clear", x, len(x)); at != 0 {
		o.check("clear", o.driver.Clear(at, 4*len(x)))
	}
}

// at returns the device address of x, which must have n elements. It is 0 if x is empty.
func (o *Ops) at(op string, x []float32, n int) uint64 { return at(o, op, x, n) }

func at[T any](o *Ops, op string, x []T, n int) uint64 {
	if len(x) != n {
		panic(fmt.Sprintf("device: %s: %d elements, expected %d", op, len(x), n))
	}
	address, ok := o.address(tensor.BytesOf(x))
	if !ok {
		panic(fmt.Sprintf("device: %s: an argument of %d elements is not memory of the device", op, n))
	}
	return address
}

func (o *Ops) check(op string, err error) {
	if err != nil {
		panic(fmt.Sprintf("device: %s: %v", op, err))
	}
}

// run launches a kernel on a grid of x by y blocks, unless there are none.
func (o *Ops) run(op string, k kernel, x, y int, args ...uint64) {
	if x > 0 && y > 0 {
		var a Args
		copy(a[:], args)
		o.check(op, o.driver.Launch(o.functions[k], x, y, a))
	}
}

// each launches a kernel with a thread for each of n elements.
func (o *Ops) each(op string, k kernel, n int, args ...uint64) {
	o.run(op, k, parts(n, Threads), 1, args...)
}

// parts returns the number of parts of the given size that n elements need.
func parts(n, size int) int { return (n + size - 1) / size }

func number(n int) uint64 { return uint64(n) }

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func float(x float32) uint64 { return uint64(math.Float32bits(x)) }

// Sizes of the tiles that a block computes, and limits of the choice between them. The choice changes no bits.
const (
	largeTile, smallTile = 128, 32
	narrowColumns        = 16 // products of at most this many columns have tiles of largeTile rows
	manyTiles            = 64 // a large tile needs at least so many tiles, to have work for most of a device
	fewColumns, fewMinK  = 4, 32
	fewRows              = 16 // rows of a block in productFew

	// A block of small tiles has 8 steps of k on their way, 2 KB; a block of deep tiles 128 steps, 8 KB. Memory answers
	// after about 1 µs, so a chain of k takes k/8 µs or k/128 µs. With 8 rows and n columns, n/32 blocks wait for
	// 1.3 KB each, or n/8 for 8 KB: 25 times as many bytes at once. But an element takes four times as many loads, so
	// more rows have deep tiles only if k is long and the blocks find room on a device at the same time.
	deepTile              = 8
	longChain, mostBlocks = 512, 512
)

// tiles are kernels of one product, with deep, narrow, small and large tiles.
type tiles [4]kernel

var (
	products  = tiles{productDeep, productNarrow, productSmall, productLarge}
	gradients = tiles{gradientDeep, gradientNarrow, gradientSmall, gradientLarge}
)

// Product sets c [m,n] to a·b plus bias, or adds a·b to c.
func (o *Ops) Product(c, a, b, bias []float32, m, n, k int, acc bool) {
	if n <= fewColumns && k >= fewMinK {
		o.product("product", productFew, fewRows, max(n, 1), c, a, b, bias, m, n, k, acc)
		return
	}
	o.tiled("product", products, c, a, b, bias, m, n, k, acc)
}

// Gradient sets c [m,n] to aᵀ·b, or adds it to c.
func (o *Ops) Gradient(c, a, b []float32, m, n, k int, acc bool) {
	o.tiled("gradient", gradients, c, a, b, nil, m, n, k, acc)
}

func (o *Ops) tiled(op string, kernels tiles, c, a, b, bias []float32, m, n, k int, acc bool) {
	switch {
	case m <= deepTile, k >= longChain && parts(m, deepTile)*parts(n, deepTile) <= mostBlocks:
		o.product(op, kernels[0], deepTile, deepTile, c, a, b, bias, m, n, k, acc)
	case n <= narrowColumns:
		o.product(op, kernels[1], largeTile, narrowColumns, c, a, b, bias, m, n, k, acc)
	case parts(m, largeTile)*parts(n, largeTile) < manyTiles:
		o.product(op, kernels[2], smallTile, smallTile, c, a, b, bias, m, n, k, acc)
	default:
		o.product(op, kernels[3], largeTile, largeTile, c, a, b, bias, m, n, k, acc)
	}
}

func (o *Ops) product(op string, kernel kernel, rows, columns int, c, a, b, bias []float32, m, n, k int, acc bool) {
	added := uint64(0)
	if bias != nil {
		added = o.at(op, bias, n)
	}
	o.run(op, kernel, parts(n, columns), parts(m, rows), o.at(op, c, m*n), o.at(op, a, m*k), o.at(op, b, k*n), added,
		number(m), number(n), number(k), flag(acc))
}

// ColSum sets dst [n] to the sum of the rows of a [m,n], or adds it to dst.
func (o *Ops) ColSum(dst, a []float32, m, n int, acc bool) {
	o.each("column sum", columnSum, n, o.at("column sum", dst, n), o.at("column sum", a, m*n), number(m), number(n),
		flag(acc))
}

// Transpose sets dst, count matrices [n,m], to the transposes of a, count matrices [m,n].
func (o *Ops) Transpose(dst, a []float32, m, n, count int) {
	const side = 32
	o.run("transpose", transpose, parts(n, side), parts(m, side)*count, o.at("transpose", dst, m*n*count),
		o.at("transpose", a, m*n*count), number(m), number(n))
}

// Activate sets y to f(x). y may be x.
func (o *Ops) Activate(f nn.Activation, y, x []float32) {
	o.function("activate", choose(f, tanhForward, reluForward), y, x)
}

// ActivateGrad sets dx to the gradient of x for y = f(x), given the gradient dy. dx may be dy.
func (o *Ops) ActivateGrad(f nn.Activation, dx, dy, y []float32) {
	n := len(dx)
	o.each("activation gradient", choose(f, tanhGradient, reluGradient), n, o.at("activation gradient", dx, n),
		o.at("activation gradient", dy, n), o.at("activation gradient", y, n), number(n))
}

// choose returns the kernel of an activation.
func choose(f nn.Activation, tanh, relu kernel) kernel {
	switch f {
	case nn.Tanh:
		return tanh
	case nn.ReLU:
		return relu
	}
	panic(fmt.Sprintf("device: no such activation %d", uint8(f)))
}

// function launches a kernel that sets y to a function of x.
func (o *Ops) function(op string, k kernel, y, x []float32) {
	o.each(op, k, len(y), o.at(op, y, len(y)), o.at(op, x, len(y)), number(len(y)))
}

// Exp sets dst to e^x. dst may be x.
func (o *Ops) Exp(dst, x []float32) { o.function("exp", expForward, dst, x) }

// Log sets dst to the natural logarithm of x. dst may be x.
func (o *Ops) Log(dst, x []float32) { o.function("log", logForward, dst, x) }

// LogSoftmax sets each row of dst [m,n] to x - log Σ e^x. dst may be x.
func (o *Ops) LogSoftmax(dst, x []float32, m, n int) {
	if n > 0 {
		o.each("log softmax", logSoftmax, m, o.at("log softmax", dst, m*n), o.at("log softmax", x, m*n), number(m),
			number(n))
	}
}

// Normalize sets dst [m,n] to (x - mean)·inv, limited to ±clip. dst may be x.
func (o *Ops) Normalize(dst, x, mean, inv []float32, m, n int, clip float32) {
	o.each("normalize", normalize, m*n, o.at("normalize", dst, m*n), o.at("normalize", x, m*n),
		o.at("normalize", mean, n), o.at("normalize", inv, n), number(m), number(n), float(clip))
}

// Axpy adds a·x to dst.
func (o *Ops) Axpy(dst []float32, a float32, x []float32) {
	o.each("axpy", axpy, len(dst), o.at("axpy", dst, len(dst)), o.at("axpy", x, len(dst)), float(a), number(len(dst)))
}

// Scale multiplies dst by a.
func (o *Ops) Scale(dst []float32, a float32) {
	at := o.at("scale", dst, len(dst))
	o.each("scale", scale, len(dst), at, at, float(a), number(len(dst)))
}

// CopyColumns copies width elements of each of n rows of src to dst.
func (o *Ops) CopyColumns(dst []float32, dstStep int, src []float32, srcStep, width, n int) {
	if width > 0 && n > 0 {
		o.each("copy columns", copyColumns, width*n, o.columns("copy columns", dst, dstStep, width, n),
			number(dstStep), o.columns("copy columns", src, srcStep, width, n), number(srcStep), number(width),
			number(n))
	}
}

// AddColumns adds width elements of each of n rows of src to dst, row by row.
func (o *Ops) AddColumns(dst []float32, dstStep int, src []float32, srcStep, width, n int) {
	if width > 0 && n > 0 {
		o.each("add columns", addColumns, (n-1)*dstStep+width, o.columns("add columns", dst, dstStep, width, n),
			number(dstStep), o.columns("add columns", src, srcStep, width, n), number(srcStep), number(width),
			number(n))
	}
}

// columns returns the device address of n rows of width elements, which begin step elements apart in x.
func (o *Ops) columns(op string, x []float32, step, width, n int) uint64 {
	size := (n-1)*step + width
	if step < 0 || size > len(x) {
		panic(fmt.Sprintf("device: %s: %d elements, expected %d rows of %d, %d apart", op, len(x), n, width, step))
	}
	return o.at(op, x[:size], size)
}

// SumSq returns the sum of x², as kernel.SumSq. It waits for the device.
func (o *Ops) SumSq(x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	o.one.piece[1] = int64(len(x))
	o.Upload(tensor.BytesOf(o.one.piece))
	o.SumSqs(o.one.sum, x, o.one.piece)
	o.Download(tensor.BytesOf(o.one.sum))
	return o.one.sum[0]
}

// SumSqs sets each sum to the SumSq of a piece of x. Piece i has the elements [pieces[2i], pieces[2i+1]).
func (o *Ops) SumSqs(sums []float64, x []float32, pieces []int64) {
	const op, perBlock = "sums of squares", 16
	n := len(sums)
	o.run(op, squareSums, parts(n, perBlock), 1, at(o, op, sums, n), o.at(op, x, len(x)), at(o, op, pieces, 2*n),
		number(n))
}

// AdamStep updates the parameters p and the moments m and v with the gradient g·scale, as kernel.AdamStep.
func (o *Ops) AdamStep(p, g, m, v []float32, lr, beta1, beta2, eps, wd, c1, c2, scale float32) {
	n := len(p)
	o.each("adam", adam, n, o.at("adam", p, n), o.at("adam", g, n), o.at("adam", m, n), o.at("adam", v, n), number(n),
		float(scale), float(beta1), float(1-beta1), float(beta2), float(1-beta2), float(1-float32(lr*wd)), float(lr/c1),
		float(float32(1/math.Sqrt(float64(c2)))), float(eps))
}
