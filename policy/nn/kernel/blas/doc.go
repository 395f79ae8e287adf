// Package blas has the products of package kernel from OpenBLAS, in builds with tag blas, on one
// thread. It exists for machines for which kernel has no vector code, and to compare with: OpenBLAS
// gives a row other bits in other batches, so results depend on how rows are grouped. Without the
// tag Core is empty, and the products panic.
package blas
