package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// attentionBlocks returns the blocks of queries q that attend to all keys. The output is o, and state has 2·rows
// elements.
func attentionBlocks(o, q []float32, pages [][]float32, rows, e, keys int, state []float32) (all []AttentionBlock) {
	const most = maxPages * pageColumns
	for at := 0; at < keys; at += most {
		b := AttentionBlock{O: o, Q: q, Step: e + 3, Rows: rows, E: e, Width: min(most, keys-at), Count: keys - at,
			Top: state[:rows], Sum: state[rows:], First: at == 0, Last: at+most >= keys}
		copy(b.Pages[:], pages[at/pageColumns:])
		all = append(all, b)
	}
	return all
}

// Attention to blocks of keys is the softmax of the scores times the values. Queries that are processed one by one have
// the bits of a tile, at every level.
func TestAttend(t *testing.T) {
	for _, c := range []struct{ rows, e, keys int }{{1, 16, 1}, {2, 16, 16}, {8, 32, 17}, {3, 64, 40}, {2, 48, 64},
		{8, 112, 65}, {4, 16, 150}, {2, 24, 70}, {9, 16, 100}} {
		q, k, v := randomN(c.rows*(c.e+3), 1), randomN(c.keys*c.e, 2), randomN(c.keys*c.e, 3)
		var pages [][]float32
		for at := 0; at < c.keys; at += pageColumns {
			page := slices.Repeat([]float32{float32(math.NaN())}, 2*c.e*pageColumns) // unused keys change nothing
			for j := range min(pageColumns, c.keys-at) {
				for i, x := range k[(at+j)*c.e:][:c.e] {
					page[i*pageColumns+j] = x
				}
				copy(page[(pageColumns+j)*c.e:], v[(at+j)*c.e:][:c.e])
			}
			pages = append(pages, page)
		}
		same := sameAtLevels()
		eachLevel(t, func(t *testing.T, lv level) {
			o, x := newGuarded(c.rows*(c.e+3), c.e%5), NewMultiplier()
			other, state := make([]float32, len(o.x)), make([]float32, 4*c.rows)
			blocks := attentionBlocks(o.x, q, pages, c.rows, c.e, c.keys, state)
			x.Attend(append(blocks, attentionBlocks(other, q, pages, c.rows, c.e, c.keys, state[2*c.rows:])...)...)
			o.check(t, "attention")
			tile := make([]float32, len(o.x))
			for _, b := range attentionBlocks(tile, q, pages, c.rows, c.e, c.keys, state) {
				x.attend(&b)
			}
			for r := range c.rows {
				row, scores := r*(c.e+3), make([]float32, c.keys)
				for j := range scores {
					scores[j] = Dot(q[row:][:c.e], k[j*c.e:][:c.e])
				}
				p, _ := softmaxOf(scores, c.keys)
				for i := range c.e {
					want := 0.0
					for j := range p {
						want += p[j] * float64(v[j*c.e+i])
					}
					if d := math.Abs(float64(o.x[row+i]) - want); !(d < 1e-4) {
						t.Fatalf("%v: row %d, element %d: %v, want %v", c, r, i, o.x[row+i], want)
					}
				}
				sameBits(t, fmt.Sprint("of a tile ", c), o.x[row:][:c.e], tile[row:][:c.e])
				sameBits(t, fmt.Sprint("in the same call ", c), o.x[row:][:c.e], other[row:][:c.e])
			}
			same(t, lv, o.x)
			test.NoAllocs(t, 3, func() { x.Attend(blocks...) })
		})
	}
}
