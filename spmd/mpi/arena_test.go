//go:build mpi

package mpi

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd/internal/region"
)

// If the reservation is used up, memory comes from elsewhere. Messages can use that memory, but other ranks cannot
// reach it.
func TestArenaBeyondItsReservation(t *testing.T) {
	reserve := test.Must(unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON))(t)
	var a arena
	a.reserveIn(reserve)
	defer a.free()
	for _, c := range []struct {
		n       int
		located bool
	}{{1, true}, {64, true}, {1<<20 - 256, true}, {129, false}, {64, true}, {65, false}, {64, true}, {1, false},
		{1 << 20, false}, {0, true}} {
		b := test.Must(a.alloc(c.n))(t)
		if len(b) != c.n || c.n > 0 && uintptr(unsafe.Pointer(&b[0]))%region.Align != 0 {
			t.Errorf("alloc(%d) gave %d bytes at %p", c.n, len(b), unsafe.SliceData(b))
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("alloc(%d): byte %d is in use", c.n, i)
			}
			b[i] = 1
		}
		if _, ok := a.all()[0].Offset(b); ok != c.located && c.n > 0 {
			t.Errorf("alloc(%d) lies in the reservation: %v, want %v", c.n, ok, c.located)
		}
		if !a.holds(b) && c.n > 0 {
			t.Errorf("alloc(%d) is not known as the arena's", c.n)
		}
	}
	if a.holds(make([]byte, 64)) {
		t.Error("memory of the Go heap is taken for the arena's")
	}
}
