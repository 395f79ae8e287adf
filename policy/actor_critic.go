package policy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel/blas"
	"github.com/rlinf/rlinf/tensor"
)

// An ActorCritic chooses actions with one network, and estimates values with another network or with a second head on
// the same network. Both can read the features of images and words. With NewRNN, both are only heads on a recurrent
// layer. Discrete actions are categorical. Continuous actions are normally distributed, with a deviation that is
// constant or depends on the state (Config.UseSDE, Config.IndependentStd). The stored actions are unbounded; Act.Feed
// bounds them for the environment (Config.ActionBound).
type ActorCritic struct {
	obs    *observations
	action env.Space
	chunks int
	box    *unitBox // tanh squashes actions into this box; if nil, Act.Feed clips them
	net    *network[float32]
}

var _ Recurrent = (*ActorCritic)(nil)

// NewMLP is the Builder of mlp_policy, for observations of numbers and choices. It makes an ActorCritic, or with
// Config.AddQHead a SoftActor or a Greedy.
func NewMLP(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	if err := cfg.Valid(); err != nil {
		return nil, err
	}
	return build(cfg, spec, nil, seed, alloc)
}

// NewCNN is the Builder of cnn_policy, for observations with images. It makes an ActorCritic, or with Config.AddQHead a
// SoftActor or a Greedy, on the features of Config.Encoder, or of the Backbone in Config.Own.
func NewCNN(cfg Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (Policy, error) {
	if err := cfg.Valid(); err != nil {
		return nil, err
	}
	b, err := params.Get(cfg.Own, Backbone{})
	if err == nil && b.Applies(cfg) {
		cfg, err = b.configure(cfg, spec.Action)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: for %s: %w", spec.Name, err)
	}
	cfg.Encoder = cmp.Or(cfg.Encoder, NatureCNN)
	return build(cfg, spec, nil, seed, alloc)
}

// build makes the policy that cfg describes. cfg must be valid. If encoder is not nil, its layers compute the features.
func build(cfg Config, spec env.Spec, encoder *nn.Layer, seed uint64, alloc tensor.Allocator) (p Policy, err error) {
	switch {
	case !cfg.AddQHead:
		p, err = newActorCritic(cfg, spec, encoder, seed, alloc)
	case spec.Action.Kind != env.Box:
		p, err = newGreedy(cfg, spec, encoder, seed, alloc)
	default:
		p, err = newSoftActor(cfg, spec, encoder, seed, alloc)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: for %s: %w", spec.Name, err)
	}
	return p, nil
}

func newActorCritic(cfg Config, spec env.Spec, encoder *nn.Layer, seed uint64, alloc tensor.Allocator) (*ActorCritic,
	error) {
	params := newParams(cfg)
	obs, err := newObservations(spec, cfg, encoder, params)
	if err != nil {
		return nil, err
	}
	shape, err := shapeOf(spec.Action, cfg)
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	if cfg.UseSDE && shape.options != nil {
		return nil, errors.New("use_sde: true: expected false for discrete actions")
	}
	if shape.options != nil && !cfg.IndependentStd {
		return nil, errors.New("independent_std: false: expected true for discrete actions")
	}
	var box *unitBox
	if cfg.ActionBound == BoundTanh {
		b, err := newUnitBox(spec.Action)
		if err != nil {
			return nil, fmt.Errorf("action_bound: tanh: %w", err)
		}
		box = &b
	}
	p := &ActorCritic{obs: obs, action: spec.Action, chunks: cfg.NumActionChunks, box: box}
	if p.net, err = newNetwork(cfg, shape, params, obs.shape()); err != nil {
		return nil, err
	}
	for _, f := range spec.Obs {
		if p.HiddenLen() > 0 && (f.Name == HiddenState || f.Name == Begins) {
			return nil, fmt.Errorf("observation %q: a recurrent policy has an input of that name itself", f.Name)
		}
	}
	if err := params.Alloc(alloc); err != nil {
		return nil, err
	}
	obs.init()
	if !cfg.Blank {
		p.net.init(seed)
	}
	return p, nil
}

// newParams returns empty parameters. Layers with these parameters compute on cfg.Device, if there is one. Otherwise
// they compute with OpenBLAS if cfg.BLAS is set and the program contains OpenBLAS.
func newParams(cfg Config) *nn.Params[float32] {
	params := new(nn.Params[float32])
	if cfg.Device != nil {
		params.UseDevice(cfg.Device)
		return params
	}
	if cfg.BLAS && blas.Core() != "" {
		params.Use(nn.NewCPU(&nn.Products[float32]{Gemm: blas.Gemm, GemmTA: blas.GemmTA, GemmBias: blas.GemmBias}))
	}
	return params
}

// Spaces returns the fields of an observation and the space of actions.
func (p *ActorCritic) Spaces() ([]env.Field, env.Space) { return p.obs.fields, p.action }

// Cameras returns the cameras that p sees.
func (p *ActorCritic) Cameras() []Camera { return p.obs.images }

// Params returns the parameters, in the groups "shared", "actor" and "critic". Some groups may be missing.
func (p *ActorCritic) Params() *nn.Params[float32] { return p.net.params }

// work is the memory of one user of an ActorCritic.
type work struct {
	owner   *ActorCritic
	maxRows int
	obs     *obsWork
	net     *networkWork[float32]

	hidden                  tensor.Tensor // [maxRows,M]; the zero Tensor without a hidden state
	sequences               int           // rows of HiddenState in the last call
	action, bounded         tensor.Tensor // [maxRows,C,A]; bounded is the zero Tensor unless tanh squashes actions
	logProb, entropy, value tensor.Tensor // [maxRows,L], but value is [maxRows,V]
	evaluated               int           // rows of the last call if it was Evaluate, else 0
}

// NewWork returns a Work for at most maxRows rows at a time.
func (p *ActorCritic) NewWork(maxRows int) Work {
	w := &work{owner: p, maxRows: maxRows, obs: p.obs.newWork(maxRows), net: p.net.newWork(maxRows)}
	if m := p.HiddenLen(); m > 0 {
		w.hidden = tensor.New(tensor.F32, maxRows, m)
	}
	dtype := tensor.F32
	if p.action.Kind != env.Box {
		dtype = tensor.I32
	}
	levels := p.net.dims / p.net.summed
	w.action = tensor.New(dtype, maxRows, p.chunks, p.net.dims/p.chunks)
	if p.box != nil {
		w.bounded = tensor.New(dtype, maxRows, p.chunks, p.net.dims/p.chunks)
	}
	w.logProb = tensor.FromF32(w.net.logProb, maxRows, levels)
	w.entropy = tensor.FromF32(w.net.entropy, maxRows, levels)
	if p.net.critic != nil {
		w.value = tensor.FromF32(w.net.value, maxRows, p.net.critic.Out)
	}
	return w
}

// Forward implements Policy.
func (p *ActorCritic) Forward(wk Work, obs tensor.Dict, mode Mode, noise Noise) (Act, error) {
	w, x, n, err := p.begin(wk, obs)
	if err == nil && mode == Sample {
		err = noise.Check(n)
	}
	if err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	act := Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n), Value: w.values(n), Hidden: w.nextHidden()}
	p.net.forward(w.net, &x, actionsOf(act.Action), mode, noise)
	if p.box != nil {
		act.Bounded = w.bounded.Slice(0, n)
		p.net.params.Host().Activate(nn.Tanh, act.Bounded.F32(), act.Action.F32())
		p.box.fromUnit(act.Bounded.F32(), act.Bounded.F32())
	}
	if err := act.CheckFinite(); err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	return act, nil
}

