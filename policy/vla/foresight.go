package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Foresees names the numbers that the policy guesses. See policy.Foreseer.
func (p *Policy) Foresees() (names []string) {
	if p.senses.guesses == 0 {
		return nil
	}
	for _, n := range p.senses.numbers {
		names = append(names, n.name)
	}
	return names
}

// A foresight guesses what the numbers will be soon, and when a demonstration ends: see
// policy.Foreseer. Most numbers are about the robot, so these are the places of its hand: at the thing
// meant. The guess asks eyes and instruction for that place directly. Actions ask for little more than
// a direction, and the robot's own motion foretells much of that.
//
// The guess ĝ is linear in what the MLP of the numbers reads: numbers, places, and with vision_words
// or vision_film features of the text. With numbers g in units of their deviation, and the weight w
// of actor.model.foresight,
//
//	log p(g) = -½ w Σ (g - ĝ)²
type foresight struct {
	w                 *work
	logProb, dLogProb tensor.Tensor // [maxRows,L+1] and [maxRows,L]
	d                 []float32     // [maxRows, 2·numbers], the derivative of log p(g) by ĝ
}

func newForesight(w *work) *foresight {
	l := w.logProb.Dim(1)
	return &foresight{w: w, logProb: tensor.New(tensor.F32, w.maxRows, l+1),
		dLogProb: tensor.New(tensor.F32, w.maxRows, l), d: make([]float32, w.maxRows*w.owner.senses.guesses)}
}

// evaluate returns logProb, [n,L], with the log-probs of guesses behind those of actions, [n,L+1].
func (f *foresight) evaluate(logProb, goal tensor.Tensor) (tensor.Tensor, error) {
	p, seen := f.w.owner, f.w.trained.seen
	n, l, width := logProb.Dim(0), logProb.Dim(1), p.senses.guesses
	if goal.DType() != tensor.F32 || goal.Rank() != 2 || goal.Dim(0) != n || goal.Dim(1) != width {
		return tensor.Tensor{}, fmt.Errorf("goal %v: expected F32[%d %d]", goal, n, width)
	}
	mean, deviation := p.senses.stats(p.params)
	all := f.logProb.Slice(0, n)
	for i := range n {
		guess, d := seen[(i+1)*p.net.Out-width:], f.d[i*width:(i+1)*width]
		var sum float64
		for k, g := range goal.At(i).F32() {
			of := k % len(mean)
			e := (float64(g)-mean[of])/deviation[of] - float64(guess[k])
			sum += e * e
			d[k] = float32(p.own.Foresight * e)
		}
		row := all.F32()[i*(l+1) : (i+1)*(l+1)]
		copy(row, logProb.F32()[i*l:(i+1)*l])
		row[l] = -float32(p.own.Foresight * sum / 2)
	}
	return all, nil
}

// split parts the derivative by what evaluate gave: that by the log-probs of actions, [n,L], and
// that by the guesses, [n, 2·numbers].
func (f *foresight) split(d tensor.Tensor) (dLogProb tensor.Tensor, dGuess []float32) {
	n, l, width := d.Dim(0), d.Dim(1)-1, f.w.owner.senses.guesses
	dLogProb, dGuess = f.dLogProb.Slice(0, n), f.d[:n*width]
	for i := range n {
		row := d.F32()[i*(l+1) : (i+1)*(l+1)]
		copy(dLogProb.F32()[i*l:(i+1)*l], row)
		for k := range width {
			dGuess[i*width+k] *= row[l]
		}
	}
	return dLogProb, dGuess
}
