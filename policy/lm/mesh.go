package lm

// A Part says which part of a model is here, when several ranks hold one. The zero Part is all of it.
type Part struct {
	// Index is the number of this rank among the Size ranks that divide every layer: heads, feed-forward width and
	// vocabulary. A Size of 0 means 1.
	Index, Size int
	// First and End are the layers [First, End) of this stage. An End of 0 means all layers. The first stage has the
	// embedding, too, and the last one the norm and the output matrix.
	First, End int
}

// An Axis connects the ranks that divide every layer. Every rank makes the same calls in the same order.
type Axis interface {
	Size() int
	Index() int
	// Sum adds x over the ranks in place, by the binary tree over their indices.
	Sum(x []float32) error
	// Sum64 is Sum for float64.
	Sum64(x []float64) error
	// Gather fills x with the blocks of all ranks, in the order of their indices. counts are their lengths. Before the
	// call, x holds this rank's block in its place.
	Gather(x []float32, counts []int) error
}
