package lm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
)

// A fork continues a sequence like a sequence that computed the first tokens itself. A fork and its original do not see
// each other's new tokens. In the end all pages are free.
func TestFork(t *testing.T) {
	m := newModel(t, small(lm.Qwen3), lm.Options{})
	const length = 50
	text, other := randomIDs(length, m.Config.Vocab, 1), randomIDs(length, m.Config.Vocab, 2)
	w, cache := m.NewDecoding(length), m.NewCache(20)
	hidden := func(s *lm.CachedText, ids []int32) []float32 {
		test.OK(t, m.Extend(w, lm.Piece{Seq: s, IDs: ids}))
		return slices.Clone(w.Hidden())
	}
	for _, n := range []int{0, 1, 15, 16, 17, 32, 40} {
		plain := cache.NewText(length)
		all := hidden(plain, text[:40])
		plain.Truncate(n)
		var want []float32
		if n > 0 {
			want = hidden(plain, other[:10])
		}
		plain.Truncate(0)

		s := cache.NewText(length)
		equal(t, "again", hidden(s, text[:40]), all)
		free := cache.Free()
		f := s.Fork(n, length)
		if taken := free - cache.Free(); taken != (n%lm.PageLen+lm.PageLen-1)/lm.PageLen {
			t.Errorf("a fork of %d tokens took %d pages", n, taken)
		}
		hidden(s, text[40:])
		if n > 0 {
			equal(t, fmt.Sprint("fork of ", n), hidden(f, other[:10]), want)
			s.Truncate(n) // perhaps in the middle of a page that both share
			f.Truncate(n)
			equal(t, fmt.Sprint("the first one, from ", n), hidden(s, other[:10]), want)
			equal(t, fmt.Sprint("the fork again, from ", n), hidden(f, other[:10]), want)
		}
		s.Truncate(0)
		f.Truncate(0)
		if cache.Free() != 20 {
			t.Fatalf("%d pages are free, want all 20", cache.Free())
		}
	}
}
