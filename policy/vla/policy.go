package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Policy sees, reads and acts; see the package.
//
// Its parameters are in the groups vision (what makes tokens of images and numbers), shared (the
// trunk, places of tokens, and slots), actor (the action head) and critic.
type Policy struct {
	cfg     policy.Config
	own     Config
	senses  *senses
	actions *actions
	params  *nn.Params[float32]
	words   *tokenizer.Tokenizer // of the trunk's folder; nil: the built-in tokenizer

	net              *nn.Net[float32] // of images and numbers, [tokens·d + guesses]
	trunk            *lm.Model
	positions, slots int       // fields: [tokens, d] and [C·A, d]
	previous         int       // field [bins+2, d], what came before a slot; 0: slots are computed at once
	flow             *flowHead // nil: another head
	head             head
	criticTrunk      *nn.MLP[float32]
	criticHead       *nn.Linear[float32] // nil without a critic

	d       int // width of the trunk
	count   int // dimensions of a chunk, C·A
	slotted int // slots of a row: one for each dimension, or with flow for each action
	summed  int // dimensions in one log-prob
	visions int // fields of the group vision
	learnt  [2]int
}

var (
	_ policy.Policy    = (*Policy)(nil)
	_ policy.Fitter    = (*Policy)(nil)
	_ policy.Augmenter = (*Policy)(nil)
	_ policy.Denoiser  = (*Policy)(nil)
	_ policy.Foreseer  = (*Policy)(nil)
)

// A head turns the hidden states of slots into actions and their log-probs, and back.
type head interface {
	init(seed uint64)
	newWork(rows int) headWork
	fields() (lo, hi int) // its part of the flat gradient
}

// A headWork is one user's memory of a head. Slots h are [n·C·A, d], actions, log-probs and
// entropies [n, C·A].
type headWork interface {
	// evaluate sets logProb and entropy, and keeps what backward needs.
	evaluate(logProb, entropy, h, action []float32, n int)
	// backward adds to the gradients of the head, and sets dh, given the derivatives by log-probs and
	// entropies of the last evaluate.
	backward(dh, dLogProb, dEntropy []float32, n int)
}

// A chooser is a headWork of slots that are computed at once: choose sets action to what they say,
// and logProb to its log-probs.
type chooser interface {
	choose(action, logProb, h []float32, n int, t draws)
}

// draws says how actions are chosen: greedily where temperature is 0, or by numbered noise, of
// which row is the first.
type draws struct {
	temperature float64
	noise       policy.Noise
	row         int
	training    bool
}

// New is the builder of vla_policy.
func New(cfg policy.Config, own Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
	p, err := newPolicy(cfg, own, spec, seed, alloc)
	if err != nil {
		return nil, fmt.Errorf("policy: vla_policy for %s: %w", spec.Name, err)
	}
	return p, nil
}

