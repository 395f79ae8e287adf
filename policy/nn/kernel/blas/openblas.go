//go:build blas

package blas

// #cgo LDFLAGS: -lopenblas
// void openblas_set_num_threads(int n);
// char *openblas_get_corename(void);
import "C"

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/netlib/blas/netlib"
)

// Use one thread, because the workers of a rank already share the cores that the launcher gave to the rank.
// OpenBLAS reads its environment variables before our code runs, so only this call can set the number.
func init() { C.openblas_set_num_threads(1) }

// Core returns the processor type for which OpenBLAS chose its code, such as SkylakeX. OpenBLAS detects the type,
// unless the environment variable OPENBLAS_CORETYPE sets it. Core returns "" in a build without OpenBLAS. On a
// processor with AVX-512, a type without AVX-512 has half the speed.
func Core() string { return C.GoString(C.openblas_get_corename()) }

// Gemm computes C = A·B, or C += A·B with acc, for A [m,k], B [k,n] and C [m,n].
func Gemm(c, a, b []float32, m, n, k int, acc bool) { sgemm(blas.NoTrans, c, a, k, b, m, n, k, acc) }

// GemmBias computes C = A·B + bias, for A [m,k], B [k,n], bias [n] and C [m,n]. It adds the bias to every row.
func GemmBias(c, a, b, bias []float32, m, n, k int) {
	for i := range m {
		copy(c[i*n:(i+1)*n], bias)
	}
	Gemm(c, a, b, m, n, k, true)
}

// GemmTA computes C = Aᵀ·B, or C += Aᵀ·B with acc, for A [k,m], B [k,n] and C [m,n].
func GemmTA(c, a, b []float32, m, n, k int, acc bool) { sgemm(blas.Trans, c, a, m, b, m, n, k, acc) }

func sgemm(ta blas.Transpose, c, a []float32, lda int, b []float32, m, n, k int, acc bool) {
	var beta float32
	if acc {
		beta = 1
	}
	if k == 0 && !acc {
		clear(c)
	}
	if m == 0 || n == 0 || k == 0 { // netlib requires elements in every factor
		return
	}
	netlib.Implementation{}.Sgemm(ta, blas.NoTrans, m, n, k, 1, a, max(1, lda), b, max(1, n), beta, c, max(1, n))
}
