package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A SoftActor chooses bounded continuous actions. It draws from a normal distribution that depends on the observation,
// and squashes the result into the bounds by tanh (see squashed). Soft actor-critic trains a SoftActor with gradients
// with respect to new actions, not with log-probs of earlier actions.
//
//	act, err := p.Forward(w, obs, policy.Sample, noise)
//	err = p.Backward(w, policy.Grad{Action: …, LogProb: …}, ready)    // gradients with respect to Action and LogProb
//
// Imitation trains a SoftActor with the log-probs of demonstrated actions (Evaluate). Log-probs are densities of
// actions scaled to [-1, 1]. A chunk of actions has one log-prob.
type SoftActor struct {
	cfg    Config
	spec   env.Spec
	obs    *observations
	chunks int
	box    unitBox
	net    *squashed[float32]
}

var _ Policy = (*SoftActor)(nil)

func newSoftActor(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (*SoftActor, error) {
	params := newParams(cfg)
	obs, err := newObservations(spec, cfg, nil, params)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(spec.Action, cfg)
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	box, err := newUnitBox(spec.Action)
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	p := &SoftActor{cfg: cfg, spec: spec, obs: obs, chunks: cfg.NumActionChunks, box: box,
		net: newSquashed(cfg, shape.dims, params, obs.width)}
	if err := params.Alloc(alloc); err != nil {
		return nil, err
	}
	if !cfg.Blank {
		p.net.init(seed)
	}
	return p, nil
}

// Spaces returns the fields of an observation and the space of actions.
func (p *SoftActor) Spaces() ([]env.Field, env.Space) { return p.obs.fields, p.spec.Action }

// Params returns the parameters, in one group, "actor".
func (p *SoftActor) Params() *nn.Params[float32] { return p.net.params }

// Noisy reports whether an action is a deterministic function of the observation, plus noise (Config.ExplorationNoise).
// If so, Backward must follow a Forward in mode Deterministic.
func (p *SoftActor) Noisy() bool { return p.cfg.ExplorationNoise > 0 }

// QHeadType returns Config.QHeadType, the kind of network of actor and critics.
func (p *SoftActor) QHeadType() string { return p.cfg.QHeadType }

// NewCritic returns a critic for the same observations and actions. Its initial parameters depend on
// seed alone.
func (p *SoftActor) NewCritic(seed uint64, alloc tensor.Allocator) (*Critic, error) {
	return newCritic(p.cfg, p.spec, p.cfg.NumActionChunks*p.spec.Action.Dim(), p.box, seed, alloc)
}

// NewValue returns a critic that values observations without actions. It has one head.
func (p *SoftActor) NewValue(seed uint64, alloc tensor.Allocator) (*Critic, error) {
	cfg := p.cfg
	cfg.NumQHeads, cfg.QHeadType = 1, QHeadDefault
	return newCritic(cfg, p.spec, 0, p.box, seed, alloc)
}

// NewTarget returns a target network: a policy like p with its own copy of p's parameters.
func (p *SoftActor) NewTarget(alloc tensor.Allocator) (*SoftActor, error) {
	t, err := build(p.cfg, p.spec, nil, 0, alloc)
	if err != nil {
		return nil, err
	}
	copy(t.Params().State(), p.Params().State())
	return t.(*SoftActor), nil
}

// softWork is the memory of one user of a SoftActor.
type softWork struct {
	owner   *SoftActor
	maxRows int
	obs     *obsWork
	net     *squashedWork[float32]
	action  tensor.Tensor // [maxRows,C,A]
	logProb tensor.Tensor // [maxRows,1]
	dUnit   []float32     // [maxRows,C·A]: actions in [-1, 1], or their gradients

	chosen, evaluated int // rows of the last call if it was Forward or Evaluate, else 0
}

// NewWork returns a Work for at most maxRows rows at a time.
func (p *SoftActor) NewWork(maxRows int) Work {
	dims := p.net.dims
	net := p.net.newWork(maxRows)
	return &softWork{
		owner: p, maxRows: maxRows, obs: p.obs.newWork(maxRows), net: net, logProb: tensor.FromF32(net.logProb, maxRows,
			1),
		action: tensor.New(tensor.F32, maxRows, p.chunks, dims/p.chunks), dUnit: nn.Vector[float32](maxRows * dims),
	}
}

// Forward implements Policy; mode Deterministic chooses the tanh of the mean.
func (p *SoftActor) Forward(wk Work, obs tensor.Dict, mode Mode, noise Noise) (Act, error) {
	return p.forward(wk, obs, mode, noise, false)
}

// ForwardBatch is Forward in mode Sample. If p normalises (StatsLen), ForwardBatch uses the statistics of the rows of
// obs.
func (p *SoftActor) ForwardBatch(wk Work, obs tensor.Dict, noise Noise) (Act, error) {
	return p.forward(wk, obs, Sample, noise, true)
}

func (p *SoftActor) forward(wk Work, obs tensor.Dict, mode Mode, noise Noise, batch bool) (Act, error) {
	w, x, n, err := p.begin(wk, obs)
	if err == nil && mode == Sample {
		err = noise.Check(n)
	}
	if err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	p.net.forward(w.net, x, n, mode, noise, batch)
	act := Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n)}
	p.box.fromUnit(act.Action.F32(), w.net.a[:n*p.net.dims])
	if err := act.CheckFinite(); err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	if mode == Deterministic || !p.Noisy() {
		w.chosen = n
	}
	return act, nil
}

