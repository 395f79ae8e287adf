package lm

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// A Batch is whole sequences, one after the other, without padding. Positions restart with every
// sequence, and sequences do not see each other.
type Batch struct {
	IDs []int32 // tokens
	// Starts are the offsets of the sequences in IDs, and the end of the last one: Starts[0] is 0,
	// sequence i is IDs[Starts[i]:Starts[i+1]]
	Starts []int32

	// Given has the input rows [k, hidden] of the k tokens whose id is Given, in order. The rows
	// are outputs of another network, in place of embeddings. Work.InputGrad has the derivative by
	// these rows.
	Given []float32
	// Prefix has, for each sequence, how many of its first tokens see each other in both
	// directions; nil: none. Every later token sees the prefix and all tokens before itself.
	Prefix []int32
	// Parallel lets the tokens after a prefix see each other in both directions, too.
	Parallel bool
}

// Given is the id of a token whose input row is in Batch.Given.
const Given = -1

// A Work holds the activations of one user of a Model. It belongs to one goroutine. Make it with
// NewTraining, NewInference or NewDecoding.
type Work struct {
	m        *Model
	team     *team
	axis     Axis  // the ranks that have the other parts; nil: none
	err      error // the first of axis
	deferred bool  // the caller sums over axis
	sizes    []int // of blocks of axis
	rows     int   // most tokens of a forward pass
	training bool
	whole    bool // for Forward; otherwise for Extend

	n     int // tokens of the last forward pass
	ids   []int32
	given []float32 // Batch.Given, or the rows of all pieces, in room
	room  []float32
	spans []span
	cache *Cache
	acts  []*activations // one per layer; in decoding one for all
	final struct {       // the last residual stream and its norm
		x, inv, hidden []float32 // [n,d], [n], [n,d]
	}
	head headWork

	attention attention

	rotation rotation  // for all positions so far
	cos, sin []float32 // of the rows of the last pass [n, half]

	normed, delta, delta2         []float32 // [n,d]
	partial                       []float32 // [n,d]; nil if the model is whole
	key, value, dq, dk, dv, doOut []float32 // [n, kv heads·head_dim], [n, heads·head_dim]
	wide, wide2                   []float32 // [n, the largest intermediate width]
	low, low2                     []float32 // [n, rank]
	gathered, gathered2           []float32 // [slots, d]
	dprobs, dshared               []float32 // [n, experts], [n]
	next                          []int32   // [experts]
	share, slope                  []float32 // [experts]
	sequences                     []*Sequence
	tiedRows                      tiedRows
	normSums                      normSums
	squares                       []float64 // of GradSquares
}

// activations are the values of one layer that the backward pass needs.
type activations struct {
	x, inv1      []float32 // residual stream at the input [n,d], and the factors of its norm [n]
	q, o         []float32 // rotated queries, and output of the attention [n, heads·head_dim]
	lse          []float32 // [heads, n]
	rawQ, rawK   []float32 // queries and keys before the norms of heads
	invQ, invK   []float32 // factors of these norms
	middle, inv2 []float32 // residual stream between attention and feed-forward
	gate, up     []float32 // [n, intermediate]; nil in sparse layers
	routed       *routed
}

// NewTraining returns a Work for forward and backward passes over batches of at most this number of
// tokens. It keeps the activations of all layers.
func (m *Model) NewTraining(tokens int) *Work {
	w := m.newWork(tokens, true)
	for i := range m.layers {
		w.acts = append(w.acts, w.newActivations(&m.layers[i]))
	}
	w.cache = m.NewCache(0)
	d, kv, q := m.local.Hidden, m.local.KVHeads*m.local.HeadDim, m.local.Heads*m.local.HeadDim
	w.delta, w.delta2 = nn.Vector[float32](tokens*d), nn.Vector[float32](tokens*d)
	w.dq, w.doOut = nn.Vector[float32](tokens*q), nn.Vector[float32](tokens*q)
	w.dk, w.dv = nn.Vector[float32](tokens*kv), nn.Vector[float32](tokens*kv)
	w.wide2 = nn.Vector[float32](len(w.wide))
	if x := m.local.Experts; x.Count > 0 {
		w.gathered2 = nn.Vector[float32](len(w.gathered))
		w.dprobs, w.dshared = make([]float32, tokens*x.Count), make([]float32, tokens)
	}
	return w
}

