// Package device is the arithmetic of package kernel on a CUDA device. It computes the bits of package kernel on a CPU
// with AVX2 or AVX-512, except for the bits of a NaN.
//
// Its kernels are plain C, which clang compiles to PTX. Both are in the tree; run go generate after a change of the C
// files. A driver of CUDA compiles the PTX for its device. For each element of a result, one thread does the operations
// of package kernel in the same order: a chain of fused multiply-adds over k, sixteen chains and their tree for narrow
// products, the same polynomials. A convolution copies the windows of all images to rows of a matrix.
//
// Ops are nn.Ops on the memory of a device. This memory looks like slices: see Memory.
//
// The kernels have run in an interpreter of PTX (internal/ptx), not yet on a card.
package device

//go:generate kernels/generate
