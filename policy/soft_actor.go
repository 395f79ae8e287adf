package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A SoftActor chooses bounded continuous actions. It draws from a normal distribution that depends on the observation,
// and squashes the result into the bounds by tanh (see squashed). Soft actor-critic trains a SoftActor by gradients
// with respect to newly drawn actions, not by log-probs of earlier actions.
//
//	act, err := p.Forward(w, obs, policy.Sample, noise)
//	err = p.Backward(w, policy.Grad{Action: …, LogProb: …}, ready)    // gradients with respect to Action and LogProb
//
// Imitation trains a SoftActor with the log-probs of demonstrated actions (Evaluate). Log-probs are densities of
// actions scaled to [-1, 1]. A chunk of actions has one log-prob.
//
// With Config.Encoder, a SoftActor reads the features of an Encoder. All methods take either the observations or only
// Features. If a method got the observations, the gradient passes to the Encoder.
type SoftActor struct {
	cfg     Config
	spec    env.Spec
	obs     *observations
	encoder *Encoder // nil if the network reads the observations
	chunks  int
	box     unitBox
	net     *squashed[float32]
}

var (
	_ Policy      = (*SoftActor)(nil)
	_ Augmenter   = (*SoftActor)(nil)
	_ FileChecker = (*SoftActor)(nil)
)

func newSoftActor(cfg Config, spec env.Spec, own *nn.Layer, seed uint64, alloc tensor.Allocator) (*SoftActor, error) {
	p := &SoftActor{cfg: cfg, spec: spec, chunks: cfg.NumActionChunks}
	params := newParams(cfg)
	width, err := p.observe(own, params)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(spec.Action, cfg)
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	if p.box, err = newUnitBox(spec.Action); err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	p.net = newSquashed(cfg, shape.dims, params, width)
	if err := params.Alloc(alloc); err != nil {
		return nil, err
	}
	if cfg.Blank {
		return p, nil
	}
	if p.encoder != nil {
		p.encoder.net.Init(seed)
	}
	p.net.init(seed)
	return p, nil
}

// observe sets p.obs and, if there are features to compute, p.encoder. It returns the width of the rows that the
// network reads.
func (p *SoftActor) observe(own *nn.Layer, params *nn.Params[float32]) (width int, err error) {
	if p.cfg.Encoder == "" && own == nil {
		if p.obs, err = newObservations(p.spec, p.cfg, nil, params); err != nil {
			return 0, err
		}
		return p.obs.width, nil
	}
	if p.encoder, err = newSharedEncoder(p.cfg, p.spec, own, nil, params); err != nil {
		return 0, err
	}
	p.obs = p.encoder.obs
	for _, f := range p.spec.Obs {
		if f.Name == Features {
			return 0, fmt.Errorf("observation %q: a policy with an encoder has an input of that name itself", f.Name)
		}
	}
	return p.encoder.Width(), nil
}

// Spaces returns the fields of an observation and the space of actions.
func (p *SoftActor) Spaces() ([]env.Field, env.Space) { return p.obs.fields, p.spec.Action }

// Params returns the parameters, in the group "actor", after a group "encoder" if there is one.
func (p *SoftActor) Params() *nn.Params[float32] { return p.net.params }

// Noisy reports whether an action is a deterministic function of the observation to which exploration adds noise
// (Config.ExplorationNoise). If so, Backward must follow a Forward in mode Deterministic.
func (p *SoftActor) Noisy() bool { return p.cfg.ExplorationNoise > 0 }

// QHeadType returns Config.QHeadType, the kind of network of actor and critics.
func (p *SoftActor) QHeadType() string { return p.cfg.QHeadType }

// Encoder returns the encoder, or nil if the network reads the observations.
func (p *SoftActor) Encoder() *Encoder { return p.encoder }

// Cameras returns the cameras that p sees.
func (p *SoftActor) Cameras() []Camera { return p.obs.images }

// CheckFiles returns an error if the weights of frozen layers cannot be read, or do not fit.
func (p *SoftActor) CheckFiles() error {
	if p.encoder == nil || p.encoder.frozen == nil {
		return nil
	}
	return p.encoder.frozen.load()
}

// Augment turns dropout on for the next call with wk; see Augmenter.
func (p *SoftActor) Augment(wk Work, noise Noise) {
	if w := wk.(*softWork); w.encoder != nil {
		w.encoder.Drop = nn.Drop{On: true, Seed: noise.Seed, First: noise.Env[0]<<40 + noise.Step[0]}
	}
}

// NewCritic returns a critic for the same observations and actions, or for Features if p has an Encoder. Its initial
// parameters depend on seed alone.
func (p *SoftActor) NewCritic(seed uint64, alloc tensor.Allocator) (*Critic, error) {
	cfg, spec := p.behindEncoder()
	return newCritic(cfg, spec, p.cfg.NumActionChunks*p.spec.Action.Dim(), p.box, seed, alloc)
}

// NewValue returns a critic that values observations without actions. It has one head.
func (p *SoftActor) NewValue(seed uint64, alloc tensor.Allocator) (*Critic, error) {
	cfg, spec := p.behindEncoder()
	cfg.NumQHeads, cfg.QHeadType = 1, QHeadDefault
	return newCritic(cfg, spec, 0, p.box, seed, alloc)
}

