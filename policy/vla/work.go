package vla

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// work is the policy.Work of one user. Forward and Value compute a few rows at a time, and keep no activations.
// Evaluate computes all rows at once, in memory that the first Evaluate allocates.
type work struct {
	owner    *Policy
	maxRows  int
	reader   *reader
	acting   *pass
	training *pass // nil before the first Evaluate

	action                   tensor.Tensor   // [maxRows,C,A]
	logProb, entropy         tensor.Tensor   // [maxRows,L]
	value                    tensor.Tensor   // [maxRows,V]; the zero Tensor without a critic
	latent                   tensor.Tensor   // [maxRows,K]; the zero Tensor without chains
	dimLogProb, dimEntropy   []float32       // [maxRows,C·A]
	dDimLogProb, dDimEntropy []float32       // the gradients of dimLogProb and dimEntropy
	auxiliary                *auxiliary      // nil without an auxiliary prediction
	streams                  []philox.Stream // random numbers for the rows of the acting pass

	augment   policy.Noise // for the next Evaluate; not used if Env is empty
	evaluated int          // rows of the last call if it was Evaluate, else 0
	predicted bool         // whether the log-probs of the last call include the auxiliary prediction
}

// actingRows is the largest number of rows that Forward and Value compute at a time.
const actingRows = 32

// NewWork returns a Work for at most maxRows rows at a time.
func (p *Policy) NewWork(maxRows int) policy.Work {
	perDim := func() []float32 { return nn.Vector[float32](maxRows * p.dims) }
	logProbs, r := p.dims/p.dimsPerLogProb, newReader(p.tokenizer, p.own.MaxPrompt)
	w := &work{
		owner: p, maxRows: maxRows, reader: r, acting: p.newPass(min(maxRows, actingRows), r, false),
		action:     tensor.New(tensor.F32, maxRows, p.cfg.NumActionChunks, p.actions.dims),
		logProb:    tensor.New(tensor.F32, maxRows, logProbs),
		entropy:    tensor.New(tensor.F32, maxRows, logProbs),
		dimLogProb: perDim(), dimEntropy: perDim(), dDimLogProb: perDim(), dDimEntropy: perDim(),
		streams: make([]philox.Stream, actingRows),
	}
	if p.observed.predicted > 0 {
		w.auxiliary = newAuxiliary(p, maxRows, logProbs)
	}
	if k := p.LatentLen(); k > 0 {
		w.latent = tensor.New(tensor.F32, maxRows, k)
	}
	if p.critic != nil {
		w.value = tensor.New(tensor.F32, maxRows, p.critic.Out)
	}
	return w
}

// Forward implements policy.Policy. Mode Sample draws actions at the temperature of training. If the temperature of
// evaluation is 0, mode Deterministic takes the most likely actions. Otherwise it draws actions at this temperature.
func (p *Policy) Forward(wk policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act, error) {
	w, n, err := p.begin(wk, obs)
	if err != nil {
		return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	s := sampling{temperature: p.cfg.Temperature, training: mode == policy.Sample, streams: w.streams}
	if mode == policy.Deterministic {
		s.temperature = p.cfg.EvalTemperature
	}
	if s.temperature > 0 {
		if err := noise.Check(n); err != nil {
			return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
		}
	}
	act := policy.Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n), Value: rows(w.value, 0, n),
		Latent: rows(w.latent, 0, n)}
	x, d := w.acting, p.dims
	err = w.act(obs, n, x.iterative == nil, func(lo, hi int) error {
		for row := lo; row < hi && s.temperature > 0; row++ {
			s.streams[row-lo] = noise.Stream(row)
		}
		return x.head.choose(x, act.Action.F32()[lo*d:hi*d], w.dimLogProb[lo*d:hi*d], rows(w.latent, lo, hi).F32(), s)
	})
	if err != nil {
		return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	p.sum(act.LogProb.F32(), w.dimLogProb)
	if err := act.CheckFinite(); err != nil {
		return policy.Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	return act, nil
}

// act runs the acting pass over n rows of obs, in batches of at most w.acting.rows rows, and sets w.value. After each
// batch it calls visit with the rows [lo, hi) of this batch.
func (w *work) act(obs tensor.Dict, n int, slots bool, visit func(lo, hi int) error) error {
	for lo := 0; lo < n; lo += w.acting.rows {
		hi := min(lo+w.acting.rows, n)
		if err := w.acting.forward(batch{obs: obs, lo: lo, n: hi - lo, slots: slots}); err != nil {
			return err
		}
		w.acting.values(rows(w.value, lo, hi).F32())
		if err := visit(lo, hi); err != nil {
			return err
		}
	}
	return nil
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
	if w.training == nil {
		w.training = p.newPass(w.maxRows, w.reader, true)
	}
	x, b := w.training, batch{obs: obs, n: n, slots: true, action: action.F32(), augment: w.augment}
	w.augment = policy.Noise{}
	if err := x.forward(b); err != nil {
		return policy.Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	x.head.evaluate(w.dimLogProb, w.dimEntropy, x.slots, b.action, n)
	e := policy.Eval{LogProb: w.logProb.Slice(0, n), Entropy: w.entropy.Slice(0, n), Value: rows(w.value, 0, n)}
	p.sum(e.LogProb.F32(), w.dimLogProb)
	p.sum(e.Entropy.F32(), w.dimEntropy)
	goal, demonstrated := obs.Get(policy.Goal)
	if w.predicted = demonstrated && w.auxiliary != nil; w.predicted {
		if e.LogProb, err = w.auxiliary.evaluate(x.features, e.LogProb, goal); err != nil {
			return policy.Eval{}, fmt.Errorf("policy: evaluate: %w", err)
		}
	}
	x.values(e.Value.F32())
	w.evaluated = n
	return e, nil
}

// Augment sets the noise from which the next Evaluate on wk draws a part of each image, if image_crop is less than 1.
// See policy.Augmenter.
func (p *Policy) Augment(wk policy.Work, noise policy.Noise) {
	if w, ok := wk.(*work); ok {
		w.augment = noise
	}
}

// Value implements policy.Policy. It returns an error if there is no critic.
func (p *Policy) Value(wk policy.Work, obs tensor.Dict) (tensor.Tensor, error) {
	if p.critic == nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: no critic: add_value_head is false")
	}
	w, n, err := p.begin(wk, obs)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: %w", err)
	}
	if err := w.act(obs, n, false, func(int, int) error { return nil }); err != nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: %w", err)
	}
	return w.value.Slice(0, n), nil
}

