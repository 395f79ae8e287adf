package lm

import (
	"fmt"
	"strconv"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Model holds the weights of a decoder-only transformer. Activations are in a Work, so several goroutines can use a
// Model at once while nobody changes the weights.
type Model struct {
	Config Config
	Params *nn.Params[float32] // the trainable weights: all of the model, only adapters, or none

	part     Shard
	local    Config // Config with the sizes of this part
	blocks   int    // number of blocks in every sum that can be split among ranks: Config.Blocks
	own      int    // number of these blocks in this part
	firstID  int    // first id of this part of the vocabulary
	fixed    bool   // the model's own weights are frozen
	kept     bool   // frozen weights are in the State of Params
	headless bool
	ready    bool // Alloc or ShareFrozen was called
	frozen   *frozen
	list     []listed       // all weights except those of adapters
	index    map[string]int // index of each weight in list, by name
	lora     *LoRA
	adapters []*adapter
	adapted  map[string]*adapter // adapters by the names of the products

	embed  weight
	layers []layer
	norm   weight
	head   linear
	value  struct{ w, b weight } // declared with Options.Values
	values bool
	heads  [2]int // parameters after the layers: [heads[0], heads[1])
}

// A layer is one block of the transformer: attention, then a feed-forward block or experts.
type layer struct {
	norm1, norm2 weight
	q, k, v, o   linear
	qNorm, kNorm weight // declared with Config.QKNorm
	ff           feedForward
	experts      *experts // nil in dense layers
	fields       [2]int   // parameters of the layer: [fields[0], fields[1])
}

// Options select the weights of a model, and which of them are trained.
type Options struct {
	Frozen bool  // the model's own weights are not trained and have no gradient
	LoRA   *LoRA // trainable adapters; they freeze the model's own weights
	// Kept puts frozen weights into the State of the parameters, so that frozen and trained weights are saved together.
	Kept bool
	// Headless leaves out the output matrix, for a model whose hidden states another head reads.
	Headless bool
	// Values adds a value head: a linear function of the hidden state, with value_head.weight and value_head.bias.
	// Both are 0 in a new model.
	Values bool
	Part   Shard // the part of the model on this rank
}

// New declares the weights of a model in p. It adds a group "actor" to p unless p has a group already. Before
// you use the model, call Alloc, and then Init or hf.Load.
func New(p *nn.Params[float32], c Config, o Options) (*Model, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("language model: %w", err)
	}
	if o.Headless {
		c.Tied = false
	}
	part, err := c.complete(o.Part)
	if err != nil {
		return nil, fmt.Errorf("language model: %w", err)
	}
	m := &Model{Config: c, Params: p, part: part, local: c.local(part), blocks: c.Blocks(),
		own: c.Blocks() / part.Size, firstID: c.slice(part, 0, c.Vocab).From, fixed: o.Frozen || o.LoRA != nil,
		kept: o.Kept, headless: o.Headless, values: o.Values, lora: o.LoRA, frozen: new(frozen),
		index: map[string]int{}, adapted: map[string]*adapter{}}
	if len(p.Groups) == 0 {
		p.Group("actor")
	}
	if m.lora != nil {
		if err := m.lora.check(&c); err != nil {
			return nil, fmt.Errorf("language model: %w", err)
		}
	}
	first, last := part.First == 0, part.End == c.Layers
	switch {
	case !first && !(last && c.Tied):
	case c.Tied:
		m.embed = m.declare(embedName, true, normal, 1, c.Hidden, c.Vocab)
	default:
		m.embed = m.declare(embedName, false, normal, 0, c.Vocab, c.Hidden)
	}
	for i := part.First; i < part.End; i++ {
		first := len(p.Fields)
		l := m.newLayer("model.layers."+strconv.Itoa(i)+".", i)
		l.fields = [2]int{first, len(p.Fields)}
		m.layers = append(m.layers, l)
	}
	if m.heads[0] = len(p.Fields); last {
		m.newHeads()
	}
	m.heads[1] = len(p.Fields)
	return m, nil
}

