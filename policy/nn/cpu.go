package nn

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// Products are matrix products of another library, such as a BLAS. They work like the functions of the same names in
// package kernel.
type Products[T Float] struct {
	Gemm, GemmTA func(c, a, b []T, m, n, k int, acc bool)
	GemmBias     func(c, a, b, bias []T, m, n, k int)
}

// cpu computes Ops with package kernel. If blas is not nil, it computes the matrix products.
type cpu[T Float] struct{ blas *Products[T] }

// NewCPU returns Ops for a CPU, which compute matrix products with x. If x is nil, they use package kernel.
func NewCPU[T Float](x *Products[T]) Ops[T] { return cpu[T]{x} }

func (o cpu[T]) Product(c, a, b, bias []T, m, n, k int, acc bool) {
	switch {
	case o.blas != nil && bias != nil:
		o.blas.GemmBias(c, a, b, bias, m, n, k)
	case o.blas != nil:
		o.blas.Gemm(c, a, b, m, n, k, acc)
	case bias != nil:
		kernel.GemmBias(c, a, b, bias, m, n, k)
	default:
		kernel.Gemm(c, a, b, m, n, k, acc)
	}
}

func (o cpu[T]) Gradient(c, a, b []T, m, n, k int, acc bool) {
	if o.blas != nil {
		o.blas.GemmTA(c, a, b, m, n, k, acc)
		return
	}
	kernel.GemmTA(c, a, b, m, n, k, acc)
}

func (o cpu[T]) ColSum(dst, a []T, m, n int, acc bool) { kernel.ColSum(dst, a, m, n, acc) }

func (o cpu[T]) Transpose(dst, a []T, m, n, count int) {
	for i := range count {
		kernel.Transpose(dst[i*m*n:(i+1)*m*n], a[i*m*n:(i+1)*m*n], m, n)
	}
}

func (o cpu[T]) Activate(f Activation, y, x []T) {
	switch f {
	case Tanh:
		kernel.Tanh(y, x)
	case ReLU:
		kernel.Relu(y, x)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", uint8(f)))
	}
}

func (o cpu[T]) ActivateGrad(f Activation, dx, dy, y []T) {
	switch f {
	case Tanh:
		kernel.TanhGrad(dx, dy, y)
	case ReLU:
		kernel.ReluGrad(dx, dy, y)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", uint8(f)))
	}
}

func (o cpu[T]) Exp(dst, x []T) { kernel.Exp(dst, x) }

func (o cpu[T]) Log(dst, x []T) { kernel.Log(dst, x) }

func (o cpu[T]) LogSoftmax(dst, x []T, m, n int) { kernel.LogSoftmax(dst, x, m, n) }

func (o cpu[T]) Normalize(dst, x, mean, inv []T, m, n int, clip T) {
	kernel.Normalize(dst, x, mean, inv, m, n, clip)
}

func (o cpu[T]) Axpy(dst []T, a T, x []T) { kernel.Axpy(dst, a, x) }

func (o cpu[T]) Scale(dst []T, a T) { kernel.Scale(dst, a) }

func (o cpu[T]) CopyColumns(dst []T, dstStep int, src []T, srcStep, width, n int) {
	kernel.CopyColumns(dst, dstStep, src, srcStep, width, n)
}

func (o cpu[T]) AddColumns(dst []T, dstStep int, src []T, srcStep, width, n int) {
	kernel.AddColumns(dst, dstStep, src, srcStep, width, n)
}

func (o cpu[T]) CopyRows(dst []T, to Rows, src []T, from Rows, scale []T, width, n int) {
	for i := range n {
		y, x := rowOf(dst, &to, i, width), rowOf(src, &from, i, width)
		switch {
		case x == nil || y == nil:
		case scale == nil:
			copy(y, x)
		default:
			kernel.ScaleTo(y, scale[i], x)
		}
	}
}

func (o cpu[T]) AddRows(dst []T, to Rows, src []T, from Rows, scale []T, width, n int) {
	a := T(1)
	for i := range n {
		if scale != nil {
			a = scale[i]
		}
		if y, x := rowOf(dst, &to, i, width), rowOf(src, &from, i, width); x != nil && y != nil {
			kernel.Axpy(y, a, x)
		}
	}
}

func (o cpu[T]) DotRows(dst, x []T, a Rows, y []T, b Rows, width, n int) {
	for i := range n {
		dst[i] = kernel.Dot(rowOf(x, &a, i, width), rowOf(y, &b, i, width))
	}
}

// rowOf returns the row of x that r selects for i. It returns nil if r has an Index, and the row is outside x.
func rowOf[T Float](x []T, r *Rows, i, width int) []T {
	at := r.At(i)
	if r.Index != nil && (at < 0 || (at+1)*width > len(x)) {
		return nil
	}
	return x[at*width : (at+1)*width]
}

func (o cpu[T]) SumSq(x []T) float64 { return kernel.SumSq(x) }

func (o cpu[T]) AdamStep(p, g, m, v []T, lr, beta1, beta2, eps, wd, c1, c2, scale float32) {
	kernel.AdamStep(p, g, m, v, lr, beta1, beta2, eps, wd, c1, c2, scale)
}
