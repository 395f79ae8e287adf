// Package kernel is the arithmetic of policy/nn: matrix products, activations and the optimiser's
// step over plain slices.
//
// Matrices are dense and row-major, the destination comes first, lengths are exact, and a mismatch
// panics. Destinations overlap no input unless the function says so. Functions do not allocate,
// start no goroutine and keep no state, so any number of goroutines may call them. Only a Multiplier
// has memory, so one goroutine at a time may use it. A layer with weights w [in,out] on a batch x [rows,in] is
//
//	kernel.GemmBias(y, x, w, bias, rows, out, in)       // y = x·w + bias
//	kernel.Tanh(y, y)
//
// and its backward pass, with dy the derivative by y,
//
//	kernel.TanhGrad(dy, dy, y)
//	kernel.GemmTA(dw, x, dy, in, out, rows, true)       // dw += xᵀ·dy
//	kernel.ColSum(dbias, dy, rows, out, true)
//	kernel.Transpose(wt, w, in, out)
//	kernel.Gemm(dx, dy, wt, rows, in, out, false)       // dx = dy·wᵀ
//
// # The same bits
//
// Every element of a product is its initial value plus one chain of fused multiply-adds over k in
// order. In Gemm and GemmBias with n ≤ 4 and k ≥ 32 it is sixteen chains, over k mod 16, added as a
// tree. Every element of an activation depends only on its input. So a row has the same bits in any
// batch and at any address, on AVX2 and on AVX-512. The choice between the two depends on the CPU
// and is made once; GODEBUG=cpu.avx512f=off or cpu.avx2=off excludes one.
//
// On other machines portable loops are used. Their products and transcendental functions may differ
// from the vector ones in the last bits, because the compiler decides which operations it fuses.
// All other results are equal. Zeros are not skipped: 0·NaN is NaN.
package kernel
