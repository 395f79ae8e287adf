package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A batch is the input of a pass: some rows of observations.
type batch struct {
	obs     tensor.Dict
	lo, n   int          // rows [lo, lo+n) of obs
	slots   bool         // whether the pass includes the slots
	action  []float32    // [n, C·A], the given actions; nil if the head chooses them
	augment policy.Noise // draws parts of images and the noise of imitation; not used if Env is empty
}

// A pass is the memory of a forward pass over some rows, and of the backward pass that follows. Its action head is
// parallel or iterative.
type pass struct {
	p      *Policy
	rows   int // largest number of rows of a batch
	n      int // rows of the last batch
	reader *reader
	vision *nn.NetWork[float32]
	trunk  *lm.Work
	critic *nn.NetWork[float32]

	head      headWork
	iterative iterativeWork // the same head if it is iterative, else nil
	cache     *cache        // cache of prefixes, for an iterative head that acts; else nil

	// The method encode sets the fields from numbers to given.
	numbers  []float32 // [rows, numbers], normalised
	images   [][]uint8 // of each camera: the part that the policy sees
	cropped  [][]uint8 // of each camera: memory for this part; nil if the policy sees the whole image
	texts    [][]int32 // tokens of each row, in memory of reader
	choices  []int32   // [rows, max_prompt_length], for vision that reads texts: token + 1, or 0 after the text
	features []float32 // [rows, tokens·d + predicted], the output of the network
	ids      []int32   // input ids of all sequences, one after the other
	starts   []int32   // start of each sequence in ids, then the end of the last sequence
	prefix   []int32   // the length of each prefix
	given    []float32 // [rows·(tokens + slots), d], the inputs of the trunk, without the text

	// The method scatter sets slots and last.
	slots []float32 // [rows, slots, d]: inputs of the trunk, then hidden states
	last  []float32 // [rows, d]: hidden states of the last token of each prefix

	dHidden, dSlots, dLast []float32 // gradients of the trunk's hidden states, x.slots and x.last
}

func (p *Policy) newPass(rows int, r *reader, training bool) *pass {
	given := p.observed.tokens + p.slots
	tokens := given
	if p.observed.text != "" {
		tokens += p.own.MaxPrompt
	}
	x := &pass{
		p: p, rows: rows, reader: r, vision: p.vision.NewWork(rows),
		numbers: nn.Vector[float32](rows * p.observed.width), texts: make([][]int32, rows),
		choices: make([]int32, rows*p.observed.readable), ids: make([]int32, 0, rows*tokens),
		starts: make([]int32, 0, rows+1), prefix: make([]int32, 0, rows),
		given: nn.Vector[float32](rows * given * p.d), slots: nn.Vector[float32](rows * p.slots * p.d),
		last: nn.Vector[float32](rows * p.d),
	}
	x.images, x.cropped = p.observed.newImages(rows)
	if p.critic != nil {
		x.critic = p.critic.NewWork(rows)
	}
	x.head = p.head.newWork(rows)
	x.iterative, _ = x.head.(iterativeWork)
	switch {
	case training:
		x.trunk = p.trunk.NewTraining(rows * tokens)
		x.dHidden, x.dSlots = nn.Vector[float32](rows*tokens*p.d), nn.Vector[float32](len(x.slots))
		x.dLast = nn.Vector[float32](len(x.last))
	case x.iterative != nil:
		x.trunk, x.cache = p.trunk.NewDecoding(rows*tokens), newCache(x, tokens)
	default:
		x.trunk = p.trunk.NewInference(rows * tokens)
	}
	return x
}

// forward computes the hidden states of the last token of each prefix of b, and of the slots.
func (x *pass) forward(b batch) error {
	x.n = b.n
	if err := x.encode(b); err != nil {
		return err
	}
	if err := x.runTrunk(); err != nil {
		return err
	}
	x.scatter(b.slots)
	return nil
}

