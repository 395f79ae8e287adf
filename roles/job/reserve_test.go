package job

import (
	"errors"
	"slices"
	"testing"
)

// TestReserve: allocations succeed as long as their sum is within the memory, and are zeroed.
func TestReserve(t *testing.T) {
	r := Reserve{Have: Available{Free: 100}}
	defer r.Free()
	for _, n := range []int{60, 0} {
		if b, err := r.Alloc(n); err != nil || len(b) != n || slices.Max(append(b, 0)) != 0 {
			t.Errorf("%d of 100 bytes: %v, %v", n, b, err)
		}
	}
	if _, err := r.Alloc(41); !errors.As(err, new(Shortage)) {
		t.Errorf("101 of 100 bytes: %v, want a Shortage", err)
	}
}
