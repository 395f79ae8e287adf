package plan

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// A Language describes the configured language model.
type Language struct {
	Model       lm.Config
	LoRA        *lm.LoRA    // nil if all weights are trained
	Tokens      hf.Tokens   // tokens with a special meaning; UseTokenizer completes them
	Base        string      // folder of the initial weights; "" if they are random
	From        string      // folder of the initial adapters; "" if they are random
	BaseWeights BaseWeights // used instead of the weights in Base
	Seed        uint64

	// Shortest is max_position_embeddings in Base if it is less than runner.seq_length, else 0. Model.MaxPositions is
	// then runner.seq_length, because the job learns such texts.
	Shortest int

	Count, Trained int // the number of weights without adapters, and the number of trained parameters
}

// LanguageOf returns the language model of cfg. It reads the configuration files in the model's folders. tokens is the
// number of tokens of the tokenizer.
func LanguageOf(cfg *config.Config, tokens int) (l Language, err error) {
	keys := cfg.LanguageModel()
	l = Language{Base: keys.ModelPath, From: keys.LoRAPath, Seed: cfg.Actor.Seed, Tokens: hf.Tokens{BOS: -1, Pad: -1}}
	if l.Base != "" {
		if l.Model, err = hf.ReadConfig(l.Base); err != nil {
			return l, err
		}
		if family := cfg.Actor.Model.ModelType; string(l.Model.Family) != family {
			return l, fmt.Errorf("%s has a model of the family %s", l.Base, l.Model.Family)
		}
		if n := l.Model.MaxPositions; n > 0 && n < cfg.Runner.SeqLength {
			l.Shortest, l.Model.MaxPositions = n, cfg.Runner.SeqLength
		}
		if l.Tokens, err = hf.ReadTokens(l.Base, l.From); err != nil {
			return l, err
		}
	} else if l.Model, err = newModel(cfg, keys, tokens); err != nil {
		return l, err
	}
	if keys.IsLoRA {
		l.LoRA = &lm.LoRA{Rank: keys.LoRARank, Alpha: keys.LoRAAlpha, Targets: keys.LoRATargets}
		if keys.LoRAAlpha == 0 {
			l.LoRA.Alpha = float64(keys.LoRARank)
		}
		if l.From != "" {
			if l.LoRA, err = hf.ReadAdapter(l.From); err != nil {
				return l, err
			}
		}
	}
	m, err := l.New()
	if err != nil {
		return l, err
	}
	l.Count, l.Trained = m.Count(), m.Params.Len()
	return l, nil
}

// newModel returns the configuration of a new model with the sizes in k. It writes a config.json with these sizes, and
// parses this text. Missing sizes are null in the text, because otherwise they would get the values of the family's
// published model.
func newModel(cfg *config.Config, k config.LanguageModel, tokens int) (lm.Config, error) {
	sizes := map[string]any{"model_type": cfg.Actor.Model.ModelType, "tie_word_embeddings": k.Tied,
		"initializer_range": k.InitRange, "norm_topk_prob": k.NormalizeTopK, "router_aux_loss_coef": k.AuxLossCoef,
		"sliding_window": nil}
	set := func(key string, n, otherwise int) {
		n = cmp.Or(n, otherwise)
		if n != 0 {
			sizes[key] = n
		} else if key != "head_dim" {
			sizes[key] = nil
		}
	}
	set("vocab_size", k.VocabSize, tokens)
	set("hidden_size", k.HiddenSize, 0)
	set("intermediate_size", k.Intermediate, 0)
	set("num_hidden_layers", k.NumLayers, 0)
	set("num_attention_heads", k.NumHeads, 0)
	set("num_key_value_heads", k.NumKVHeads, 0)
	set("head_dim", k.HeadDim, 0)
	set("max_position_embeddings", k.MaxPositions, cfg.Runner.SeqLength)
	set("num_experts", k.NumExperts, 0)
	set("num_local_experts", k.NumExperts, 0)
	set("num_experts_per_tok", k.TokenExperts, 0)
	set("moe_intermediate_size", k.ExpertWidth, 0)
	set("shared_expert_intermediate_size", k.SharedWidth, 0)
	if k.RopeTheta > 0 {
		sizes["rope_theta"] = k.RopeTheta
	}
	if k.RMSNormEps > 0 {
		sizes["rms_norm_eps"] = k.RMSNormEps
	}
	text, err := json.Marshal(sizes)
	if err != nil {
		return lm.Config{}, err
	}
	return hf.ParseConfig(text)
}