// NewTarget returns a target network: a policy like p with its own copy of p's parameters. If p has an Encoder, the
// target network takes Features, and has no Encoder.
func (p *SoftActor) NewTarget(alloc tensor.Allocator) (*SoftActor, error) {
	cfg, spec := p.behindEncoder()
	t, err := newSoftActor(cfg, spec, nil, 0, alloc)
	if err != nil {
		return nil, fmt.Errorf("policy: target for %s: %w", spec.Name, err)
	}
	t.Follow(p)
	return t, nil
}

// behindEncoder returns the configuration and the observations for networks with the same input as the network of p.
func (p *SoftActor) behindEncoder() (Config, env.Spec) {
	cfg, spec := p.cfg, p.spec
	if p.encoder != nil {
		cfg.Encoder, cfg.ObsDim, cfg.StateDim, cfg.ImageNum = "", 0, 0, 0
		spec.Obs = []env.Field{{Name: Features, Space: env.Space{Kind: env.Box, DType: tensor.F32,
			Shape: []int{p.encoder.Width()}}}}
	}
	return cfg, spec
}

// Follow sets the parameters of p, a target network, to those of another policy.
func (p *SoftActor) Follow(from *SoftActor) {
	copy(p.Data(), from.Data())
	p.Params().Buffers.CopyFrom(from.Params().Buffers)
}

// Data returns the parameters of the group "actor".
func (p *SoftActor) Data() []float32 {
	g := p.net.params.Groups[len(p.net.params.Groups)-1]
	return p.net.params.Data[g.Lo:g.Hi]
}

// softWork is the memory of one user of a SoftActor.
type softWork struct {
	owner   *SoftActor
	maxRows int
	obs     *obsWork // nil if there is an Encoder
	net     *squashedWork[float32]
	action  tensor.Tensor // [maxRows,C,A]
	logProb tensor.Tensor // [maxRows,1]
	dUnit   []float32     // [maxRows,C·A]: actions in [-1, 1], or their gradients

	encoder             *EncoderWork // nil if the work takes only Features
	features, dFeatures []float32    // [maxRows,F]: the features of observations, and their gradient
	encoded             bool         // the last call got observations, and there is an Encoder
	chosen, evaluated   int          // rows of the last call if it was Forward or Evaluate, else 0
}

// NewWork returns a Work for at most maxRows rows at a time.
func (p *SoftActor) NewWork(maxRows int) Work {
	w := p.NewFeatureWork(maxRows).(*softWork)
	if p.encoder != nil {
		w.encoder = p.encoder.NewWork(maxRows, maxRows)
		w.features = nn.Vector[float32](maxRows * p.encoder.Width())
		w.dFeatures = nn.Vector[float32](maxRows * p.encoder.Width())
	}
	return w
}

// NewFeatureWork is NewWork for a Work that takes only Features, if p has an Encoder. Such a Work needs less memory.
func (p *SoftActor) NewFeatureWork(maxRows int) Work {
	dims := p.net.dims
	net := p.net.newWork(maxRows)
	w := &softWork{
		owner: p, maxRows: maxRows, net: net, logProb: tensor.FromF32(net.logProb, maxRows, 1),
		action: tensor.New(tensor.F32, maxRows, p.chunks, dims/p.chunks), dUnit: nn.Vector[float32](maxRows * dims),
	}
	if p.encoder == nil {
		w.obs = p.obs.newWork(maxRows)
	}
	return w
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
	w.chosen, w.evaluated, w.encoded = 0, 0, false
	if p.encoder == nil {
		x, n, err := p.obs.read(w.obs, obs, w.maxRows)
		return w, x, n, err
	}
	if f, ok := obs.Get(Features); ok {
		if f.DType() != tensor.F32 || f.Rank() != 2 || f.Dim(1) != p.encoder.Width() || f.Dim(0) > w.maxRows {
			return nil, nil, 0, fmt.Errorf("%s %v: expected F32[N %d], at most %d rows", Features, f, p.encoder.Width(),
				w.maxRows)
		}
		return w, f.F32(), f.Dim(0), nil
	}
	if w.encoder == nil {
		return nil, nil, 0, fmt.Errorf("observations %v: expected %s for this work", obs, Features)
	}
	n, err := p.encoder.Encode(w.encoder, w.features, obs)
	w.encoded, w.encoder.Drop = true, nn.Drop{}
	return w, w.features[:n*p.encoder.Width()], n, err
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
	var dFeatures []float32
	if w.encoded {
		dFeatures = w.dFeatures[:n*p.encoder.Width()]
	}
	if w.chosen, w.evaluated = 0, 0; evaluated {
		p.net.backwardEvaluate(w.net, g.LogProb.F32(), dFeatures, ready)
	} else {
		p.net.backward(w.net, p.unitGrad(w, g.Action), g.LogProb.F32(), dFeatures, ready)
	}
	if w.encoded {
		p.encoder.Backward(w.encoder, dFeatures, ready)
	}
	return nil
}

// unitGrad returns the gradient with respect to actions in [-1, 1], or nil if dAction is the zero Tensor.
func (p *SoftActor) unitGrad(w *softWork, dAction tensor.Tensor) []float32 {
	if dAction.IsZero() {
		return nil
	}
	dUnit := w.dUnit[:dAction.Len()]
	for i, d := range dAction.F32() {
		dUnit[i] = d * p.box.half[i%len(p.box.half)]
	}
	return dUnit
}
