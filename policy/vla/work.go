package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// work is one user's memory. Acting takes some rows at a time, and keeps no activations; Evaluate
// takes all rows at once, in memory that the first one makes.
type work struct {
	owner   *Policy
	maxRows int
	reader  *reader
	acting  *pass
	trained *pass // nil before the first Evaluate

	action                   tensor.Tensor // [maxRows,C,A]
	logProb, entropy         tensor.Tensor // [maxRows,L]
	value                    tensor.Tensor // [maxRows,V]; the zero Tensor without a critic
	latent                   tensor.Tensor // [maxRows,K]; the zero Tensor without chains
	dimLogProb, dimEntropy   []float32     // [maxRows,C·A]
	dDimLogProb, dDimEntropy []float32
	foresight, guessed       *foresight   // nil: no guesses; none in the last Evaluate
	evaluated                int          // rows of the last call, if it was Evaluate
	augment                  policy.Noise // of the next Evaluate; without environments: none
	drawn, none              policy.Noise // of this one, and no noise
}

// actingRows is how many rows are computed at a time where no gradient follows.
const actingRows = 32

// NewWork returns a Work for at most maxRows rows at a time.
func (p *Policy) NewWork(maxRows int) policy.Work {
	n := maxRows * p.count
	w := &work{
		owner: p, maxRows: maxRows, reader: newReader(p.words, p.own.MaxPrompt),
		acting:     p.newPass(min(maxRows, actingRows), false),
		action:     tensor.New(tensor.F32, maxRows, p.cfg.NumActionChunks, p.actions.dims),
		logProb:    tensor.New(tensor.F32, maxRows, p.count/p.summed),
		entropy:    tensor.New(tensor.F32, maxRows, p.count/p.summed),
		dimLogProb: nn.Vector[float32](n), dimEntropy: nn.Vector[float32](n),
		dDimLogProb: nn.Vector[float32](n), dDimEntropy: nn.Vector[float32](n),
	}
	if p.senses.guesses > 0 {
		w.foresight = newForesight(w)
	}
	if k := p.LatentLen(); k > 0 {
		w.latent = tensor.New(tensor.F32, maxRows, k)
	}
	if p.criticHead != nil {
		w.value = tensor.New(tensor.F32, maxRows, p.criticHead.Out)
	}
	return w
}

// A pass is the memory of a forward pass over some rows, and of the backward pass behind it.
type pass struct {
	p       *Policy
	rows    int
	n       int // of the last pass
	net     *nn.NetWork[float32]
	trunk   *lm.Work
	head    headWork
	once    chooser // the head, where there is no suffix
	critic  *nn.MLPWork[float32]
	numbers []float32 // [rows, numbers]
	texts   [][]int32 // of the rows of the last pass, tokens; in the reader's memory
	choices []int32   // [rows, places], the same from 1 on; 0: none
	images  [][]uint8 // of each camera, what is seen
	cropped [][]uint8 // [rows, frames, h, w, c]; nil where the whole image is seen
	seen    []float32 // [rows, tokens·d + guesses], what the network of images and numbers made

	ids, starts, prefix []int32
	given               []float32 // [rows·(tokens + slots), d]
	ends                []int32   // of each row's prefix
	slots               []float32 // [rows·slots, d]
	last                []float32 // [rows, d]

	cache  *cache // of a pass that acts with a suffix
	suffix suffix // what slots are made of; nil: of their places alone, and chosen at once

	// for backward
	dh, dSlots, dLast []float32
	valued            []float32 // what the critic's head read
	scratch           []float32
}

func (p *Policy) newPass(rows int, training bool) *pass {
	given := p.senses.tokens + p.slotted
	most := given
	if p.senses.text != "" {
		most += p.own.MaxPrompt
	}
	x := &pass{
		p: p, rows: rows, net: p.net.NewWork(rows), head: p.head.newWork(rows),
		numbers: nn.Vector[float32](rows * p.senses.width),
		ids:     make([]int32, 0, rows*most), starts: make([]int32, 0, rows+1), prefix: make([]int32, 0, rows),
		ends: make([]int32, 0, rows), given: nn.Vector[float32](rows * given * p.d),
		slots: nn.Vector[float32](rows * p.slotted * p.d), last: nn.Vector[float32](rows * p.d),
	}
	x.texts, x.choices = make([][]int32, rows), make([]int32, rows*p.senses.places)
	for _, c := range p.senses.cameras {
		var room []uint8
		if c.crops() {
			room = make([]uint8, rows*c.frames*c.cut.Len())
		}
		x.images, x.cropped = append(x.images, nil), append(x.cropped, room)
	}
	if p.criticHead != nil {
		x.critic = p.criticTrunk.NewWork(rows)
		x.scratch = nn.Vector[float32](p.criticHead.In * p.criticHead.Out)
	}
	x.once, _ = x.head.(chooser)
	switch {
	case p.previous > 0:
		x.suffix = newInOrder(x, most, training)
	case p.flow != nil:
		x.suffix = newDenoising(x, most, training)
	}
	switch {
	case !training && x.suffix != nil:
		x.trunk = p.trunk.NewDecoding(rows * most)
		return x
	case !training:
		x.trunk = p.trunk.NewInference(rows * most)
		return x
	}
	x.trunk = p.trunk.NewTraining(rows * most)
	x.dh = nn.Vector[float32](rows * most * p.d)
	x.dSlots, x.dLast = nn.Vector[float32](rows*p.slotted*p.d), nn.Vector[float32](rows*p.d)
	return x
}

