package lm

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
)

// A card is the Ops of a Work on a device. There is no cache: the activations of each layer have its keys and values.
type card struct {
	*device.Ops
	heads  device.Heads
	means  []float32 // scratch of AttendGrad: [heads, n]
	tokens []int32   // of targets
	facts  []float32 // numbers of targets for CrossEntropyGrad
}

// useDevice makes w compute on the device of the parameters. Only a whole model without experts can.
func (w *Work) useDevice() {
	m := w.m
	ops, ok := m.Params.Ops().(*device.Ops)
	if !ok || m.part.Size > 1 || !m.first() || !m.last() || m.Config.Experts.Count > 0 || m.kept {
		panic(fmt.Sprintf("lm: a device (%T) for part %+v of a model with %d experts", m.Params.Ops(), m.part,
			m.Config.Experts.Count))
	}
	c := &card{Ops: ops}
	w.base, w.ops = ops, c
	ops.Reserve(max(10*w.rows, headRowsOf(&m.Config, w.rows)*(3*m.own+6), m.local.Vocab))
	if !m.values {
		w.headRows()
	}
	if !w.training {
		return
	}
	if m.embed.grad() != nil && m.Config.Tied {
		w.embedded = ops.Vector(m.local.Vocab * m.local.Hidden)
	}
	if m.Config.QKNorm && !m.fixed {
		w.normSums.reserve(w)
	}
	c.means, w.head.dh = ops.Vector(w.rows*m.local.Heads), ops.Vector(w.rows*m.local.Hidden)
}

// vector returns n zeros for activations.
func (w *Work) vector(n int) []float32 {
	if w.onDevice {
		return w.m.Params.Vector(n)
	}
	return nn.Vector[float32](n)
}

// clear sets activations or gradients to 0.
func (w *Work) clear(x []float32) {
	if w.onDevice {
		w.m.Params.Clear(x)
	} else {
		clear(x)
	}
}

func (c *card) Product(to []float32, m, n, blocks int, initial []float32, terms [3]Term) {
	c.BlockProduct(to, m, n, blocks, initial, used(&terms))
}

func (c *card) Gradient(to, a, b []float32, m, n, k int) { c.Ops.Gradient(to, a, b, m, n, k, true) }

func (c *card) Attend(a *Attention) {
	c.tiles(a)
	c.Ops.Attend(a.o, a.lse, a.q, a.key, a.value, &c.heads)
}

func (c *card) AttendGrad(a *Attention) {
	c.tiles(a)
	c.Ops.AttendGrad(a.dq, a.dkey, a.dvalue, c.means, a.q, a.key, a.value, a.o, a.dout, a.lse, &c.heads)
}

// tiles divides queries and keys into the tiles of the CPU, which share scores that are masked.
func (c *card) tiles(a *Attention) {
	s, h := a.sizes, &c.heads
	*h = device.Heads{Rows: a.n, Queries: s.Heads, Keys: s.KVHeads, Size: s.HeadDim, Tiles: h.Tiles[:0],
		KeyTiles: h.KeyTiles[:0]}
	for i := range a.spans {
		span := &a.spans[i]
		first := int32(len(h.Tiles) / 5)
		for at, rows := 0, 0; at < span.n; at += rows {
			keys, limit, growth := span.sees(at)
			rows = min(tileQueries, limit-at)
			h.Tiles = append(h.Tiles, int32(span.row+at), int32(rows), int32(span.row), int32(keys), int32(growth))
		}
		for at := 0; at < span.n; at += tileQueries {
			h.KeyTiles = append(h.KeyTiles, int32(span.row+at), int32(min(tileQueries, span.n-at)), int32(at), first,
				int32(len(h.Tiles)/5))
		}
	}
}

func (c *card) CrossEntropy(sums, logits []float32, targets []Target, _, width, blocks, block int) {
	c.Ops.CrossEntropy(sums, logits, c.tokensOf(targets), width, blocks, block)
}

func (c *card) CrossEntropyGrad(logits []float32, dists []Distribution, dlogp, dentropy []float32, targets []Target, _,
	width int) {
	c.facts = c.facts[:0]
	for i, d := range dists[:len(targets)] {
		slope := float32(0)
		if dentropy != nil {
			slope = dentropy[i]
		}
		c.facts = append(c.facts, float32(d.LSE), float32(d.Entropy), dlogp[i], slope)
	}
	c.Ops.CrossEntropyGrad(logits, c.facts, c.tokensOf(targets), width)
}

// tokensOf returns the tokens of targets.
func (c *card) tokensOf(targets []Target) []int32 {
	c.tokens = c.tokens[:0]
	for _, t := range targets {
		c.tokens = append(c.tokens, t.Token)
	}
	return c.tokens
}
