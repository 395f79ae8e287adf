package nn

// Products are the matrix products that layers compute with; see package kernel for what each does.
type Products[T Float] struct {
	Gemm, GemmTA func(c, a, b []T, m, n, k int, acc bool)
	GemmBias     func(c, a, b, bias []T, m, n, k int)
}

// Use makes the layers of p compute with x; call it before Alloc. Without Use they compute with
// package kernel, whose rows have the same bits in any batch.
func (p *Params[T]) Use(x Products[T]) { p.products = x }