const embedName = "model.embed_tokens.weight"

// newHeads declares the weights that follow the layers.
func (m *Model) newHeads() {
	c := &m.Config
	m.norm = m.declare("model.norm.weight", false, ones, -1, c.Hidden)
	switch {
	case m.headless:
	case c.Tied:
		m.head = linear{m: m, w: m.embed}
		m.head.cut(byColumns, c.Hidden, c.Vocab)
		m.head.adapt("lm_head", byColumns, c.Hidden, c.Vocab)
	default:
		m.head = m.newLinear("lm_head", c.Hidden, c.Vocab, false, byColumns)
	}
	if m.values {
		m.value.w = weight{m: m, field: m.Params.Add("value_head.weight", c.Hidden)}
		m.value.b = weight{m: m, field: m.Params.Add("value_head.bias", 1)}
	}
}

func (m *Model) newLayer(prefix string, i int) layer {
	c := &m.Config
	qDim, kvDim := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	var l layer
	l.norm1 = m.declare(prefix+"input_layernorm.weight", false, ones, -1, c.Hidden)
	attn := prefix + "self_attn."
	l.q = m.newLinear(attn+"q_proj", c.Hidden, qDim, c.QKVBias, byColumns)
	l.k = m.newLinear(attn+"k_proj", c.Hidden, kvDim, c.QKVBias, byColumns)
	l.v = m.newLinear(attn+"v_proj", c.Hidden, kvDim, c.QKVBias, byColumns)
	if c.QKNorm {
		l.qNorm = m.declare(attn+"q_norm.weight", false, ones, -1, c.HeadDim)
		l.kNorm = m.declare(attn+"k_norm.weight", false, ones, -1, c.HeadDim)
	}
	l.o = m.newLinear(attn+"o_proj", qDim, c.Hidden, c.OutBias, byRows)
	l.norm2 = m.declare(prefix+"post_attention_layernorm.weight", false, ones, -1, c.Hidden)
	if c.Sparse(i) {
		l.experts = m.newExperts(prefix + "mlp.")
	} else {
		l.ff = m.newFeedForward(prefix+"mlp.", c.Intermediate)
	}
	return l
}

// Alloc allocates the parameters, their gradients and the frozen weights. All values are 0.
func (m *Model) Alloc(alloc tensor.Allocator) error {
	if err := m.Params.Alloc(alloc); err != nil {
		return err
	}
	if err := m.frozen.alloc(m.Params.Sharing(alloc)); err != nil {
		return err
	}
	m.ready = true
	return nil
}

// Headless reports whether the model has no output matrix.
func (m *Model) Headless() bool { return m.headless }

// Frozen returns the memory of the frozen weights, or nil if there are none. The caller may change the weights until
// the next pass.
func (m *Model) Frozen() []byte {
	m.frozen.uploaded = false
	return m.frozen.mem
}

// Reference returns a model like m without trainable weights, on the device of m. With adapters it shares the frozen
// weights of m. Otherwise its weights are 0, in memory from alloc.
func (m *Model) Reference(alloc tensor.Allocator) (*Model, error) {
	p := new(nn.Params[float32])
	p.UseDevice(m.Params.Device())
	r, err := New(p, m.Config, Options{Frozen: true, Part: m.part})
	if err != nil {
		return nil, err
	}
	if m.lora != nil {
		return r, r.ShareFrozen(m)
	}
	return r, r.Alloc(alloc)
}

// ShareFrozen makes m use the frozen weights of other, a model of the same configuration. m must not have memory or
// trainable weights.
func (m *Model) ShareFrozen(other *Model) error {
	if m.ready || m.Params.Len() > 0 || m.frozen.size != other.frozen.size || m.Config.Tied != other.Config.Tied {
		return fmt.Errorf("language model: cannot share the frozen weights of another model")
	}
	m.frozen, m.ready = other.frozen, true
	return nil
}
