package nn

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Layer describes a part of a network. It holds no parameters and no memory; NewNet makes a network
// from it. Layers compose:
//
//	nn.Sequence(
//		nn.Concat(
//			nn.Sequence(nn.Input("image"), nn.Conv(16, 3, 2, 1), nn.Activate(nn.ReLU), nn.Dense(64)),
//			nn.Sequence(nn.Input("state"), nn.Dense(32)),
//		),
//		nn.Activate(nn.Tanh),
//		nn.Residual(nn.Dense(96), nn.Activate(nn.Tanh)),
//		nn.GRU(64),
//	)
//
// All shapes are known when the network is made. A row is an image [H,W,C], and a vector of n numbers is an image
// [1,1,n]. A layer that needs a vector reads the elements of an image in the order [H,W,C].
type Layer struct {
	kind              layerKind
	label             string // name in the layer around it; empty means its number there
	name              string // name of an input
	width             int    // number of output features or of filters
	size, stride, pad int
	scale             float64
	gain              float64 // of the initial weights; 0 means √2
	act               Activation
	unbiased          bool // whether a Conv has no b
	fanOut            bool // see FanOut
	norm              [2][]float64
	parts             []Layer
	shortcut          []Layer // g of a Residual; empty for x itself
}

type layerKind uint8

const (
	kindInput layerKind = 1 + iota
	kindView
	kindEmbed
	kindSentence
	kindDense
	kindActivate
	kindNorm
	kindBatchNorm
	kindBatchNorm2D
	kindGroupNorm
	kindDropout
	kindConv
	kindPool
	kindMean
	kindSpatial
	kindKeypoint
	kindCoordinates
	kindFiLM
	kindModulated
	kindPoint
	kindGRU
	kindLSTM
	kindSequence
	kindResidual
	kindConcat
)

// Input reads the numbers, the feature map or the image of the named source. It scales the bytes of an image to
// Source.Range. Several frames become one image, which has the channels of all frames.
func Input(name string) Layer { return Layer{kind: kindInput, name: name} }

// View reads the image of the named source, which must be one frame of bytes. It resizes the image to h×w pixels by
// bilinear interpolation, and aligns the corners of the outer pixels (torch: align_corners=False). Byte x of channel c
// becomes (x/255 - mean[c])/deviation[c].
func View(name string, h, w int, mean, deviation []float64) Layer {
	return Layer{kind: kindView, name: name, width: w, size: h, norm: [2][]float64{mean, deviation}}
}

// Embed computes features, [width], of the choices of the named source. For example, the choices are the words of a
// sentence. The layer learns a row for each option of each choice. The features are the sum of the rows of the chosen
// options.
func Embed(name string, width int) Layer {
	return Layer{kind: kindEmbed, name: name, width: width}
}

// Sentence computes features, [width], of a sentence. The words are the choices of the named source. The layer
// learns a row for each word, and factors for each place in the sentence. It multiplies the row of a word by the
// factors of its place, and adds the products of all words. All places must have the same options. The lowest option
// means that there is no word.
func Sentence(name string, width int) Layer {
	return Layer{kind: kindSentence, name: name, width: width}
}

// Dense computes y = x·W + b with width outputs; see Linear. The initial weights are orthogonal.
func Dense(width int) Layer { return Layer{kind: kindDense, width: width} }

// Activate applies f to each element.
func Activate(f Activation) Layer { return Layer{kind: kindActivate, act: f} }

// Norm normalises each row to mean 0 and variance 1, then multiplies it by γ and adds β. γ and β are parameters (Ba,
// Kiros and Hinton 2016, "Layer normalization", arXiv:1607.06450).
func Norm() Layer { return Layer{kind: kindNorm} }

// BatchNorm normalises each column of a batch. See BatchRenorm for the formula, and Batch.Renorm for the statistics.
func BatchNorm() Layer { return Layer{kind: kindBatchNorm} }

// BatchNorm2D normalises each channel of an image over the pixels of a batch. See NewBatchNorm2D for the formula, and
// Batch.Renorm for the statistics.
func BatchNorm2D() Layer { return Layer{kind: kindBatchNorm2D} }

// GroupNorm divides the channels of an image into the given number of groups of neighbours. It normalises each group
// over its channels and pixels, then multiplies each channel by γ and adds β (Wu and He 2018, arXiv:1803.08494).
func GroupNorm(groups int) Layer { return Layer{kind: kindGroupNorm, width: groups} }

// Dropout sets elements to 0 with probability p, and divides the others by 1-p (Srivastava et al. 2014, "Dropout"). It
// does so only if Batch.Drop is on.
func Dropout(p float64) Layer { return Layer{kind: kindDropout, scale: p} }