// Squashes reports whether tanh brings actions within the bounds of the environment
// (Config.ActionBound). Log-probs describe the actions before tanh.
func (p *ActorCritic) Squashes() bool { return p.box != nil }

// Evaluate implements Policy.
func (p *ActorCritic) Evaluate(wk Work, obs tensor.Dict, action tensor.Tensor) (Eval, error) {
	w, x, n, err := p.begin(wk, obs)
	if err != nil {
		return Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	if err := p.checkAction(w, action, n); err != nil {
		return Eval{}, fmt.Errorf("policy: evaluate: %w", err)
	}
	p.net.evaluate(w.net, &x, actionsOf(action))
	w.evaluated = n
	return Eval{LogProb: w.logProb.Slice(0, n), Entropy: w.entropy.Slice(0, n), Value: w.values(n),
		Hidden: w.nextHidden()}, nil
}

// Value implements Policy. It returns an error if there is no critic.
func (p *ActorCritic) Value(wk Work, obs tensor.Dict) (tensor.Tensor, error) {
	if p.net.critic == nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: no critic: add_value_head is false")
	}
	w, x, n, err := p.begin(wk, obs)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("policy: value: %w", err)
	}
	p.net.values(w.net, &x)
	return w.values(n), nil
}

// Backward implements Policy. It calls ready for ranges from the end of the flat gradient to its beginning.
func (p *ActorCritic) Backward(wk Work, g Grad, ready func(lo, hi int)) error {
	w, err := p.own(wk)
	if err != nil {
		return fmt.Errorf("policy: backward: %w", err)
	}
	n := w.evaluated
	if n == 0 {
		return fmt.Errorf("policy: backward: the last call on this work was not an Evaluate")
	}
	if err := g.Check(Eval{LogProb: w.logProb, Entropy: w.entropy, Value: w.value}, n); err != nil {
		return fmt.Errorf("policy: backward: %w", err)
	}
	w.evaluated = 0
	p.net.backward(w.net, g.LogProb.F32(), g.Entropy.F32(), g.Value.F32(), ready)
	return nil
}

