// Package graph answers: how does a policy compute actions from the observations of a simulator? A Node is one
// operation, with its parameters and constants, or a group of operations. The tree has all that is necessary to compute
// the policy: for other programs, for devices, for estimates of memory, and for people (Write).
//
// A value has rows, one for each environment. Shapes are those of a row; a vector [n] is an image [1, 1, n]. An
// operation reads the output of the operation before it in its group. Matrices are row-major: y = x·W + b with W [in,
// out]. The groups are
//
//	policy      the root: Observe, then operations one after the other; it names what the policy keeps between steps
//	sequence    each part reads the output of the part before it
//	concat      each part reads the input; the outputs stand side by side
//	residual    x + f(x), where f is the part
//	film        (1+γ)x + β for each channel of an image; the part reads sources, and gives all γ, then all β
//	actor       a sequence whose output is the action
//	critic      a sequence whose output is the value; it reads what the actor reads
//
// The comments of the operations say what each of them computes.
package graph

import "slices"

// A Node is an operation or a group.
type Node struct {
	Op     Op
	Name   string  // of a layer, of an observation or of a source; may be empty
	Out    []int   // shape of a row of the output
	Params []Param // in the order that the operation's comment gives
	Consts []Const
	Parts  []Node
}

// A Param is a tensor of the policy's weights.
type Param struct {
	Name  string
	Shape []int
}

// A Const is a named constant of an operation: a number, a text, or a list of numbers.
type Const struct {
	Name  string
	Value any
}

// An Op is the kind of a Node.
type Op string

// Groups; see the package comment.
const (
	Policy   Op = "policy"
	Sequence Op = "sequence"
	Concat   Op = "concat"
	Residual Op = "residual"
	Sum      Op = "sum" // the sum of the outputs of its two parts, which read the same input
	FiLM     Op = "film"
	Actor    Op = "actor"
	Critic   Op = "critic"
)

// Operations on observations. Observe makes four streams: a row of numbers, images, choices (whole numbers) and a mask.
const (
	Observe   Op = "observe"   // its parts read the simulator's observations; each appends to its stream
	Number    Op = "number"    // an observation of F32 for the row of numbers
	Byte      Op = "byte"      // an observation of U8 for the row of numbers: (b - low)·scale for each element
	Frames    Op = "frames"    // images of U8, [frames, H, W, C] or [H, W, C]
	Words     Op = "words"     // choices of I32, from low to high
	Text      Op = "text"      // a text: tokens of at most max_prompt_length
	Mask      Op = "mask"      // U8: 0 where an option is not allowed
	Normalize Op = "normalize" // (x - mean)/√(variance + epsilon) of the row, within ±clip; parameters mean, variance
	Whiten    Op = "whiten"    // (x - mean)/deviation of the row; parameters mean, deviation
	OneHot    Op = "one_hot"   // appends a number for each option of each choice to the row of numbers

	Input Op = "input" // columns of the row of numbers, from column first on
	View  Op = "view"  // the image with the number index, resized bilinearly: (b/255 - mean)/deviation by channel
	Map   Op = "map"   // the feature map with the number index: an image of numbers that a frozen network computes
	Image Op = "image" // the image with the number index: bytes b become low + (high-low)·b/255; frames are channels
)

// Layers. A choice or a word is a column of the choices. The constant first is the first of a layer's columns.
const (
	Dense       Op = "dense"        // x·W + b; parameters W [in, out], b
	Tanh        Op = "tanh"         // tanh of each element
	ReLU        Op = "relu"         // max(x, 0) of each element
	LayerNorm   Op = "layer_norm"   // γ (x - mean)/√(variance + epsilon) + β over a row; parameters γ, β
	BatchNorm   Op = "batch_norm"   // LayerNorm by column; parameters γ, β, running statistics: steps, means, variances
	Conv        Op = "conv"         // windows of size×size pixels; parameters W [size·size·C, filters], b
	BatchNorm2D Op = "batch_norm2d" // BatchNorm of each channel, over all pixels
	GroupNorm   Op = "group_norm"   // LayerNorm of each group of channels; γ, β [C]
	Dropout     Op = "dropout"      // has no effect outside training
	MeanPool    Op = "mean_pool"    // mean of each channel
	Spatial     Op = "spatial"      // Σ over the pixels of x[p,c]·W[c,p,f]; parameter W [C·pixels, sums]
	MaxPool     Op = "max_pool"     // largest element of each channel in windows of size×size pixels
	Softmax2D   Op = "soft_argmax"  // position of each channel's softmax, after scaling to deviation: all x, then all y
	Coordinates Op = "coordinates"  // appends two channels: x and y of the pixels' centres, in [-1, 1]
	Embedding   Op = "embedding"    // Σ of the rows of the chosen options; parameter W [Σ options, out]
	Sentence    Op = "sentence"     // Σ E[word]·P[place] over the words; parameters E, P; the lowest option is no word
	Point       Op = "point"        // Softmax2D of E[word]·x for each word; parameter E [words, C]; no word is (0, 0)
	GRU         Op = "gru"          // Cho et al. 2014; parameters W, b of the input, U, d of the state; columns r z g
	LSTM        Op = "lstm"         // parameters as in GRU; columns i, f, o, g; the state is h, then c
	Transformer Op = "transformer"  // a decoder-only language model (package lm) on a prefix and slots
	Tokens      Op = "tokens"       // appends tokens to the sequence of the transformer; its parameter is added to them
)

// Last operations of an actor. In evaluations, the policy takes the most likely action; the comments say which one this
// is.
const (
	Categorical Op = "categorical" // the most likely option of each choice, of the options that the mask allows
	Gaussian    Op = "gaussian"    // the mean; parameter: log deviation, of each dimension
	Deviations  Op = "deviations"  // the first half; the rest s gives log σ = low + half (tanh(s+shift) + 1)
	SDE         Op = "sde"         // the mean; parameter: log deviation of each feature and dimension
	Noise       Op = "noise"       // tanh of the row; exploration adds noise
	Squashed    Op = "squashed"    // tanh of the first half; the rest is as in Deviations, without shift
	Greedy      Op = "greedy"      // the largest number that the mask allows; with probability ε a random choice
	Bins        Op = "bins"        // the middle of the most likely bin of each dimension, between low and high
	Laplace     Op = "laplace"     // the mean in [-1, 1], between low and high
	Denoise     Op = "denoise"     // flow matching: num_steps steps from noise to the action, between low and high

	Clip      Op = "clip"       // each element within low and high
	Scale     Op = "scale"      // center + half·x
	TanhBound Op = "tanh_bound" // center + half·tanh(x)
)

// Each calls visit for n and all nodes inside it, in the order of computation, with their depths.
func (n *Node) Each(visit func(n *Node, depth int)) { n.each(visit, 0) }

func (n *Node) each(visit func(n *Node, depth int), depth int) {
	visit(n, depth)
	for i := range n.Parts {
		n.Parts[i].each(visit, depth+1)
	}
}

// Const returns the value of a constant, or nil.
func (n *Node) Const(name string) any {
	if i := slices.IndexFunc(n.Consts, func(c Const) bool { return c.Name == name }); i >= 0 {
		return n.Consts[i].Value
	}
	return nil
}

// Len returns the number of elements of p.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}
