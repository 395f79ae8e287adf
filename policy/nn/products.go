package nn

// Products are the matrix products that layers compute with; see package kernel for what each does.
type Products[T Float] struct {
	Gemm, GemmTA func(c, a, b []T, m, n, k int, acc bool)
	GemmBias     func(c, a, b, bias []T, m, n, k int)
}

// Use makes the layers of p compute with x. Call Use before Alloc. Without Use the layers compute with
// package kernel, which gives a row the same bits in every batch.
func (p *Params[T]) Use(x Products[T]) { p.products = x }
