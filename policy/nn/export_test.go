package nn

// NewConvWork returns working memory that is large enough for any of the given layers.
func NewConvWork[T Float](layers ...*Conv2D[T]) *ConvWork[T] {
	w := new(ConvWork[T])
	for _, c := range layers {
		w.fit(c.product.p, &c.Windows, 1)
	}
	return w
}