// encode makes a sequence for each row: the tokens of the text, then the features of images and numbers. If b.slots is
// true, the slots follow.
func (x *pass) encode(b batch) error {
	p := x.p
	p.observed.readNumbers(x.numbers, p.params, b)
	p.observed.readImages(x.images, x.cropped, b)
	if err := x.readTexts(b); err != nil {
		return err
	}
	x.features = p.vision.Forward(x.vision, nn.Batch[float32]{Rows: b.n, Numbers: x.numbers, Images: x.images,
		Choices: x.choices})
	slots := 0
	if b.slots {
		slots = p.slots
		x.resetSlots(b.n)
		if x.iterative != nil {
			if err := x.iterative.encode(x.slots, b); err != nil {
				return err
			}
		}
	}
	x.ids, x.starts, x.prefix, x.given = x.ids[:0], append(x.starts[:0], 0), x.prefix[:0], x.given[:0]
	positions := p.params.Of(p.positions)
	for row := range b.n {
		x.ids = append(x.ids, x.texts[row]...)
		for range p.observed.tokens + slots {
			x.ids = append(x.ids, lm.Given)
		}
		x.prefix = append(x.prefix, int32(len(x.texts[row])+p.observed.tokens))
		x.starts = append(x.starts, int32(len(x.ids)))
		x.given = append(x.given, x.features[row*p.vision.Out:][:len(positions)]...)
		x.given = append(x.given, x.slots[row*p.slots*p.d:][:slots*p.d]...)
	}
	p.params.Ops().AddColumns(x.given, len(positions)+slots*p.d, positions, 0, len(positions), b.n)
	return nil
}

// resetSlots sets the slots of n rows to their learnt embeddings. A parallel head adds nothing to them.
func (x *pass) resetSlots(n int) {
	learnt := x.p.params.Of(x.p.slotEmbedding)
	for row := range n {
		copy(x.slots[row*len(learnt):], learnt)
	}
}

// readTexts sets texts to the tokens of each row. If the vision network reads texts, readTexts also sets choices.
func (x *pass) readTexts(b batch) error {
	length := x.p.observed.readable
	for row := range b.n {
		text, err := x.p.observed.readText(x.reader, b.obs, b.lo+row)
		if err != nil {
			return fmt.Errorf("row %d: %w", b.lo+row, err)
		}
		x.texts[row] = text
		choices := x.choices[row*length : (row+1)*length]
		clear(choices)
		for i := range choices[:min(length, len(text))] {
			choices[i] = text[i] + 1
		}
	}
	return nil
}

// runTrunk computes the hidden states of the sequences, and fills the cache if there is one.
func (x *pass) runTrunk() error {
	if x.cache != nil {
		return x.cache.fill(x)
	}
	return x.p.trunk.Forward(x.trunk, lm.Batch{IDs: x.ids, Starts: x.starts, Prefix: x.prefix, Given: x.given,
		Parallel: !x.p.head.causal()})
}

// scatter copies the hidden state of the last token of each prefix to x.last. If slots is true, it also copies the
// hidden states of the slots to x.slots.
func (x *pass) scatter(slots bool) {
	h, d, width := x.trunk.Hidden(), x.p.d, x.p.slots*x.p.d
	for row := range x.n {
		end := x.prefixEnd(row)
		copy(x.last[row*d:(row+1)*d], h[end-d:])
		if slots {
			copy(x.slots[row*width:(row+1)*width], h[end:])
		}
	}
}

// prefixEnd returns the index in the hidden states at which the prefix of a row ends.
func (x *pass) prefixEnd(row int) int { return int(x.starts[row]+x.prefix[row]) * x.p.d }

// values sets value, [n,V], from the last token of each prefix, if there is a critic.
func (x *pass) values(value []float32) {
	if x.p.critic != nil {
		copy(value, x.p.critic.Forward(x.critic, nn.Batch[float32]{Rows: x.n, Numbers: x.last}))
	}
}

