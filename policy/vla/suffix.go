package vla

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// A suffix makes slots of more than their places, and chooses actions in several passes over them.
type suffix interface {
	// read takes what the slots of n rows are made of, for a pass that a gradient follows.
	read(obs tensor.Dict, action []float32, n int, augment *policy.Noise) error
	// add adds that to the slots of a row, [slots, d].
	add(slots []float32, row int)
	// addGrad takes the derivative by the slots of a row, and finish adds up those of all rows.
	addGrad(dSlots []float32, row int)
	finish(n int)
	// decide sets actions and log-probs, [n, C·A], and chains, [n,K], behind prefixes in a cache.
	decide(action, logProb, chains []float32, n int, t draws) error
}

// A cache holds the prefixes of some rows, and the slots behind them.
type cache struct {
	x         *pass
	sequences []*lm.Sequence
	pieces    []lm.Piece
	ids       []int32 // of a row's slots
}

func newCache(x *pass, most int) *cache {
	pages := x.rows * ((most + lm.PageLen - 1) / lm.PageLen)
	c, pool := &cache{x: x, pieces: make([]lm.Piece, x.rows)}, x.p.trunk.NewCache(pages)
	for range x.rows {
		c.sequences = append(c.sequences, pool.NewSequence(most))
	}
	for range x.p.slotted {
		c.ids = append(c.ids, lm.Given)
	}
	return c
}

// begin computes the prefixes of n rows, which x has laid out.
func (c *cache) begin(n int) error {
	x := c.x
	width := x.p.senses.tokens * x.p.d
	for _, s := range c.sequences {
		s.Truncate(0)
	}
	for row := range n {
		c.pieces[row] = lm.Piece{Seq: c.sequences[row], IDs: x.ids[x.starts[row]:x.starts[row+1]],
			Given: x.given[row*width : (row+1)*width], Prefix: int(x.prefix[row])}
	}
	return x.p.trunk.Extend(x.trunk, c.pieces[:n]...)
}

// extend computes so many slots of n rows behind what is in the cache, [n, slots, d], which see each
// other with parallel, and returns their hidden states.
func (c *cache) extend(in []float32, slots, n int, parallel bool) ([]float32, error) {
	width := slots * c.x.p.d
	for row := range n {
		c.pieces[row] = lm.Piece{Seq: c.sequences[row], IDs: c.ids[:slots], Given: in[row*width : (row+1)*width],
			Prefix: int(c.x.prefix[row]), Parallel: parallel}
	}
	err := c.x.p.trunk.Extend(c.x.trunk, c.pieces[:n]...)
	return c.x.trunk.Hidden(), err
}

// back takes the slots of n rows out of the cache.
func (c *cache) back(n int) {
	for row := range n {
		c.sequences[row].Truncate(int(c.x.prefix[row]))
	}
}
