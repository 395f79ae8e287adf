package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// Forward implements policy.Policy. Mode Sample draws actions at the temperature of training. Mode
// Deterministic takes the likeliest, or with a temperature of evaluation draws, too.
func (p *Policy) Forward(wk policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act, error) {
	w, n, err := p.begin(wk, obs)
	if err != nil {
		return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	t := draws{temperature: p.cfg.Temperature, noise: noise, training: mode == policy.Sample}
	if mode == policy.Deterministic {
		t.temperature = p.cfg.EvalTemperature
	}
	if t.temperature > 0 && (len(noise.Env) != n || len(noise.Step) != n) {
		return policy.Act{}, fmt.Errorf("policy: forward: noise for %d environments and %d steps: expected %d",
			len(noise.Env), len(noise.Step), n)
	}
	act := policy.Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n), Value: w.values(n)}
	if !w.latent.IsZero() {
		act.Latent = w.latent.Slice(0, n)
	}
	x, d := w.acting, p.count
	for t.row = 0; t.row < n; t.row += x.rows {
		lo, hi := t.row, min(t.row+x.rows, n)
		if err := x.look(w, obs, lo, hi-lo, x.suffix == nil, &w.none, nil); err != nil {
			return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
		}
		if p.criticHead != nil {
			x.values(act.Value.Slice(lo, hi).F32())
		}
		action, logProb := act.Action.F32()[lo*d:hi*d], w.dimLogProb[lo*d:hi*d]
		if x.suffix == nil {
			x.once.choose(action, logProb, x.slots, hi-lo, t)
		} else if err := x.suffix.decide(action, logProb, w.chains(lo, hi), hi-lo, t); err != nil {
			return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
		}
	}
	p.sum(act.LogProb.F32(), w.dimLogProb)
	return act, finite(act.LogProb, act.Value, n)
}

// Evaluate implements policy.Policy.
func (p *Policy) Evaluate(wk policy.Work, obs tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	w, n, err := p.begin(wk, obs)
	if err != nil {
		return policy.Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	if !action.SameShape(w.action.Slice(0, n)) {
		return policy.Eval{}, fmt.Errorf("policy: evaluate: action %v: expected %v", action, w.action.Slice(0, n))
	}
	if w.trained == nil {
		w.trained = p.newPass(w.maxRows, true)
	}
	w.drawn, w.augment = w.augment, policy.Noise{}
	x := w.trained
	if err := x.look(w, obs, 0, n, true, &w.drawn, action.F32()); err != nil {
		return policy.Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	x.head.evaluate(w.dimLogProb, w.dimEntropy, x.slots, action.F32(), n)
	e := policy.Eval{LogProb: w.logProb.Slice(0, n), Entropy: w.entropy.Slice(0, n), Value: w.values(n)}
	p.sum(e.LogProb.F32(), w.dimLogProb)
	p.sum(e.Entropy.F32(), w.dimEntropy)
	if w.guessed = nil; w.foresight != nil {
		if goal, ok := obs.Get(policy.Goal); ok {
			if e.LogProb, err = w.foresight.evaluate(e.LogProb, goal); err != nil {
				return policy.Eval{}, fmt.Errorf("policy: evaluate: %w", err)
			}
			w.guessed = w.foresight
		}
	}
	if p.criticHead != nil {
		x.values(e.Value.F32())
	}
	w.evaluated = n
	return e, nil
}

// Augment lets the next Evaluate on w see a random part of each image where image_crop leaves one
// out, named by noise. See policy.Augmenter.
func (p *Policy) Augment(wk policy.Work, noise policy.Noise) {
	if w, ok := wk.(*work); ok {
		w.augment = noise
	}
}

// Value implements policy.Policy; without a critic it is an error.
func (p *Policy) Value(wk policy.Work, obs tensor.Dict) (tensor.Tensor, error) {
	if p.criticHead == nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: no critic: add_value_head is false")
	}
	w, n, err := p.begin(wk, obs)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: %w", err)
	}
	value, x := w.values(n), w.acting
	for lo := 0; lo < n; lo += x.rows {
		hi := min(lo+x.rows, n)
		if err := x.look(w, obs, lo, hi-lo, false, &w.none, nil); err != nil {
			return tensor.Tensor{}, fmt.Errorf("policy: value: %w", err)
		}
		x.values(value.Slice(lo, hi).F32())
	}
	return value, nil
}

// Backward implements policy.Policy: ranges become ready from the end of the flat gradient to its
// beginning.
func (p *Policy) Backward(wk policy.Work, g policy.Grad, ready func(lo, hi int)) error {
	w, ok := wk.(*work)
	if !ok || w.owner != p {
		return fmt.Errorf("policy: backward: work %T of another policy", wk)
	}
	n := w.evaluated
	if n == 0 {
		return fmt.Errorf("policy: backward: the last call on this work was not an Evaluate")
	}
	if !g.Action.IsZero() {
		return fmt.Errorf("policy: backward: derivative by action: this policy learns by log-probs")
	}
	logProb := w.logProb
	if w.guessed != nil {
		logProb = w.guessed.logProb
	}
	for _, d := range []struct {
		name     string
		of, like tensor.Tensor
	}{{"log-prob", g.LogProb, logProb}, {"entropy", g.Entropy, w.entropy}, {"value", g.Value, w.value}} {
		if !d.of.IsZero() && (d.like.IsZero() || !d.of.SameShape(d.like.Slice(0, n))) {
			return fmt.Errorf("policy: backward: derivative by %s %v of %d rows of %v", d.name, d.of, n, d.like)
		}
	}
	w.evaluated = 0
	var dGuess []float32
	if w.guessed != nil && !g.LogProb.IsZero() {
		g.LogProb, dGuess = w.guessed.split(g.LogProb)
	}
	p.spread(w.dDimLogProb[:n*p.count], g.LogProb.F32())
	p.spread(w.dDimEntropy[:n*p.count], g.Entropy.F32())
	w.trained.backward(w.dDimLogProb, w.dDimEntropy, g.Value.F32(), dGuess, ready)
	return nil
}