// backward adds the gradients of the parameters, given the gradients of the outputs of the last forward. It goes
// through the steps of forward in reverse order. dValue and dPrediction may be nil if the loss does not depend on
// values or predictions.
func (x *pass) backward(dLogProb, dEntropy, dValue, dPrediction []float32, ready func(lo, hi int)) {
	p := x.p
	x.backwardValues(dValue, ready)
	x.head.backward(x.dSlots, dLogProb, dEntropy, x.n)
	ready(p.groupRange(actorGroup))
	p.trunk.BackwardHidden(x.trunk, x.gather(), 0)
	x.backwardEncode(dPrediction)
	ready(p.groupRange(sharedGroup))
	if p.own.FreezeVision {
		ready(p.groupRange(visionGroup))
		return
	}
	p.vision.Backward(x.vision, nil, ready)
}

// backwardValues sets dLast to the gradient of x.last, which comes from the values.
func (x *pass) backwardValues(dValue []float32, ready func(lo, hi int)) {
	p, n := x.p, x.n
	dLast := x.dLast[:n*p.d]
	switch {
	case p.critic == nil:
		clear(dLast)
	case dValue == nil:
		clear(dLast)
		ready(p.groupRange(criticGroup))
	default:
		copy(p.critic.OutGrad(x.critic), dValue)
		p.critic.Backward(x.critic, dLast, ready)
	}
}

// gather returns the gradient of all hidden states. It copies dLast and dSlots to the positions of these states; all
// other positions are 0.
func (x *pass) gather() []float32 {
	d, width := x.p.d, x.p.slots*x.p.d
	dHidden := x.dHidden[:len(x.ids)*d]
	clear(dHidden)
	for row := range x.n {
		end := x.prefixEnd(row)
		copy(dHidden[end-d:end], x.dLast[row*d:])
		copy(dHidden[end:], x.dSlots[row*width:(row+1)*width])
	}
	return dHidden
}

// backwardEncode adds to the gradients of positions and slots, and sets the gradient of features.
func (x *pass) backwardEncode(dPrediction []float32) {
	p := x.p
	dInput, dFeatures := x.trunk.InputGrad(), p.vision.OutGrad(x.vision)
	dPositions, dLearnt := p.params.GradOf(p.positions), p.params.GradOf(p.slotEmbedding)
	for row := range x.n {
		end := x.prefixEnd(row)
		of := dFeatures[row*p.vision.Out : (row+1)*p.vision.Out]
		tokens, predictions := of[:len(dPositions)], of[len(dPositions):]
		copy(tokens, dInput[end-len(tokens):end])
		if clear(predictions); dPrediction != nil {
			copy(predictions, dPrediction[row*len(predictions):])
		}
		copy(x.dSlots[row*len(dLearnt):(row+1)*len(dLearnt)], dInput[end:])
	}
	o := p.params.Ops()
	o.AddColumns(dPositions, 0, dFeatures, p.vision.Out, len(dPositions), x.n)
	o.AddColumns(dLearnt, 0, x.dSlots, len(dLearnt), len(dLearnt), x.n)
	if x.iterative != nil {
		x.iterative.backwardSlots(x.dSlots, x.n)
	}
}

// A cache holds the keys and values of the sequences of a batch: of the prefixes, and of the slots that follow them.
type cache struct {
	sequences []*lm.CachedText
	pieces    []lm.Piece
	slots     []int32 // input ids of the slots of a row, all lm.Given
}

// newCache makes a cache for x. The rows of x have at most maxTokens tokens.
func newCache(x *pass, maxTokens int) *cache {
	pages := x.rows * ((maxTokens + lm.PageLen - 1) / lm.PageLen)
	c, memory := &cache{pieces: make([]lm.Piece, x.rows)}, x.p.trunk.NewCache(pages)
	for range x.rows {
		c.sequences = append(c.sequences, memory.NewText(maxTokens))
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

// extend appends the slots in x.slots, [n, slots, d], to the cached sequences, and returns the hidden states of the
// slots. If parallel is set, slots attend to each other, and the cache does not keep them.
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
