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

// A Policy is a vision-language-action model; see the package comment.
type Policy struct {
	cfg       policy.Config
	own       Config
	observed  *observations
	actions   *actions
	params    *nn.Params[float32]
	tokenizer *tokenizer.Tokenizer // from the trunk's folder; nil means the built-in tokenizer

	d              int // width of the trunk
	dims           int // dimensions of a chunk, C·A
	slots          int // slots of a row: one for each dimension, or with flow one for each action
	dimsPerLogProb int

	vision        *nn.Net[float32] // layers for images and numbers; output [tokens·d + predicted]
	trunk         *lm.Model
	positions     int // field [tokens, d], added to the output of vision
	slotEmbedding int // field [slots, d]
	head          head
	critic        *nn.Net[float32] // nil without a critic

	initial []func(seed uint64) // functions that draw the initial weights of embeddings, action head and critic
}

// Indices of the groups of the parameters.
const (
	visionGroup = iota // layers that make tokens of images and numbers
	sharedGroup        // trunk, and embeddings of positions and slots
	actorGroup         // action head
	criticGroup
)

// groupRange returns the part of the flat gradient that belongs to a group.
func (p *Policy) groupRange(group int) (lo, hi int) {
	g := p.params.Groups[group]
	return g.Lo, g.Hi
}

var (
	_ policy.Policy    = (*Policy)(nil)
	_ policy.Fitter    = (*Policy)(nil)
	_ policy.Augmenter = (*Policy)(nil)
	_ policy.Denoiser  = (*Policy)(nil)
	_ policy.Foreseer  = (*Policy)(nil)

	_ policy.FileChecker = (*Policy)(nil)
)

// New is the builder of vla_policy.
func New(cfg policy.Config, own Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
	p, err := newPolicy(cfg, own, spec)
	if err == nil {
		err = p.trunk.Alloc(alloc)
	}
	if err == nil {
		err = p.init(seed)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: vla_policy for %s: %w", spec.Name, err)
	}
	return p, nil
}

// newPolicy declares a policy. Its parameters have no memory yet.
func newPolicy(cfg policy.Config, own Config, spec env.Spec) (*Policy, error) {
	p := &Policy{cfg: cfg, own: own, params: new(nn.Params[float32])}
	p.head = newHead(p)
	err := checkUnused(&cfg)
	if err == nil {
		err = p.head.check(&cfg)
	}
	if err != nil {
		return nil, err
	}
	if p.observed, err = newObservations(spec, &own); err != nil {
		return nil, err
	}
	if p.actions, err = newActions(spec.Action, &own, p.params); err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	if n := cfg.ActionDim; n != 0 && n != p.actions.dims {
		return nil, env.KeyErrors{{Key: "action_dim",
			Reason: fmt.Sprintf("%d, but an action has %d", n, p.actions.dims)}}
	}
	p.observed.addBuffers(p.params)
	sizes, err := p.trunkSizes()
	if err != nil {
		return nil, err
	}
	p.d, p.dims = sizes.Hidden, cfg.NumActionChunks*p.actions.dims
	p.slots = p.head.slots()
	p.dimsPerLogProb, _ = cfg.Summed(p.actions.dims)

	if err := p.addVision(sizes.Vocab); err != nil {
		return nil, err
	}
	p.params.Group("shared")
	if p.trunk, err = lm.New(p.params, sizes, own.options()); err != nil {
		return nil, err
	}
	p.addActionHead()
	p.addCritic()
	return p, nil
}

func (p *Policy) addVision(vocabulary int) error {
	if p.own.VisionFiLM || p.own.VisionWords {
		p.observed.readable, p.observed.vocabulary = p.own.MaxPrompt, vocabulary
	}
	p.params.Group("vision")
	layer, err := p.observed.network(&p.own, p.d)
	if err != nil {
		return err
	}
	p.vision, err = nn.NewNet(p.params, "vision", layer, p.observed.sources())
	p.params.Groups[visionGroup].Trainable = !p.own.FreezeVision
	return err
}

// firstGain is the gain of the initial weights of action heads. It is small, so that a new policy hardly depends on the
// observation.
const firstGain = 0.01

// addActionHead adds the embeddings of positions and slots, then the layers of the action head.
func (p *Policy) addActionHead() {
	p.positions = p.embedding("positions", p.observed.tokens)
	p.slotEmbedding = p.embedding("slots", p.slots)
	p.head.embed()
	p.params.Group("actor")
	p.head.add()
}