// backward adds the gradients of a loss, given its derivatives. dValue and dGuess may be nil: the loss
// does not depend on values or guesses.
func (x *pass) backward(dLogProb, dEntropy, dValue, dGuess []float32, ready func(lo, hi int)) {
	p, n, d := x.p, x.n, x.p.d
	if ready == nil {
		ready = func(int, int) {}
	}
	dLast := x.dLast[:n*d]
	if p.criticHead != nil && dValue != nil {
		below := p.criticTrunk.OutGrad(x.critic, n)
		if below == nil {
			below = dLast
		}
		p.criticHead.Backward(below, x.valued, dValue, n, false, x.scratch)
		ready(p.criticHead.Range())
		p.criticTrunk.Backward(x.critic, dLast, x.last[:n*d], n, ready)
	} else {
		clear(dLast)
		if p.criticHead != nil {
			last := p.params.Groups[len(p.params.Groups)-1]
			ready(last.Lo, last.Hi)
		}
	}
	x.head.backward(x.dSlots, dLogProb, dEntropy, n)
	ready(p.head.fields())

	dh := x.dh[:len(x.ids)*d]
	clear(dh)
	for row, end := range x.ends {
		at := int(end) * d
		copy(dh[at-d:at], dLast[row*d:])
		copy(dh[at:], x.dSlots[row*p.slotted*d:(row+1)*p.slotted*d])
	}
	p.trunk.BackwardHidden(x.trunk, dh, 0)
	dx, dTokens := x.trunk.InputGrad(), p.net.OutGrad(x.net)
	dPositions, dFirst := p.params.GradOf(p.positions), p.params.GradOf(p.slots)
	for row, end := range x.ends {
		at := int(end) * d
		of := dTokens[row*p.net.Out : (row+1)*p.net.Out]
		token, guess := of[:len(dPositions)], of[len(dPositions):]
		copy(token, dx[at-len(token):at])
		if clear(guess); dGuess != nil {
			copy(guess, dGuess[row*len(guess):])
		}
		kernel.Axpy(dPositions, 1, token)
		kernel.Axpy(dFirst, 1, dx[at:at+len(dFirst)])
		if x.suffix != nil {
			x.suffix.addGrad(dx[at:at+len(dFirst)], row)
		}
	}
	if x.suffix != nil {
		x.suffix.finish(n)
	}
	ready(p.learnt[0], p.learnt[1])
	if p.own.FreezeVision {
		ready(0, p.learnt[0])
		return
	}
	p.net.Backward(x.net, ready)
}

// begin checks work and observations.
func (p *Policy) begin(wk policy.Work, obs tensor.Dict) (*work, int, error) {
	w, ok := wk.(*work)
	if !ok || w.owner != p {
		return nil, 0, fmt.Errorf("work %T of another policy", wk)
	}
	w.evaluated = 0
	n, err := policy.Rows(p.senses.fields, obs, w.maxRows)
	return w, n, err
}

func (w *work) values(n int) tensor.Tensor {
	if w.value.IsZero() {
		return tensor.Tensor{}
	}
	return w.value.Slice(0, n)
}

// chains returns the chains of the rows from lo to hi; nil where there are none.
func (w *work) chains(lo, hi int) []float32 {
	if w.latent.IsZero() {
		return nil
	}
	return w.latent.Slice(lo, hi).F32()
}

// sum sets dst, [n,L], to the sums over the dimensions of each log-prob in src, [n,C·A].
func (p *Policy) sum(dst, src []float32) {
	for i := range dst {
		var s float32
		for _, v := range src[i*p.summed : (i+1)*p.summed] {
			s += v
		}
		dst[i] = s
	}
}

// spread is sum backwards; nil is zeros.
func (p *Policy) spread(dst, src []float32) {
	if src == nil {
		clear(dst)
		return
	}
	for i := range dst {
		dst[i] = src[i/p.summed]
	}
}

// finite returns an error that names the first row with a log-prob or a value that is none.
func finite(logProb, value tensor.Tensor, n int) error {
	for _, t := range []struct {
		what string
		of   tensor.Tensor
	}{{"log-prob", logProb}, {"value", value}} {
		if t.of.IsZero() {
			continue
		}
		x := t.of.F32()
		for i, v := range x {
			if v-v != 0 {
				return fmt.Errorf("policy: forward: row %d: %s is %v: its observation, or the parameters, "+
					"are not finite", i*n/len(x), t.what, v)
			}
		}
	}
	return nil
}
