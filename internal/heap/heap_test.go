package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Items come in their order, however pushes and pops alternate.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := Heap[int]{Less: func(a, b *int) bool { return *a < *b }}
	var left []int
	for range 2000 {
		if len(left) == 0 || r.IntN(5) > 1 {
			x := r.IntN(1 << 20)
			if first := h.Push(x); first != (len(left) == 0 || x < slices.Min(left)) {
				t.Fatalf("push %d on %v: first is %v", x, left, first)
			}
			left = append(left, x)
			continue
		}
		least := slices.Min(left)
		if first := *h.First(); first != least {
			t.Fatalf("first %d, expected %d", first, least)
		}
		if got := h.Pop(); got != least || h.Len() != len(left)-1 {
			t.Fatalf("pop %d of %d, expected %d", got, h.Len(), least)
		}
		at := slices.Index(left, least)
		left = slices.Delete(left, at, at+1)
	}
}
