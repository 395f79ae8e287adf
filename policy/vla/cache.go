package vla

import "github.com/rlinf/rlinf/policy/lm"

// A cache holds the keys and values of the prefixes of some rows, and of the slots behind them.
type cache struct {
	sequences []*lm.Sequence
	pieces    []lm.Piece
	slots     []int32 // the ids of a row's slots
}

// newCache makes a cache for x, whose rows have at most this number of tokens.
func newCache(x *pass, tokens int) *cache {
	pages := x.rows * ((tokens + lm.PageLen - 1) / lm.PageLen)
	c, memory := &cache{pieces: make([]lm.Piece, x.rows)}, x.p.trunk.NewCache(pages)
	for range x.rows {
		c.sequences = append(c.sequences, memory.NewSequence(tokens))
	}
	for range x.p.slots {
		c.slots = append(c.slots, lm.Given)
	}
	return c
}

// fill computes the keys and values of the prefixes that x has encoded.
func (c *cache) fill(x *pass) error {
	width := x.p.observed.tokens * x.p.d
	for _, s := range c.sequences {
		s.Truncate(0)
	}
	for row := range x.n {
		c.pieces[row] = lm.Piece{Seq: c.sequences[row], IDs: x.ids[x.starts[row]:x.starts[row+1]],
			Given: x.given[row*width : (row+1)*width], Prefix: int(x.prefix[row])}
	}
	return x.p.trunk.Extend(x.trunk, c.pieces[:x.n]...)
}

// extend appends the slots in x.slots, [n, slots, d], to the cached sequences, and returns their hidden states.
// Parallel slots see each other, and the cache does not keep them.
func (c *cache) extend(x *pass, slots int, parallel bool) ([]float32, error) {
	width := slots * x.p.d
	for row := range x.n {
		c.pieces[row] = lm.Piece{Seq: c.sequences[row], IDs: c.slots[:slots],
			Given: x.slots[row*width : (row+1)*width], Prefix: int(x.prefix[row]), Parallel: parallel}
	}
	if err := x.p.trunk.Extend(x.trunk, c.pieces[:x.n]...); err != nil {
		return nil, err
	}
	if parallel {
		for row := range x.n {
			c.sequences[row].Truncate(int(x.prefix[row]))
		}
	}
	return x.trunk.Hidden(), nil
}
