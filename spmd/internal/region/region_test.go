package region_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd/internal/region"
)

// A piece is memory from a region, filled with mark.
type piece struct {
	b    []byte
	mark byte
}

// takeAll takes pieces from r until there is no room, checks that they are zero, and fills them.
func takeAll(t *testing.T, r *region.Region, rng *rand.Rand) (all []piece) {
	t.Helper()
	for {
		n := 1 + rng.IntN(10_000)
		b := r.Take(n)
		if b == nil {
			return all
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of a piece of %d is %d", i, n, b[i])
			}
		}
		if at, ok := r.Offset(b); !ok || at%region.Align != 0 {
			t.Fatalf("a piece at %d, %v", at, ok)
		}
		p := piece{b, byte(1 + rng.IntN(255))}
		for i := range b {
			b[i] = p.mark
		}
		all = append(all, p)
	}
}

// someOf returns parts of a quarter of the pieces, after checking that all pieces are unchanged.
func someOf(t *testing.T, all []piece, rng *rand.Rand) (kept []piece) {
	t.Helper()
	for _, p := range all {
		for i := range p.b {
			if p.b[i] != p.mark {
				t.Fatalf("byte %d of %d is %d, want %d", i, len(p.b), p.b[i], p.mark)
			}
		}
		if rng.IntN(4) == 0 {
			lo := rng.IntN(len(p.b))
			kept = append(kept, piece{p.b[lo : lo+1+rng.IntN(len(p.b)-lo)], p.mark})
		}
	}
	return kept
}

// Pieces never overlap and are zero. Keep leaves the kept pieces unchanged and makes all other memory available
// again.
func TestRegion(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const size = 1 << 16
	given := 0
	giveBack := func(pages []byte) error {
		if given++; given%3 == 0 {
			return errors.New("the system keeps its pages")
		}
		clear(pages)
		return nil
	}
	r := region.New(make([]byte, size))
	var kept []piece
	for range 500 { // each round is a world
		kept = someOf(t, append(kept, takeAll(t, r, rng)...), rng)
		var keep [][]byte
		for _, p := range kept {
			keep = append(keep, p.b)
		}
		rng.Shuffle(len(keep), func(i, j int) { keep[i], keep[j] = keep[j], keep[i] })
		test.OK(t, r.Keep(keep, giveBack))
	}
	test.OK(t, r.Keep(nil, giveBack))
	if err := r.Keep([][]byte{kept[0].b}, nil); err == nil {
		t.Error("memory of an earlier world was kept")
	}
	if b := r.Take(size); b == nil {
		t.Error("not all memory is free")
	}
}