// Conv applies filters to windows of size×size pixels; see Conv2D. Windows are stride pixels apart. Each image gets a
// border of pad pixels of zeros. The initial weights are orthogonal.
func Conv(filters, size, stride, pad int) Layer {
	return Layer{kind: kindConv, width: filters, size: size, stride: stride, pad: pad}
}

// MaxPool takes the largest element of each channel in windows of 3×3 pixels, 2 pixels apart.
func MaxPool() Layer { return Layer{kind: kindPool, size: 3, stride: 2, pad: 1} }

// MeanPool computes the mean of each channel over the pixels of an image.
func MeanPool() Layer { return Layer{kind: kindMean} }

// SpatialEmbed computes weighted sums over the pixels of each channel of an image. The output is [C, sums]. Each
// channel has weights of its own (learned spatial embeddings, Luo et al. 2024, "SERL", arXiv:2401.16013).
func SpatialEmbed(sums int) Layer { return Layer{kind: kindSpatial, width: sums} }

// SpatialSoftmax computes for each channel the position of its largest pixels, x and y in [-1, 1] (Levine et al. 2016,
// arXiv:1504.00702). Before the softmax it scales a channel to the given standard deviation over the pixels. With a
// larger deviation, the largest pixels have more weight.
func SpatialSoftmax(deviation float64) Layer { return Layer{kind: kindKeypoint, scale: deviation} }

// Coordinates adds two channels to an image: the x and y of its pixels, in [-1, 1] (Liu et al. 2018,
// arXiv:1807.03247).
func Coordinates() Layer { return Layer{kind: kindCoordinates} }

// FiLM replaces each channel x of an image with (1+γ)x + β (Perez et al. 2018, arXiv:1709.07871). The parts are a
// sequence that begins with an Input. A Dense after this sequence computes γ and β.
func FiLM(parts ...Layer) Layer { return Layer{kind: kindFiLM, parts: parts} }

// modulated is FiLM without the Dense. Its argument computes all γ, then all β.
func modulated(by Layer) Layer { return Layer{kind: kindModulated, parts: []Layer{by}} }

// Point computes a position in an image for each word of a sentence: the position of the object that the word means
// (word-conditioned attention). The words are the choices of the named source. The output has all x, then all y,
// [2·places], in [-1, 1]. The features of a word do not depend on its place. SpatialSoftmax describes positions and
// deviation.
func Point(name string, deviation float64) Layer {
	return Layer{kind: kindPoint, name: name, scale: deviation}
}

// GRU is a recurrent cell with width outputs; see NewGRU. Its state is a part of Batch.State.
func GRU(width int) Layer { return Layer{kind: kindGRU, width: width} }

// LSTM is a recurrent cell with width outputs; see NewLSTM. Its state is a part of Batch.State.
func LSTM(width int) Layer { return Layer{kind: kindLSTM, width: width} }

// Sequence passes the output of each part to the next part.
func Sequence(parts ...Layer) Layer { return Layer{kind: kindSequence, parts: parts} }

// Residual computes x + f(x), where f is the sequence of the parts. The output of f must have the shape of x.
func Residual(parts ...Layer) Layer { return Layer{kind: kindResidual, parts: parts} }

// Concat passes the same input to each part, and concatenates the outputs to one vector.
func Concat(parts ...Layer) Layer { return Layer{kind: kindConcat, parts: parts} }

// Norms selects the normalisation of Hidden.
type Norms uint8

// NoNorms, BatchNorms and LayerNorms are the values of Norms.
const (
	NoNorms    Norms = iota
	BatchNorms       // a BatchNorm before each Dense, and one at the end
	LayerNorms       // a Norm between each Dense and its f
)

// Hidden returns hidden layers: for each width a Dense, and then f, with the given normalisation. In a network "actor",
// layer i is actor.i, and norm i is actor.norm.i.
func Hidden(widths []int, f Activation, norms Norms) []Layer {
	var layers []Layer
	add := func(on bool, norm Layer, i int) {
		if on {
			layers = append(layers, norm.Named(fmt.Sprintf("norm.%d", i)))
		}
	}
	for i, width := range widths {
		add(norms == BatchNorms, BatchNorm(), i)
		layers = append(layers, Dense(width).Named(strconv.Itoa(i)))
		add(norms == LayerNorms, Norm(), i)
		layers = append(layers, Activate(f))
	}
	add(norms == BatchNorms, BatchNorm(), len(widths))
	return layers
}

