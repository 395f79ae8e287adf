package nn

// Products holds the functions with which layers compute matrix products. They work like the functions of package
// kernel with the same names.
type Products[T Float] struct {
	Gemm, GemmTA func(c, a, b []T, m, n, k int, acc bool)
	GemmBias     func(c, a, b, bias []T, m, n, k int)
}

// Use sets the matrix products of the layers of p. Call Use before Alloc. By default layers use package kernel, whose
// results for a row do not depend on the other rows of the batch.
func (p *Params[T]) Use(x Products[T]) { p.products = x }
