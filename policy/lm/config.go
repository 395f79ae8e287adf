package lm

import (
	"fmt"
	"strings"
)

// A Config describes a decoder-only transformer. Package hf reads a Config from a checkpoint folder.
type Config struct {
	Family Family

	Vocab        int // ids are 0 to Vocab-1
	Hidden       int // width of the residual stream
	Layers       int
	Heads        int // heads of queries
	KVHeads      int // heads of keys and values; divides Heads
	HeadDim      int
	Intermediate int // width of a dense feed-forward block

	Eps          float64 // added to the variance in every RMSNorm
	Rope         Rope
	Tied         bool // the output matrix is the embedding
	QKVBias      bool
	OutBias      bool // o_proj has a bias
	MLPBias      bool
	QKNorm       bool    // RMSNorm of each head of queries and keys, before the rotation
	MaxPositions int     // sequence length in pre-training; longer sequences are valid
	Window       int     // longest valid sequence (sliding-window attention is not supported); 0 means no limit
	InitRange    float64 // standard deviation of initial weights

	Experts Experts // the zero Experts: every layer is dense
}

// A Family is a group of models with the same tensor names, keys and defaults. The value of a Family is model_type in
// config.json.
type Family string

const (
	Qwen2    Family = "qwen2"
	Qwen3    Family = "qwen3"
	Llama    Family = "llama"
	Mistral  Family = "mistral"
	Qwen2MoE Family = "qwen2_moe"
	Qwen3MoE Family = "qwen3_moe"
	Mixtral  Family = "mixtral"
)

// Families lists all supported families.
var Families = []Family{Qwen2, Qwen3, Llama, Mistral, Qwen2MoE, Qwen3MoE, Mixtral}

// Experts describes the experts of sparse layers.
type Experts struct {
	Count              int     // experts of a sparse layer; 0 if no layer is sparse
	PerToken           int     // number of experts that each token is sent to
	Intermediate       int     // width of one expert
	SharedIntermediate int     // width of the shared expert, which gets every token; 0 without a shared expert
	Normalize          bool    // divide the weights of the chosen experts by their sum
	AuxCoef            float64 // weight of the load-balancing loss
	Dense              []bool  // [layers]: whether a layer has no experts; nil if all layers have experts
}

// Sparse reports whether layer i has experts.
func (c *Config) Sparse(i int) bool {
	return c.Experts.Count > 0 && (c.Experts.Dense == nil || !c.Experts.Dense[i])
}

// Check returns an error that lists all invalid sizes.
func (c *Config) Check() error {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, n := range []struct {
		name string
		size int
	}{
		{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers},
		{"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"intermediate_size", c.Intermediate},
	} {
		if n.size < 1 {
			bad("%s is %d, must be at least 1", n.name, n.size)
		}
	}
	if wrong == nil {
		wrong = c.tooLarge()
	}
	if c.MaxPositions < 0 {
		bad("max_position_embeddings is %d, must be at least 0", c.MaxPositions)
	}
	if c.KVHeads > 0 && c.Heads%c.KVHeads != 0 {
		bad("num_attention_heads is %d, must be a multiple of num_key_value_heads, %d", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		bad("head_dim is %d, must be even", c.HeadDim)
	}
	if !(c.Eps > 0) {
		bad("rms_norm_eps is %g, must be above 0", c.Eps)
	}
	if x := c.Experts; x.Count != 0 {
		if x.Count < 1 || x.PerToken < 1 || x.PerToken > x.Count {
			bad("num_experts_per_tok is %d, must be from 1 to the number of experts, %d", x.PerToken, x.Count)
		}
		if x.Intermediate < 1 || x.SharedIntermediate < 0 {
			bad("the experts' width is %d, the shared expert's width %d, must be at least 1 and 0", x.Intermediate,
				x.SharedIntermediate)
		}
	}
	if err := c.Rope.check(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if wrong != nil {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// These limits are far above the sizes of any model. They reject mistakes, and prevent integer overflow.
const (
	maxSize        = 1 << 24 // length of an axis of a matrix
	maxFeedForward = 1 << 16 // feed-forward blocks, including each expert
	maxCount       = 1 << 44 // weights of the model
)

// tooLarge returns a message for each size above its limit. All sizes must be above 0.
func (c *Config) tooLarge() (wrong []string) {
	x := c.Experts
	for _, n := range []struct {
		name string
		size float64
	}{
		{"vocab_size", float64(c.Vocab)}, {"hidden_size", float64(c.Hidden)},
		{"intermediate_size", float64(c.Intermediate)},
		{"num_attention_heads × head_dim", float64(c.Heads) * float64(c.HeadDim)},
		{"num_key_value_heads × head_dim", float64(c.KVHeads) * float64(c.HeadDim)},
		{"the experts' width", float64(x.Intermediate)}, {"the shared expert's width", float64(x.SharedIntermediate)},
	} {
		if n.size > maxSize {
			wrong = append(wrong, fmt.Sprintf("%s is %.0f, must be at most %d", n.name, n.size, maxSize))
		}
	}
	blocks := float64(c.Layers) * max(1, float64(x.Count))
	if blocks > maxFeedForward {
		wrong = append(wrong, fmt.Sprintf("num_hidden_layers is %d with %d experts each, must have at most %d "+
			"feed-forward blocks", c.Layers, x.Count, maxFeedForward))
	}
	width := float64(max(c.Intermediate, x.Intermediate))
	if n := float64(c.Hidden) * (2*float64(c.Vocab) + 3*blocks*width); wrong == nil && n > maxCount {
		wrong = append(wrong, fmt.Sprintf("the model has about %.0e weights, must have at most %.0e", n,
			float64(maxCount)))
	}
	return wrong
}

// Limits of Config.Blocks: the maximum number of blocks, and the minimum width of a block of the attention's output.
const (
	maxBlocks = 8
	minBlock  = 32
)

// Blocks returns the number of blocks in every sum over heads, over a feed-forward width or over the vocabulary. It is
// the largest power of two up to 8 that divides the heads and the widths, and leaves at least 32 elements of the
// attention's output in each block.
func (c *Config) Blocks() int {
	blocks := 1
	fits := func(b int) bool {
		x := c.Experts
		return c.Heads%b == 0 && c.Intermediate%b == 0 && c.Heads*c.HeadDim/b >= minBlock &&
			(x.Count == 0 || x.Intermediate%b == 0 && x.SharedIntermediate%b == 0)
	}
	for blocks < maxBlocks && fits(2*blocks) {
		blocks *= 2
	}
	return blocks
}