// checkFolder checks the names, shapes and types of the weights in the folder Base, without reading their values.
func (l *Language) checkFolder() error {
	if l.Base == "" {
		return nil
	}
	m, err := l.New()
	if err != nil {
		return err
	}
	return hf.Check(m, l.Base)
}

// New returns the whole model without memory for its weights.
func (l *Language) New() (*lm.Model, error) { return l.part(lm.Shard{}, nil) }

// part returns a part of the model without memory for its weights. It declares the weights in params, or in new
// parameters if params is nil.
func (l *Language) part(p lm.Shard, params *nn.Params[float32]) (*lm.Model, error) {
	if params == nil {
		params = new(nn.Params[float32])
	}
	return lm.New(params, l.Model, lm.Options{LoRA: l.LoRA, Part: p})
}

// partOf returns the part of the model that a member has, without memory for its weights.
func (p *Plan) partOf(component string, member int) *lm.Model {
	m, err := p.part(p.Part(component, member), nil)
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // impossible: New has made the whole model, and the mesh was checked
	}
	return m
}

// Declarations returns a function that declares the parameters of a member's part of the model, without memory. Members
// with the same part get the same pointer.
func (p *Plan) Declarations() func(component string, member int) *nn.Params[float32] {
	declared := map[lm.Shard]*nn.Params[float32]{}
	return func(component string, member int) *nn.Params[float32] {
		part := p.Part(component, member)
		if declared[part] == nil {
			declared[part] = p.partOf(component, member).Params
		}
		return declared[part]
	}
}

// Load makes the whole model with its initial weights. It reads them from the model's folders, or makes random weights,
// which are the same on every rank.
func (l *Language) Load(alloc tensor.Allocator) (*lm.Model, error) {
	return l.LoadPart(lm.Shard{}, alloc, nil)
}

// LoadPart makes a part of the model with its initial weights, which are the same as in the whole model. It declares
// the weights in params, or in new parameters if params is nil.
func (l *Language) LoadPart(part lm.Shard, alloc tensor.Allocator, params *nn.Params[float32]) (*lm.Model, error) {
	m, err := l.part(part, params)
	if err != nil {
		return nil, err
	}
	if err := m.Alloc(alloc); err != nil {
		return nil, err
	}
	switch {
	case l.BaseWeights.Path != "":
		m.InitAdapters(l.Seed)
		if err := l.BaseWeights.load(m); err != nil {
			return nil, err
		}
	case l.Base == "":
		m.Init(l.Seed)
	default:
		m.InitAdapters(l.Seed)
		if err := hf.Load(m, l.Base); err != nil {
			return nil, fmt.Errorf("actor.model.model_path: %w", err)
		}
	}
	if l.From != "" {
		if err := hf.LoadAdapter(m, l.From); err != nil {
			return nil, fmt.Errorf("actor.model.lora_path: %w", err)
		}
	}
	return m, nil
}

// BlankPart makes a part of the model without its initial weights. The caller will load all trained weights. If the
// model has adapters, BlankPart loads all initial weights, because the base weights are needed.
func (l *Language) BlankPart(part lm.Shard, alloc tensor.Allocator, params *nn.Params[float32]) (*lm.Model, error) {
	if l.LoRA != nil {
		return l.LoadPart(part, alloc, params)
	}
	m, err := l.part(part, params)
	if err != nil {
		return nil, err
	}
	return m, m.Alloc(alloc)
}