func newPolicy(cfg policy.Config, own Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (*Policy, error) {
	if err := unused(&cfg, &own); err != nil {
		return nil, err
	}
	p := &Policy{cfg: cfg, own: own, params: new(nn.Params[float32])}
	var err error
	if p.senses, err = newSenses(spec, &own); err != nil {
		return nil, err
	}
	if p.actions, err = newActions(spec.Action, &own, p.params); err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	if n := cfg.ActionDim; n != 0 && n != p.actions.dims {
		return nil, fmt.Errorf("action_dim: %d: expected %d", n, p.actions.dims)
	}
	p.senses.declare(p.params)
	sizes, err := p.sizes()
	if err != nil {
		return nil, err
	}
	if own.VisionFiLM || own.VisionWords {
		p.senses.places, p.senses.vocabulary = own.MaxPrompt, sizes.Vocab
	}
	p.d, p.count = sizes.Hidden, cfg.NumActionChunks*p.actions.dims
	p.slotted = p.count
	if own.ActionHead == Flow {
		p.slotted = cfg.NumActionChunks
	}
	p.summed, _ = cfg.Summed(p.actions.dims)

	p.params.Group("vision")
	layer, err := p.senses.network(&own, p.d)
	if err != nil {
		return nil, err
	}
	if p.net, err = nn.NewNet(p.params, "vision", layer, p.senses.sources()); err != nil {
		return nil, err
	}
	p.params.Groups[0].Trainable = !own.FreezeVision
	p.visions = len(p.params.Fields)
	p.params.Group("shared")
	if p.trunk, err = lm.New(p.params, sizes, own.options()); err != nil {
		return nil, err
	}
	p.positions = p.params.Add("positions", p.senses.tokens, p.d)
	p.slots = p.params.Add("slots", p.slotted, p.d)
	last := p.slots
	if own.ActionHead == TokensAutoregressive {
		p.previous = p.params.Add("previous", p.actions.bins+2, p.d)
		last = p.previous
	}
	if own.ActionHead == Flow {
		p.flow = newFlowHead(p)
		last = len(p.params.Fields) - 1
	}
	p.params.Group("actor")
	switch own.ActionHead {
	case L1:
		p.head = newL1Head(p, "actor")
	case Flow:
		p.flow.out = nn.NewLinear(p.params, "actor.head", p.d, p.actions.dims)
		p.head = p.flow
	default:
		p.head = newTokensHead(p, "actor")
	}
	if cfg.AddValueHead {
		p.params.Group("critic")
		f := nn.Tanh
		if cfg.Activation == "relu" {
			f = nn.ReLU
		}
		p.criticTrunk = nn.NewMLP(p.params, "critic", p.d, cfg.HiddenSizes, f)
		p.criticHead = nn.NewLinear(p.params, "critic.head", p.criticTrunk.Out, cfg.Values())
	}
	if err := p.trunk.Alloc(alloc); err != nil {
		return nil, err
	}
	p.learnt[0], p.learnt[1] = p.params.Range(p.visions, last)
	return p, p.init(seed)
}

// unused refuses keys of other policies and of other action heads, which would have no effect.
func unused(c *policy.Config, own *Config) error {
	if err := c.Valid(); err != nil {
		return err
	}
	d := policy.DefaultConfig()
	for _, k := range []struct {
		key       string
		got, want any
	}{
		{"encoder", c.Encoder, d.Encoder}, {"obs_dim", c.ObsDim, d.ObsDim},
		{"share_trunk", c.ShareTrunk, d.ShareTrunk}, {"add_q_head", c.AddQHead, d.AddQHead},
		{"use_sde", c.UseSDE, d.UseSDE}, {"learn_std", c.LearnStd, d.LearnStd},
		{"independent_std", c.IndependentStd, d.IndependentStd}, {"action_bound", c.ActionBound, d.ActionBound},
		{"normalize_observations", c.NormalizeObservations, d.NormalizeObservations},
	} {
		if k.got != k.want {
			return fmt.Errorf("%s: %v: expected none (vla_policy)", k.key, k.got)
		}
	}
	switch h := own.ActionHead; {
	case (h == L1 || h == Flow) && c.Temperature != 1:
		return fmt.Errorf("rollout.sampling_params.temperature_train: %v: expected 1 (action_head %s has no logits)",
			c.Temperature, h)
	case h == L1 && c.EvalTemperature != 0:
		return fmt.Errorf("rollout.sampling_params.temperature_eval: %v: expected 0 (action_head %s does not draw)",
			c.EvalTemperature, h)
	}
	return nil
}

// sizes returns those of the trunk, and reads the tokenizer of its folder.
func (p *Policy) sizes() (lm.Config, error) {
	if p.own.ModelPath == "" {
		sizes := p.own.trunk(vocabulary())
		if sizes.Hidden%(2*sizes.Heads) != 0 {
			return sizes, fmt.Errorf("num_attention_heads: %d: expected a number that divides half of hidden_size, %d",
				sizes.Heads, sizes.Hidden)
		}
		return sizes, nil
	}
	sizes, err := hf.ReadConfig(p.own.ModelPath)
	if err != nil {
		return sizes, fmt.Errorf("model_path: %w", err)
	}
	if p.words, err = tokenizer.Load(p.own.ModelPath); err != nil {
		return sizes, fmt.Errorf("model_path: %w", err)
	}
	if n := p.words.Size(); n > sizes.Vocab {
		return sizes, fmt.Errorf("model_path: %s: the tokenizer has %d tokens: expected at most vocab_size, %d",
			p.own.ModelPath, n, sizes.Vocab)
	}
	return sizes, nil
}

// init draws the initial parameters, but for what a folder has.
func (p *Policy) init(seed uint64) error {
	p.actions.init()
	p.senses.init(p.params)
	p.net.Init(seed)
	p.trunk.Init(seed)
	if p.own.ModelPath != "" {
		if err := hf.Load(p.trunk, p.own.ModelPath); err != nil {
			return fmt.Errorf("model_path: %w", err)
		}
	}
	for _, field := range []int{p.positions, p.slots, p.previous} {
		if field == 0 {
			continue
		}
		shape := p.params.Fields[field].Shape
		gain := math.Sqrt(float64(max(shape[0], shape[1]))) * p.trunk.Config.InitRange
		nn.Orthogonal(p.params.Of(field), shape[0], shape[1], gain, seed, uint64(field))
	}
	p.head.init(seed)
	if p.criticHead != nil {
		p.criticTrunk.Init(seed, math.Sqrt2)
		p.criticHead.Init(seed, 0.02)
	}
	return nil
}

// Spaces returns what the policy observes and what it chooses.
func (p *Policy) Spaces() ([]env.Field, env.Space) { return p.senses.fields, p.actions.space }

// Params returns the parameters.
func (p *Policy) Params() *nn.Params[float32] { return p.params }

// Fit takes the ranges of actions, and how observed numbers are normalised, from demonstrations:
// observations [M,…] and actions [M,C,A]. See policy.Fitter.
func (p *Policy) Fit(obs tensor.Dict, action tensor.Tensor) error {
	p.actions.fit(action)
	return p.senses.fit(p.params, obs)
}

// LatentLen returns how long the chain behind an action is: with the head flow the state after each
// denoising step and before the first, [num_steps+1, C·A], and the number of the step with noise.
func (p *Policy) LatentLen() int {
	if p.flow == nil {
		return 0
	}
	return (p.own.NumSteps+1)*p.count + 1
}

// Explores tells whether the policy can learn from its own actions: not with the head l1.
func (p *Policy) Explores() bool { return p.own.ActionHead != L1 }