// Shortcut makes a Residual compute g(x) + f(x), where g is the sequence of the given parts. f and g must have outputs
// of the same shape.
func (l Layer) Shortcut(parts ...Layer) Layer {
	l.shortcut = parts
	return l
}

// Unbiased makes a Conv that adds no b.
func (l Layer) Unbiased() Layer {
	l.unbiased = true
	return l
}

// FanOut draws the initial weights of a Conv from a uniform distribution with the variance 2/(size²·filters), which is
// the variance in torchvision (He et al. 2015, arXiv:1502.01852). For many filters this is far faster than orthogonal
// weights.
func (l Layer) FanOut() Layer {
	l.fanOut = true
	return l
}

// Named sets the last part of the names of the layer's parameters. By default, this part is the layer's number in the
// layer around it.
func (l Layer) Named(name string) Layer {
	l.label = name
	return l
}

// nameIn returns the name of part i of the layer with the given name.
func (l Layer) nameIn(name string, i int) string {
	last := l.label
	if last == "" {
		last = strconv.Itoa(i)
	}
	if name == "" {
		return last
	}
	return name + "." + last
}

// Gain sets the gain of the initial weights of a Dense or a Conv. The default is √2.
func (l Layer) Gain(gain float64) Layer {
	l.gain = gain
	return l
}

func (l Layer) initialGain() float64 {
	if l.gain == 0 {
		return math.Sqrt2
	}
	return l.gain
}

// String returns the layer as a Go expression, for messages.
func (l Layer) String() string {
	switch l.kind {
	case kindInput:
		return fmt.Sprintf("Input(%q)", l.name)
	case kindEmbed:
		return fmt.Sprintf("Embed(%q, %d)", l.name, l.width)
	case kindSentence:
		return fmt.Sprintf("Sentence(%q, %d)", l.name, l.width)
	case kindDense:
		return fmt.Sprintf("Dense(%d)", l.width)
	case kindActivate:
		return fmt.Sprintf("Activate(%v)", l.act)
	case kindNorm:
		return "Norm()"
	case kindBatchNorm:
		return "BatchNorm()"
	case kindView:
		return fmt.Sprintf("View(%q, %d, %d)", l.name, l.size, l.width)
	case kindBatchNorm2D:
		return "BatchNorm2D()"
	case kindGroupNorm:
		return fmt.Sprintf("GroupNorm(%d)", l.width)
	case kindDropout:
		return fmt.Sprintf("Dropout(%g)", l.scale)
	case kindMean:
		return "MeanPool()"
	case kindSpatial:
		return fmt.Sprintf("SpatialEmbed(%d)", l.width)
	case kindConv:
		return fmt.Sprintf("Conv(%d, %d, %d, %d)", l.width, l.size, l.stride, l.pad)
	case kindPool:
		return "MaxPool()"
	case kindKeypoint:
		return fmt.Sprintf("SpatialSoftmax(%g)", l.scale)
	case kindCoordinates:
		return "Coordinates()"
	case kindPoint:
		return fmt.Sprintf("Point(%q, %g)", l.name, l.scale)
	case kindGRU:
		return fmt.Sprintf("GRU(%d)", l.width)
	case kindLSTM:
		return fmt.Sprintf("LSTM(%d)", l.width)
	}
	names := map[layerKind]string{kindSequence: "Sequence", kindResidual: "Residual", kindConcat: "Concat",
		kindFiLM: "FiLM", kindModulated: "FiLM"}
	parts := make([]string, len(l.parts))
	for i, p := range l.parts {
		parts[i] = p.String()
	}
	return names[l.kind] + "(" + strings.Join(parts, ", ") + ")"
}

// A Source is an input that layers can refer to by name: numbers, an image of bytes, a feature map, or choices.
type Source struct {
	Name    string
	Width   int        // number of numbers in a row
	Image   Image      // shape of one frame; the zero Image if the source is not an image
	Frames  int        // number of frames in a row, for an image
	Range   [2]float64 // for an image: the numbers that stand for the bytes 0 and 255
	Map     Image      // shape of a feature map, which is an image of numbers; the zero Image for other sources
	Choices Choices    // the bounds of choices; empty if the source has no choices
}

// isImage and isChoice report whether s is an image or choices.
func (s Source) isImage() bool  { return s.Image.C > 0 }
func (s Source) isChoice() bool { return len(s.Choices.Low) > 0 }

// shape returns the shape of a row of numbers or of an image.
func (s Source) shape() Image {
	if s.isImage() {
		return Image{s.Image.H, s.Image.W, s.Frames * s.Image.C}
	}
	return Image{1, 1, s.Width}
}