// HiddenLen implements Recurrent. It returns 0 if the policy has no recurrent cells.
func (p *ActorCritic) HiddenLen() int {
	if p.net.front == nil {
		return 0
	}
	return p.net.front.State
}

// StatsLen returns the length of sums in AddStats and MergeStats, or 0 if this policy does not normalise observations.
// Normalisation uses running statistics: the buffers obs.mean, obs.var and obs.count of Params(). They change once per
// iteration:
//
//	sums := make([]float64, p.StatsLen())
//	err := p.AddStats(sums, obs)             // for everything observed in this iteration
//	err = reducer.Sum(sums)                  // over the replicas
//	p.MergeStats(sums)                       // with equal sums on all replicas
func (p *ActorCritic) StatsLen() int { return p.obs.statsLen() }

// AddStats adds the statistics of obs to sums: the number of rows, then Σ(x-m) for each element, then Σ(x-m)² for each
// element. m is the current mean of the element.
func (p *ActorCritic) AddStats(sums []float64, obs tensor.Dict) error {
	if err := p.obs.add(sums, obs); err != nil {
		return fmt.Errorf("policy: observation statistics: %w", err)
	}
	return nil
}

// MergeStats updates the running statistics with sums.
func (p *ActorCritic) MergeStats(sums []float64) { p.obs.merge(sums) }

// begin checks the work and the observations, and returns the input of the network.
func (p *ActorCritic) begin(wk Work, obs tensor.Dict) (*work, batch[float32], int, error) {
	w, err := p.own(wk)
	if err != nil {
		return nil, batch[float32]{}, 0, err
	}
	w.evaluated = 0
	numbers, n, err := p.obs.read(w.obs, obs, w.maxRows)
	x, m := w.obs.batch(numbers, n), p.HiddenLen()
	if err != nil || m == 0 {
		return w, x, n, err
	}
	hidden, begins, err := hiddenState(obs, n, m)
	if err != nil {
		return w, x, n, err
	}
	w.sequences = hidden.Dim(0)
	x.Sequences, x.State, x.Next, x.Begins = w.sequences, hidden.F32(), w.hidden.F32(), begins
	return w, x, n, nil
}

func (p *ActorCritic) own(wk Work) (*work, error) {
	w, ok := wk.(*work)
	if !ok || w.owner != p {
		return nil, fmt.Errorf("work %T of another policy", wk)
	}
	return w, nil
}

func (p *ActorCritic) checkAction(w *work, action tensor.Tensor, n int) error {
	if !action.SameShape(w.action.Slice(0, n)) {
		return fmt.Errorf("action %v: expected %v", action, w.action.Slice(0, n))
	}
	if action.DType() != tensor.I32 {
		return nil
	}
	return p.obs.allows(w.obs, action)
}

func (w *work) values(n int) tensor.Tensor {
	if w.value.IsZero() {
		return tensor.Tensor{}
	}
	return w.value.Slice(0, n)
}

// nextHidden returns the hidden state after the rows of the last call.
func (w *work) nextHidden() tensor.Tensor {
	if w.hidden.IsZero() {
		return tensor.Tensor{}
	}
	return w.hidden.Slice(0, w.sequences)
}

func actionsOf(t tensor.Tensor) actions[float32] {
	if t.DType() == tensor.I32 {
		return actions[float32]{choice: t.I32()}
	}
	return actions[float32]{box: t.F32()}
}
