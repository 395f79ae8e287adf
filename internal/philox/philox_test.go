package philox

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// The known answers of philox4x32-10 in the Random123 distribution (kat_vectors): counter, key, result.
func TestBlockPublishedVectors(t *testing.T) {
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{ // digits of π
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = block(uint64(c.key[1])<<32|uint64(c.key[0]), c.counter[0], c.counter[1],
			c.counter[2], c.counter[3])
		if got != c.want {
			t.Errorf("%x under %x: %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// A stream has the numbers of its blocks in order, under the counter in its doc comment.
func TestStreamOrder(t *testing.T) {
	s := New(0x0123456789abcdef, Permutation, 77, 5<<32|6)
	for n := range uint32(3) {
		var want [4]uint32
		want[0], want[1], want[2], want[3] = block(0x0123456789abcdef, 6, 5, 77, 3<<24+n)
		for i, w := range want {
			if got := s.Uint32(); got != w {
				t.Fatalf("number %d of block %d: %#x, want %#x", i, n, got, w)
			}
		}
	}
	a, b := New(1, Action, 2, 3), New(1, Action, 2, 3)
	hi, lo := a.Uint32(), a.Uint32()
	if got := b.Uint64(); got != uint64(hi)<<32|uint64(lo) {
		t.Errorf("Uint64 %#x from %#x and %#x", got, hi, lo)
	}
	if c := b; c.Uint32() != b.Uint32() {
		t.Error("a copy of a stream goes another way")
	}
}

// Skip leads to the numbers after so many whole blocks.
func TestSkip(t *testing.T) {
	all, part := New(1, Init, 2, 3), New(1, Init, 2, 3)
	for range 5 {
		all.Normal()
	}
	part.Normal()
	part.Skip(4)
	a, b := all.Normal()
	if c, d := part.Normal(); a != c || b != d {
		t.Errorf("numbers %v and %v after a skip, want %v and %v", c, d, a, b)
	}
}

// Streams that differ in one of their arguments differ from the first number on.
func TestStreamsAreApart(t *testing.T) {
	seen := make(map[uint64]string)
	add := func(what string, s Stream) {
		x := s.Uint64()
		if before, ok := seen[x]; ok {
			t.Errorf("%s begins like %s", what, before)
		}
		seen[x] = what
	}
	add("the reference", New(1, Action, 1, 1))
	add("another seed", New(2, Action, 1, 1))
	add("a seed with another upper half", New(1|1<<40, Action, 1, 1))
	add("another purpose", New(1, Reset, 1, 1))
	add("another key", New(1, Action, 2, 1))
	add("another counter", New(1, Action, 1, 2))
	add("a counter with another upper half", New(1, Action, 1, 1|1<<40))
}

func TestDistributions(t *testing.T) {
	const n = 200_000
	s := New(42, Init, 0, 0)
	var sum, sq, nsum, nsq, ncross, n4 float64
	for range n {
		u := s.Float64()
		if u < 0 || u >= 1 {
			t.Fatalf("Float64 gave %v", u)
		}
		sum += u
		sq += u * u
		x, y := s.Normal()
		nsum += x + y
		nsq += x*x + y*y
		ncross += x * y
		n4 += x*x*x*x + y*y*y*y
	}
	within := func(what string, got, want, sigma float64) {
		t.Helper()
		if math.Abs(got-want) > 4*sigma {
			t.Errorf("%s: %v, want %v ± %v", what, got, want, 4*sigma)
		}
	}
	root := math.Sqrt(n)
	within("uniform mean", sum/n, 0.5, math.Sqrt(1.0/12)/root)
	within("uniform square", sq/n, 1.0/3, math.Sqrt(4.0/45)/root)
	within("normal mean", nsum/(2*n), 0, 1/math.Sqrt(2*n))
	within("normal variance", nsq/(2*n), 1, 1/root)
	within("normal pair", ncross/n, 0, 1/root)
	within("normal fourth moment", n4/(2*n), 3, math.Sqrt(96/(2.0*n)))
	for range 1000 {
		if x := s.Uniform(-3, 5); x < -3 || x >= 5 {
			t.Fatalf("Uniform(-3, 5) gave %v", x)
		}
	}
	for _, k := range []int{1, 2, 7, 1000} {
		counts := make([]float64, k)
		for range n {
			counts[s.IntN(k)]++
		}
		var chi float64 // about k-1 ± √(2(k-1)) when all are equally likely
		for _, c := range counts {
			d := c - float64(n)/float64(k)
			chi += d * d / (float64(n) / float64(k))
		}
		within("χ² of IntN", chi, float64(k-1), math.Sqrt(2*float64(k))+1)
	}
}

// For n above half of the range of 32 bits, plain scaling would give some numbers twice as often as others. IntN gives
// each third of the numbers equally often.
func TestIntNIsUnbiased(t *testing.T) {
	const n, draws = 3 << 30, 300_000
	s := New(7, Init, 0, 0)
	var low, even float64
	for range draws {
		x := s.IntN(n)
		if x < 0 || x >= n {
			t.Fatalf("IntN(%d) gave %d", n, x)
		}
		if x < n/3 {
			low++
		}
		if x%3 == 0 { // plain scaling by 3/4 would give half of all results, and not a third
			even++
		}
	}
	sigma := math.Sqrt(draws * 2 / 9.0)
	if math.Abs(low-draws/3) > 4*sigma || math.Abs(even-draws/3) > 4*sigma {
		t.Errorf("of %d, %v are in the lowest third and %v multiples of 3, want %v each", draws, low, even, draws/3)
	}
}

func TestNoAllocation(t *testing.T) {
	var sink float64
	test.NoAllocs(t, 100, func() {
		s := New(1, Action, 2, 3)
		x, y := s.Normal()
		sink += x + y + float64(s.IntN(5))
	})
}

func BenchmarkIntN(b *testing.B) {
	s := New(1, Permutation, 0, 0)
	for b.Loop() {
		s.IntN(1000)
	}
}
