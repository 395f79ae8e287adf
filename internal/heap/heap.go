// Package heap answers: which of many items comes first? It is container/heap for one type, without an allocation for
// each item.
package heap

// A Heap is a binary heap. Less must order its items strictly, so that the order does not depend on their history.
type Heap[T any] struct {
	Less  func(a, b *T) bool
	items []T
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the first item, which stays in the heap until Pop. The heap must not be empty.
func (h *Heap[T]) First() *T { return &h.items[0] }

// Push adds x, and reports whether it is now the first item.
func (h *Heap[T]) Push(x T) (first bool) {
	h.items = append(h.items, x)
	i := len(h.items) - 1
	for i > 0 && h.before(i, (i-1)/2) {
		i = h.swap(i, (i-1)/2)
	}
	return i == 0
}

// Pop removes the first item, and returns it. The heap must not be empty.
func (h *Heap[T]) Pop() T {
	var none T
	last := len(h.items) - 1
	h.swap(0, last)
	first := h.items[last]
	h.items[last] = none // so that the heap keeps nothing alive
	h.items = h.items[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && h.before(child+1, child) {
			child++
		}
		if child >= last || !h.before(child, i) {
			return first
		}
		i = h.swap(i, child)
	}
}

func (h *Heap[T]) before(i, j int) bool { return h.Less(&h.items[i], &h.items[j]) }

// swap swaps two items, and returns j.
func (h *Heap[T]) swap(i, j int) int {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	return j
}
