// Package blas has the products of package kernel from OpenBLAS, in builds with tag blas, on one thread.
// It is for machines without vector code in package kernel, and for comparisons: OpenBLAS's results for
// a row depend on the other rows of the batch. Without the tag, Core returns "" and the products panic.
package blas
