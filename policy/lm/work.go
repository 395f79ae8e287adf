package lm

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// A Batch holds whole sequences, one after the other, without padding. Positions restart with every sequence, and
// sequences do not attend to each other.
type Batch struct {
	IDs []int32 // tokens
	// Starts are the offsets of the sequences in IDs, and the end of the last sequence. Starts[0] is 0,
	// and sequence i is IDs[Starts[i]:Starts[i+1]].
	Starts []int32

	// Given has the input rows [k, hidden] of the k tokens whose id is the constant Given, in order. These rows are
	// outputs of another network, and replace embeddings. Work.InputGrad returns the gradient of the rows.
	Given []float32
	// Prefix has the length of each sequence's prefix; nil means no prefixes. The tokens of a prefix attend to each
	// other in both directions. Every later token attends to the prefix and to all tokens up to itself.
	Prefix []int32
	// Parallel lets the tokens after a prefix attend to each other in both directions, too.
	Parallel bool
}

// Given is the id of a token whose input row is in Batch.Given.
const Given = -1

// A Work holds the activations of one user of a Model. It belongs to one goroutine. Make a Work with NewTraining,
// NewRecomputing, NewInference or NewDecoding.
type Work struct {
	m        *Model
	team     *team // the threads of this Work
	ops      Ops   // team or a card, unless a test counts calls
	base     nn.Ops[float32]
	onDevice bool  // whether the activations are on the device of the parameters
	axis     Axis  // the tensor-parallel ranks; nil for one rank
	pipe     Pipe  // the pipeline stages; nil for one stage
	err      error // the first error of a message to or from another rank
	deferred bool  // whether sums over axis wait for sumDeferred
	sizes    []int // memory for the result of counts
	rows     int   // maximum number of tokens in a forward pass
	training bool
	whole    bool         // whether the Work is for Forward, not for Extend
	repeated int          // number of first layers whose forward pass the backward pass repeats
	shared   *activations // activations that the repeated layers share; nil if no layer is repeated

	*pass                    // pass of the current micro-batch
	passes  []*pass          // passes of the micro-batches that wait for their backward pass
	ready   func(lo, hi int) // argument ready of Train, during the last micro-batch; else nil
	message []float32        // message to or from another stage
	results []float32        // outputs that Infer collects

	room      []float32 // Piece.Given of all pieces
	head      headWork
	attention Attention
	rotation  rotation // for all positions so far

	normed, delta, delta2   []float32 // [n,d]
	partial                 []float32 // [n,d]; nil if the model is whole
	key, value              []float32 // of all layers on a CPU, whose cache keeps them: [n, kv heads·head_dim]
	dq, dk, dv, doOut       []float32 // dq, doOut: [n, heads·head_dim]; others: [n, kv heads·head_dim]
	wide, wide2             []float32 // [n, the largest intermediate width]
	low, low2               []float32 // [n, rank]
	gathered, gathered2     []float32 // [slots, d]
	dprobs, dshared, dslots []float32 // [n, experts], [n], [slots]
	next                    []int32   // [experts]
	slope                   []float32 // [experts]
	tiedRows                tiedRows
	embedded                []float32 // memory of tiedRows on a device: [vocabulary, d]
	normSums                normSums
	squares                 []float64      // memory of GradSquares
	squareOf                map[string]int // index of each parameter in squares
	pieces                  *nn.SquareSums // on a device
	pieceOf                 []int32        // index of each of the pieces in squares
}

// A pass holds what a forward pass keeps for its backward pass.
type pass struct {
	n         int // tokens
	ids       []int32
	given     []float32 // Batch.Given
	spans     []span
	sequences []*CachedText
	cache     *Cache
	cos, sin  []float32      // [n, half]: rotations of the rows
	acts      []*activations // one per layer; without training, all layers share the same activations
	final     struct {       // the last residual stream and its norm
		x, inv, hidden []float32 // [n,d], [n], [n,d]
	}
	share []float32 // [experts], see AuxLoss
	means []float64 // [experts]
	out   Outputs
}

// activations are the values of one layer that the backward pass needs.
type activations struct {
	x, inv1      []float32 // residual stream at the input [n,d], and the factors of its norm [n]
	q, o         []float32 // rotated queries, and output of the attention [n, heads·head_dim]
	key, value   []float32 // rotated keys, and values [n, kv heads·head_dim]
	lse          []float32 // [heads, n]
	rawQ, rawK   []float32 // queries and keys before the norms of heads
	invQ, invK   []float32 // factors of the norms of heads
	middle, inv2 []float32 // residual stream between attention and feed-forward
	gate, up     []float32 // [n, intermediate]; nil in sparse layers
	routed       *routed
}

// NewTraining returns a Work for forward and backward passes over batches of at most the given number of tokens. The
// Work keeps the activations of all layers.
func (m *Model) NewTraining(tokens int) *Work { return m.NewRecomputing(tokens, 0) }

// NewRecomputing is like NewTraining, but its Work needs less memory. The first n layers keep only inputs, keys and
// values, and the backward pass repeats their forward pass. Results are the same, bit for bit.
func (m *Model) NewRecomputing(tokens, n int) *Work {
	w := m.newWork(tokens, true, m.Params.OnDevice())
	if w.repeated = min(n, len(m.layers)); w.repeated > 0 {
		w.shared = w.newActivations()
	}
	w.pass = w.newPass()
	w.passes = []*pass{w.pass}
	d, kv, q := m.local.Hidden, m.local.KVHeads*m.local.HeadDim, m.local.Heads*m.local.HeadDim
	w.delta, w.delta2 = w.vector(tokens*d), w.vector(tokens*d)
	w.dq, w.doOut = w.vector(tokens*q), w.vector(tokens*q)
	w.dk, w.dv = w.vector(tokens*kv), w.vector(tokens*kv)
	w.wide2 = w.vector(len(w.wide))
	if m.values {
		w.head.one = m.Params.Shared(1)
		w.head.one[0] = 1
		m.Params.Upload(w.head.one)
	}
	if x := m.local.Experts; x.Count > 0 {
		w.gathered2 = w.vector(len(w.gathered))
		w.dprobs, w.dshared = make([]float32, tokens*x.Count), make([]float32, tokens)
		w.dslots = make([]float32, tokens*x.PerToken)
	}
	return w
}