// Backward implements policy.Policy. It calls ready for ranges from the end of the flat gradient to its beginning.
func (p *Policy) Backward(wk policy.Work, g policy.Grad, ready func(lo, hi int)) error {
	w, ok := wk.(*work)
	if !ok || w.owner != p {
		return fmt.Errorf("policy: backward: work %T of another policy", wk)
	}
	n := w.evaluated
	if n == 0 {
		return fmt.Errorf("policy: backward: the last call on this work was not an Evaluate")
	}
	of := policy.Eval{LogProb: w.logProb, Entropy: w.entropy, Value: w.value}
	if w.predicted {
		of.LogProb = w.auxiliary.logProb
	}
	if err := g.Check(of, n); err != nil {
		return fmt.Errorf("policy: backward: %w", err)
	}
	w.evaluated = 0
	var dPrediction []float32
	if w.predicted && !g.LogProb.IsZero() {
		g.LogProb, dPrediction = w.auxiliary.split(g.LogProb)
	}
	p.spread(w.dDimLogProb[:n*p.dims], g.LogProb.F32())
	p.spread(w.dDimEntropy[:n*p.dims], g.Entropy.F32())
	if ready == nil {
		ready = func(int, int) {}
	}
	w.training.backward(w.dDimLogProb, w.dDimEntropy, g.Value.F32(), dPrediction, ready)
	return nil
}

// begin checks work and observations, and returns the number of rows.
func (p *Policy) begin(wk policy.Work, obs tensor.Dict) (*work, int, error) {
	w, ok := wk.(*work)
	if !ok || w.owner != p {
		return nil, 0, fmt.Errorf("work %T of another policy", wk)
	}
	w.evaluated = 0
	n, err := policy.Rows(p.observed.fields, obs, w.maxRows)
	return w, n, err
}

// rows returns the rows [lo, hi) of t. If t is the zero Tensor, rows returns t.
func rows(t tensor.Tensor, lo, hi int) tensor.Tensor {
	if t.IsZero() {
		return t
	}
	return t.Slice(lo, hi)
}

// sum sets dst, [n,L], to the sums over the dimensions of each log-prob in src, [n,C·A].
func (p *Policy) sum(dst, src []float32) {
	for i := range dst {
		var s float32
		for _, v := range src[i*p.dimsPerLogProb : (i+1)*p.dimsPerLogProb] {
			s += v
		}
		dst[i] = s
	}
}

// spread is the backward pass of sum. It copies the gradient of each log-prob, in src [n,L], to all dimensions of this
// log-prob, in dst [n,C·A]. A nil src means zeros.
func (p *Policy) spread(dst, src []float32) {
	if src == nil {
		clear(dst)
		return
	}
	for i := range dst {
		dst[i] = src[i/p.dimsPerLogProb]
	}
}