// embedding declares a field [rows, d], and returns its index.
func (p *Policy) embedding(name string, rows int) int {
	field := p.params.Add(name, rows, p.d)
	p.initial = append(p.initial, func(seed uint64) {
		gain := math.Sqrt(float64(max(rows, p.d))) * p.trunk.Config.InitRange
		nn.Orthogonal(p.params.Of(field), rows, p.d, gain, seed, uint64(field))
	})
	return field
}

func (p *Policy) linear(name string, in, out int, gain float64) *nn.Linear[float32] {
	l := nn.NewLinear(p.params, name, in, out)
	p.initial = append(p.initial, func(seed uint64) { l.Init(seed, gain) })
	return l
}

// stack declares hidden layers of the given widths and an output layer.
func (p *Policy) stack(name string, in int, hidden []int, f nn.Activation, out int, gain float64) *nn.Net[float32] {
	layers := append(nn.Hidden(hidden, f, nn.NoNorms), nn.Dense(out).Named("head").Gain(gain))
	net := nn.NewStack(p.params, name, in, layers...)
	p.initial = append(p.initial, net.Init)
	return net
}

func (p *Policy) addCritic() {
	if !p.cfg.AddValueHead {
		return
	}
	p.params.Group("critic")
	f := nn.Tanh
	if p.cfg.Activation == "relu" {
		f = nn.ReLU
	}
	p.critic = p.stack("critic", p.d, p.cfg.HiddenSizes, f, p.cfg.Values(), 0.02)
}

// checkUnused returns an error if a key is set that has no effect on this policy.
func checkUnused(c *policy.Config) error {
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
	return nil
}

// trunkSizes returns the sizes of the trunk. If the trunk has a folder, it reads the tokenizer there.
func (p *Policy) trunkSizes() (lm.Config, error) {
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
	if p.tokenizer, err = tokenizer.Load(p.own.ModelPath); err != nil {
		return sizes, fmt.Errorf("model_path: %w", err)
	}
	if n := p.tokenizer.Size(); n > sizes.Vocab {
		return sizes, fmt.Errorf("model_path: %s: the tokenizer has %d tokens: expected at most vocab_size, %d",
			p.own.ModelPath, n, sizes.Vocab)
	}
	return sizes, nil
}

// init draws the initial parameters, and loads the trunk's folder if there is one. For a blank policy
// (policy.Config.Blank) it does neither.
func (p *Policy) init(seed uint64) error {
	p.actions.init()
	p.observed.init(p.params)
	if p.cfg.Blank {
		return nil
	}
	p.vision.Init(seed)
	p.trunk.Init(seed)
	if p.own.ModelPath != "" {
		if err := hf.Load(p.trunk, p.own.ModelPath); err != nil {
			return fmt.Errorf("model_path: %w", err)
		}
	}
	for _, set := range p.initial {
		set(seed)
	}
	return nil
}

// CheckFiles checks the trunk's folder as New does, but does not read weights.
func (p *Policy) CheckFiles() error {
	if p.own.ModelPath == "" {
		return nil
	}
	if err := hf.Check(p.trunk, p.own.ModelPath); err != nil {
		return fmt.Errorf("model_path: %w", err)
	}
	return nil
}

// Spaces returns the fields of an observation and the space of actions.
func (p *Policy) Spaces() ([]env.Field, env.Space) { return p.observed.fields, p.actions.space }

// Params returns the parameters, in the groups "vision", "shared", "actor" and "critic".
func (p *Policy) Params() *nn.Params[float32] { return p.params }

// Fit sets the ranges of actions and the normalisation of observed numbers from demonstrations:
// observations [M,…] and actions [M,C,A]. See policy.Fitter.
func (p *Policy) Fit(obs tensor.Dict, action tensor.Tensor) error {
	p.actions.fit(action)
	return p.observed.fit(p.params, obs)
}

// LatentLen returns the length of the denoising chain of a chunk of actions. With action_head: flow, a chain holds the
// states before the first denoising step and after each step, [num_steps+1, C·A], then the index of the step with
// noise. Other heads have no chain.
func (p *Policy) LatentLen() int { return p.head.latent() }

// Explores reports whether the policy can learn from its own actions. With action_head: l1, it cannot.
func (p *Policy) Explores() bool { return p.head.explores() }