// NewInference returns a Work for Forward without Backward, over batches of at most the given number of tokens. The
// Work keeps the activations of one layer.
func (m *Model) NewInference(tokens int) *Work {
	w := m.newForward(tokens, m.Params.OnDevice())
	w.cache, w.whole, w.passes = m.NewCache(0), true, []*pass{w.pass}
	return w
}

// NewDecoding returns a Work for Extend, with at most the given number of new tokens in a pass. The Work keeps the
// activations of one layer. It computes on the CPU.
func (m *Model) NewDecoding(tokens int) *Work { return m.newForward(tokens, false) }

// newForward returns a Work without backward passes.
func (m *Model) newForward(tokens int, onDevice bool) *Work {
	w := m.newWork(tokens, false, onDevice)
	w.pass = w.newFinal()
	one := w.newActivations()
	one.x = w.vector(tokens * m.local.Hidden)
	for i := range m.layers {
		w.fit(one, &m.layers[i])
		w.acts = append(w.acts, one)
	}
	return w
}

func (m *Model) newWork(tokens int, training, onDevice bool) *Work {
	if !m.ready || tokens < 1 {
		panic(fmt.Sprintf("lm: work for %d tokens, of a model that is ready: %v", tokens, m.ready))
	}
	c := &m.local
	w := &Work{m: m, rows: tokens, training: training, whole: training, onDevice: onDevice}
	w.team, w.base = newTeam(c.Heads), m.Params.Host()
	w.ops = w.team
	if w.onDevice {
		w.useDevice()
	}
	d, kv := c.Hidden, c.KVHeads*c.HeadDim
	w.normed = w.vector(tokens * d)
	if m.part.Size > 1 {
		w.partial = w.vector(tokens * d)
	}
	if !w.onDevice {
		w.key, w.value = w.vector(tokens*kv), w.vector(tokens*kv)
	}
	wide, slots := 0, tokens*c.Experts.PerToken
	for i := range m.layers {
		if m.layers[i].experts != nil {
			wide = max(wide, slots*c.Experts.Intermediate, tokens*c.Experts.SharedIntermediate)
		} else {
			wide = max(wide, tokens*c.Intermediate)
		}
	}
	w.wide = w.vector(wide)
	if c.Experts.Count > 0 {
		w.gathered, w.next = w.vector(slots*d), make([]int32, c.Experts.Count)
		w.slope = make([]float32, c.Experts.Count)
	}
	if m.lora != nil {
		rows := max(tokens, slots)
		w.low, w.low2 = w.vector(rows*m.lora.Rank), w.vector(rows*m.lora.Rank)
	}
	return w
}

// newPass returns a pass for training. Layers whose forward pass is repeated share all activations except their inputs.
func (w *Work) newPass() *pass {
	p := w.newFinal()
	for i := range w.m.layers {
		of := w.shared
		if i >= w.repeated {
			of = w.newActivations()
		}
		w.fit(of, &w.m.layers[i])
		a := *of
		a.x = w.vector(w.rows * w.m.local.Hidden)
		p.acts = append(p.acts, &a)
	}
	p.cache = w.m.NewCache(0)
	return p
}

// newFinal returns a pass with memory only for the final norm and the outputs.
func (w *Work) newFinal() *pass {
	p, n, d := &pass{}, w.rows, w.m.local.Hidden
	p.final.x, p.final.inv, p.final.hidden = w.vector(n*d), w.vector(n), w.vector(n*d)
	if half := w.m.local.HeadDim / 2; w.onDevice {
		p.cos, p.sin = w.m.Params.Shared(n*half), w.m.Params.Shared(n*half)
	}
	p.share, p.means = make([]float32, w.m.local.Experts.Count), make([]float64, w.m.local.Experts.Count)
	return p
}

// newActivations returns activations without x, and without memory for a feed-forward block.
func (w *Work) newActivations() *activations {
	c, n := &w.m.local, w.rows
	d, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := &activations{
		inv1: w.vector(n), q: w.vector(n * q), o: w.vector(n * q),
		middle: w.vector(n * d), inv2: w.vector(n), key: w.key, value: w.value,
	}
	if w.onDevice {
		a.key, a.value = w.vector(n*kv), w.vector(n*kv)
	}
	if w.training || w.onDevice {
		a.lse = w.vector(n * c.Heads)
	}
	if c.QKNorm {
		a.rawQ, a.rawK = w.vector(n*q), w.vector(n*kv)
		a.invQ, a.invK = w.vector(n*c.Heads), w.vector(n*c.KVHeads)
	}
	return a
}

// fit adds memory for the feed-forward block of layer l to acts, unless acts has this memory already.
func (w *Work) fit(acts *activations, l *layer) {
	switch n := w.rows; {
	case l.experts != nil && acts.routed == nil:
		acts.routed = newRouted(w.m, n)
	case l.experts == nil && acts.gate == nil:
		acts.gate, acts.up = w.vector(n*l.ff.width), w.vector(n*l.ff.width)
	}
}