// NewInference returns a Work for Forward alone, over batches of at most this number of tokens. It
// keeps the activations of one layer.
func (m *Model) NewInference(tokens int) *Work {
	w := m.NewDecoding(tokens)
	w.cache, w.whole = m.NewCache(0), true
	return w
}

// NewDecoding returns a Work for Extend, with at most this number of new tokens in a pass. It keeps
// the activations of one layer.
func (m *Model) NewDecoding(tokens int) *Work {
	w := m.newWork(tokens, false)
	var one *activations
	for i := range m.layers {
		l := &m.layers[i]
		switch {
		case one == nil:
			one = w.newActivations(l)
		case l.experts != nil && one.routed == nil:
			one.routed = newRouted(m, tokens)
		case l.experts == nil && one.gate == nil:
			one.gate, one.up = nn.Vector[float32](tokens*l.ff.width), nn.Vector[float32](tokens*l.ff.width)
		}
		w.acts = append(w.acts, one)
	}
	return w
}

func (m *Model) newWork(tokens int, training bool) *Work {
	if !m.ready || tokens < 1 {
		panic(fmt.Sprintf("lm: work for %d tokens, of a model that is ready: %v", tokens, m.ready))
	}
	c := &m.local
	w := &Work{m: m, team: newTeam(c.HeadDim), rows: tokens, training: training, whole: training}
	d, kv := c.Hidden, c.KVHeads*c.HeadDim
	w.final.x, w.final.inv, w.final.hidden = nn.Vector[float32](tokens*d), make([]float32, tokens),
		nn.Vector[float32](tokens*d)
	w.normed = nn.Vector[float32](tokens * d)
	if m.part.Size > 1 {
		w.partial = nn.Vector[float32](tokens * d)
	}
	w.key, w.value = nn.Vector[float32](tokens*kv), nn.Vector[float32](tokens*kv)
	wide, slots := 0, tokens*c.Experts.PerToken
	for i := range m.layers {
		if c.Sparse(i) {
			wide = max(wide, slots*c.Experts.Intermediate, tokens*c.Experts.SharedIntermediate)
		} else {
			wide = max(wide, tokens*c.Intermediate)
		}
	}
	w.wide = nn.Vector[float32](wide)
	if c.Experts.Count > 0 {
		w.gathered, w.next = nn.Vector[float32](slots*d), make([]int32, c.Experts.Count)
		w.share, w.slope = make([]float32, c.Experts.Count), make([]float32, c.Experts.Count)
	}
	if m.lora != nil {
		rows := max(tokens, slots)
		w.low, w.low2 = make([]float32, rows*m.lora.Rank), make([]float32, rows*m.lora.Rank)
	}
	w.attention.forward, w.attention.backward = w.attendPart, w.attendGradPart
	return w
}

func (w *Work) newActivations(l *layer) *activations {
	c, n := &w.m.local, w.rows
	d, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := &activations{
		x: nn.Vector[float32](n * d), inv1: make([]float32, n), q: nn.Vector[float32](n * q),
		o:      nn.Vector[float32](n * q),
		middle: nn.Vector[float32](n * d), inv2: make([]float32, n),
	}
	if w.training {
		a.lse = make([]float32, n*c.Heads)
	}
	if c.QKNorm {
		a.rawQ, a.rawK = nn.Vector[float32](n*q), nn.Vector[float32](n*kv)
		a.invQ, a.invK = make([]float32, n*c.Heads), make([]float32, n*c.KVHeads)
	}
	if l.experts != nil {
		a.routed = newRouted(w.m, n)
	} else {
		a.gate, a.up = nn.Vector[float32](n*c.Intermediate), nn.Vector[float32](n*c.Intermediate)
	}
	return a
}
