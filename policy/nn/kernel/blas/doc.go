// Package blas computes the matrix products of package kernel with OpenBLAS, on one thread, in builds with the tag
// blas. It is for machines without vector code in package kernel, and for comparisons. The results for a row depend on
// the other rows of the batch, unlike the results of package kernel. Without the tag, Core returns "" and the products
// panic.
package blas
