package region_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/spmd/internal/region"
)

// Pieces never overlap and are zero; kept ones stay as they are, and everything else is given out again.
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
	type piece struct {
		b    []byte
		mark byte
	}
	var kept []piece
	for world := range 500 {
		mine := kept
		for {
			n := 1 + rng.IntN(10_000)
			b := r.Take(n)
			if b == nil {
				break
			}
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("world %d: byte %d of a piece of %d is %d", world, i, n, b[i])
				}
			}
			at, ok := r.Offset(b)
			if !ok || at%region.Align != 0 {
				t.Fatalf("world %d: a piece at %d, %v", world, at, ok)
			}
			p := piece{b, byte(1 + rng.IntN(255))}
			for i := range b {
				b[i] = p.mark
			}
			mine = append(mine, p)
		}
		kept = nil
		var keep [][]byte
		for _, p := range mine {
			for i := range p.b {
				if p.b[i] != p.mark {
					t.Fatalf("world %d: byte %d of %d is %d, want %d", world, i, len(p.b), p.b[i], p.mark)
				}
			}
			if rng.IntN(4) == 0 {
				lo := rng.IntN(len(p.b))
				p.b = p.b[lo : lo+1+rng.IntN(len(p.b)-lo)]
				kept, keep = append(kept, p), append(keep, p.b)
			}
		}
		rng.Shuffle(len(keep), func(i, j int) { keep[i], keep[j] = keep[j], keep[i] })
		if err := r.Keep(keep, giveBack); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Keep(nil, giveBack); err != nil {
		t.Fatal(err)
	}
	if err := r.Keep([][]byte{kept[0].b}, nil); err == nil {
		t.Error("memory of an earlier world was kept")
	}
	if b := r.Take(size); b == nil {
		t.Error("not all memory is free")
	}
}