// begin checks the work and the observations, and returns the input of the network.
func (p *SoftActor) begin(wk Work, obs tensor.Dict) (*softWork, []float32, int, error) {
	w, ok := wk.(*softWork)
	if !ok || w.owner != p {
		return nil, nil, 0, fmt.Errorf("work %T of another policy", wk)
	}
	w.chosen, w.evaluated = 0, 0
	x, n, err := p.obs.read(w.obs, obs, w.maxRows)
	return w, x, n, err
}

// Evaluate implements Policy without the entropy, which has no closed form. It moves actions at the bounds of the box
// slightly inward. If p is Noisy, Evaluate returns an error, because actions have no log-prob.
func (p *SoftActor) Evaluate(wk Work, obs tensor.Dict, action tensor.Tensor) (Eval, error) {
	w, x, n, err := p.begin(wk, obs)
	if err != nil {
		return Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	if p.Noisy() {
		return Eval{}, fmt.Errorf("policy: evaluate: with exploration_noise actions have no log-probs")
	}
	if !action.SameShape(w.action.Slice(0, n)) {
		return Eval{}, fmt.Errorf("policy: evaluate: action %v: expected %v", action, w.action.Slice(0, n))
	}
	unit := w.dUnit[:n*p.net.dims]
	p.box.toUnit(unit, action.F32())
	p.net.evaluate(w.net, x, unit, n)
	w.evaluated = n
	return Eval{LogProb: w.logProb.Slice(0, n)}, nil
}

// StatsLen returns the length of sums in AddStats and MergeStats, or 0 if this actor does not normalise. An actor
// normalises only if Config.QHeadType is crossq. The running statistics change once per update, as in a Critic.
func (p *SoftActor) StatsLen() int { return p.net.net.StatsLen() }

// AddStats adds to sums the number of batches that wk has seen in calls of ForwardBatch since the last
// AddStats, and the sums of the means and variances of these batches.
func (p *SoftActor) AddStats(sums []float64, wk Work) {
	p.net.net.AddStats(sums, wk.(*softWork).net.net)
}

// MergeStats updates the running statistics with sums.
func (p *SoftActor) MergeStats(sums []float64) { p.net.net.MergeStats(sums) }

// Value returns an error, because the critic of a SoftActor values actions, not states.
func (p *SoftActor) Value(Work, tensor.Dict) (tensor.Tensor, error) {
	return tensor.Tensor{}, fmt.Errorf("policy: value: no critic of states: add_value_head is false")
}

// Backward adds the gradient of a loss. g is the gradient of the loss with respect to Action and LogProb of the last
// Forward, or with respect to LogProb of the last Evaluate.
func (p *SoftActor) Backward(wk Work, g Grad, ready func(lo, hi int)) error {
	w, ok := wk.(*softWork)
	if !ok || w.owner != p {
		return fmt.Errorf("policy: backward: work %T of another policy", wk)
	}
	n, evaluated := w.chosen+w.evaluated, w.evaluated > 0
	switch {
	case n == 0:
		return fmt.Errorf("policy: backward: the last call on this work was neither a Forward nor an Evaluate")
	case evaluated && (!g.Action.IsZero() || g.LogProb.IsZero()):
		return fmt.Errorf("policy: backward: after Evaluate only the derivative by log-probs counts")
	case !g.Entropy.IsZero() || !g.Value.IsZero():
		return fmt.Errorf("policy: backward: derivatives by entropy or value: a policy with add_q_head has neither")
	case p.Noisy() && (g.Action.IsZero() || !g.LogProb.IsZero()):
		return fmt.Errorf("policy: backward: a policy with exploration_noise learns by its actions alone")
	case !g.Action.IsZero() && !g.Action.SameShape(w.action.Slice(0, n)):
		return fmt.Errorf("policy: backward: derivative by action %v of %d rows of %v", g.Action, n, w.action)
	case !g.LogProb.IsZero() && g.LogProb.Len() != n:
		return fmt.Errorf("policy: backward: derivative by log-prob %v: expected F32[%d 1]", g.LogProb, n)
	}
	if w.chosen, w.evaluated = 0, 0; evaluated {
		p.net.backwardEvaluate(w.net, g.LogProb.F32(), ready)
		return nil
	}
	var dUnit []float32
	if !g.Action.IsZero() {
		dUnit = w.dUnit[:g.Action.Len()]
		for i, d := range g.Action.F32() {
			dUnit[i] = d * p.box.half[i%len(p.box.half)]
		}
	}
	p.net.backward(w.net, dUnit, g.LogProb.F32(), ready)
	return nil
}