// look computes the hidden states of n rows of obs, from row lo on: of the last token of each prefix
// and, with slots, of the slots. A part of each image is drawn by augment where that has
// environments. What slots are made of may depend on action, [n, C·A].
func (x *pass) look(w *work, obs tensor.Dict, lo, n int, slots bool, augment *policy.Noise, action []float32) error {
	p := x.p
	s := p.senses
	x.n = n
	s.read(x.numbers, p.params, obs, lo, n)
	for i := range s.cameras {
		c := &s.cameras[i]
		each := c.frames * c.whole.Len()
		x.images[i] = obs.Must(c.name).U8()[lo*each : (lo+n)*each]
		if !c.crops() {
			continue
		}
		seen := c.frames * c.cut.Len()
		for row := range n {
			top, left := (c.whole.H-c.cut.H)/2, (c.whole.W-c.cut.W)/2
			if len(augment.Env) > 0 {
				draw := philox.New(augment.Seed, philox.Crop, augment.Env[lo+row], augment.Step[lo+row])
				top, left = draw.IntN(c.whole.H-c.cut.H+1), draw.IntN(c.whole.W-c.cut.W+1)
			}
			c.crop(x.cropped[i][row*seen:(row+1)*seen], x.images[i][row*each:(row+1)*each], top, left)
		}
		x.images[i] = x.cropped[i]
	}
	if err := x.readTexts(w, obs, lo); err != nil {
		return err
	}
	x.seen = p.net.Forward(x.net, nn.Batch[float32]{Rows: n, Numbers: x.numbers, Images: x.images, Choices: x.choices})

	behind := 0
	if slots && x.suffix != nil {
		if err := x.suffix.read(obs, action, n, augment); err != nil {
			return err
		}
	}
	if slots {
		behind = p.slotted
	}
	x.ids, x.starts, x.prefix, x.ends = x.ids[:0], append(x.starts[:0], 0), x.prefix[:0], x.ends[:0]
	positions, first := p.params.Of(p.positions), p.params.Of(p.slots)
	given := x.given
	for row := range n {
		text := x.texts[row]
		x.ids = append(x.ids, text...)
		for range s.tokens + behind {
			x.ids = append(x.ids, lm.Given)
		}
		for i, t := range x.seen[row*p.net.Out:][:len(positions)] {
			given[i] = t + positions[i]
		}
		given = given[len(positions):]
		if slots {
			if copy(given, first); x.suffix != nil {
				x.suffix.add(given[:len(first)], row)
			}
			given = given[len(first):]
		}
		x.prefix = append(x.prefix, int32(len(text)+s.tokens))
		x.ends = append(x.ends, int32(len(x.ids)-behind))
		x.starts = append(x.starts, int32(len(x.ids)))
	}
	if x.cache != nil {
		if err := x.cache.begin(n); err != nil {
			return err
		}
	} else if err := p.trunk.Forward(x.trunk, lm.Batch{IDs: x.ids, Starts: x.starts, Prefix: x.prefix,
		Given: x.given[:len(x.given)-len(given)], Parallel: p.previous == 0}); err != nil {
		return err
	}
	h, d := x.trunk.Hidden(), p.d
	for row, end := range x.ends {
		at := int(end) * d
		copy(x.last[row*d:(row+1)*d], h[at-d:])
		if slots {
			copy(x.slots[row*p.slotted*d:(row+1)*p.slotted*d], h[at:])
		}
	}
	return nil
}

// readTexts sets texts to the tokens of the rows of obs from lo on, and choices for a network that
// reads them.
func (x *pass) readTexts(w *work, obs tensor.Dict, lo int) error {
	places := x.p.senses.places
	for row := range x.n {
		text, err := x.text(w, obs, lo+row)
		if err != nil {
			return fmt.Errorf("row %d: %w", lo+row, err)
		}
		x.texts[row] = text
		to := x.choices[row*places : (row+1)*places]
		clear(to)
		for i := range to[:min(places, len(text))] {
			to[i] = text[i] + 1
		}
	}
	return nil
}

// text returns the tokens of the instruction of a row of obs; none where there are no instructions.
func (x *pass) text(w *work, obs tensor.Dict, row int) ([]int32, error) {
	s := x.p.senses
	switch {
	case s.text == "":
		return nil, nil
	case s.words != nil:
		return w.reader.readWords(obs.Must(s.text).I32()[row*s.length:(row+1)*s.length], s.words)
	}
	return w.reader.read(obs.Must(s.text).U8()[row*s.length : (row+1)*s.length])
}

// values sets value, [n,V], from the last token of each prefix.
func (x *pass) values(value []float32) {
	p := x.p
	x.valued = p.criticTrunk.Forward(x.critic, x.last[:x.n*p.d], x.n)
	p.criticHead.Forward(value[:x.n*p.criticHead.Out], x.valued, x.n)
}
