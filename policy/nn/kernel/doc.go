// Package kernel is the arithmetic of policy/nn: matrix products, activations and the optimiser's
// step over plain slices.
//
// Matrices are dense and row-major. The destination is the first argument. Functions panic if lengths do not match
// exactly. A destination must not overlap an input, unless the function allows it. Functions do not allocate, start no
// goroutine and keep no state, so any number of goroutines may call them. Only a Multiplier has memory, so only one
// goroutine at a time may use a Multiplier. A layer with weights w [in,out] on a batch x [rows,in] is
//
//	kernel.GemmBias(y, x, w, bias, rows, out, in)       // y = x·w + bias
//	kernel.Tanh(y, y)
//
// and its backward pass, with dy the gradient of y,
//
//	kernel.TanhGrad(dy, dy, y)
//	kernel.GemmTA(dw, x, dy, in, out, rows, true)       // dw += xᵀ·dy
//	kernel.ColSum(dbias, dy, rows, out, true)
//	kernel.Transpose(wt, w, in, out)
//	kernel.Gemm(dx, dy, wt, rows, in, out, false)       // dx = dy·wᵀ
//
// # The same bits
//
// Every element of a product is its initial value plus one chain of fused multiply-adds over k in order. Gemm and
// GemmBias with n ≤ 4 and k ≥ 32 use sixteen chains instead, one for each k mod 16, and add the chains as a tree.
// Every element of an activation depends only on its input. So a row has the same bits in any batch and at any
// address, on AVX2 and on AVX-512. The choice between AVX2 and AVX-512 depends on the CPU, and is made once;
// GODEBUG=cpu.avx512f=off or cpu.avx2=off excludes one of them.
//
// Other machines use portable loops. Their products and transcendental functions may differ in the last bits from the
// results of the vector code, because the compiler decides which operations it fuses. All other results are equal.
// Zeros are not skipped: 0·NaN is NaN.
package kernel
