//go:build !blas

package blas

const missing = "blas: built without OpenBLAS: add -tags blas"

// Core returns "", because this build has no OpenBLAS.
func Core() string { return "" }

// Gemm panics: this build has no OpenBLAS.
func Gemm(c, a, b []float32, m, n, k int, acc bool) { panic(missing) }

// GemmBias panics: this build has no OpenBLAS.
func GemmBias(c, a, b, bias []float32, m, n, k int) { panic(missing) }

// GemmTA panics: this build has no OpenBLAS.
func GemmTA(c, a, b []float32, m, n, k int, acc bool) { panic(missing) }
