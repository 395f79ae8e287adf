package nn

import (
	"fmt"
	"math"
)

// A ConvNet computes rows of features from images of bytes. It has convolutions, then a hidden layer of ReLU units.
// Bytes are divided by 255. Several frames of a scene become one image with the channels of all frames.
//
// Words can modulate the features. Each element x of the first convolution then becomes (1+γ)x + β, where γ and β of
// the channel come from an Embedding (FiLM, Perez et al. 2018, arXiv:1709.07871).
type ConvNet[T Float] struct {
	Out int // number of features of an image

	pixels pixels[T]
	stem   *Conv2D[T]
	words  *Embedding[T] // gives all γ, then all β; nil without words
	layers []layer[T]
	head   *MLP[T]
}

// NatureSize is the smallest height and width of an image for NewNatureCNN.
const NatureSize = 36

// NewNatureCNN declares the network of Mnih et al. 2015 (doi:10.1038/nature14236) in p, for images of the given
// number of frames. If words is not empty, the network also reads words. It has 32 filters of 8×8 pixels at stride 4,
// 64 filters of 4×4 at stride 2, 64 filters of 3×3 at stride 1, and 512 features. ReLU follows each convolution.
func NewNatureCNN[T Float](p *Params[T], name string, frame Image, frames int, words Choices) *ConvNet[T] {
	n := newConvNet(p, name, frame, frames, words, 32, 8, 4, 0)
	n.rectify()
	n.convolve(p, name+".1", 64, 4, 2, 0)
	n.rectify()
	n.convolve(p, name+".2", 64, 3, 1, 0)
	n.rectify()
	n.finish(p, name, 512)
	return n
}

// NewImpalaCNN declares the residual network of Espeholt et al. 2018 (arXiv:1802.01561, figure 3)
// in p. It has three stages, of 16, 32 and 32 channels. A stage is a convolution of 3×3, a max pooling
// of 3×3 at stride 2, and two residual blocks. ReLU and 256 features follow.
func NewImpalaCNN[T Float](p *Params[T], name string, frame Image, frames int, words Choices) *ConvNet[T] {
	var n *ConvNet[T]
	for i, channels := range []int{16, 32, 32} {
		stage := fmt.Sprintf("%s.%d", name, i)
		if i == 0 {
			n = newConvNet(p, name, frame, frames, words, channels, 3, 1, 1)
		} else {
			n.convolve(p, stage, channels, 3, 1, 1)
		}
		n.layers = append(n.layers, newMaxPool[T](n.shape()))
		for block := range 2 {
			n.layers = append(n.layers, newResidual(p, fmt.Sprintf("%s.block%d", stage, block), n.shape()))
		}
	}
	n.rectify()
	n.finish(p, name, 256)
	return n
}

// NewKeypointCNN declares a small network in p. The network locates objects of a few pixels. It has two convolutions,
// each with 32 filters of 3×3 at stride 2, and a ReLU between them. A spatial softmax computes the position of each
// channel (Levine et al. 2016, arXiv:1504.00702). 128 features follow.
func NewKeypointCNN[T Float](p *Params[T], name string, frame Image, frames int, words Choices) *ConvNet[T] {
	n := newConvNet(p, name, frame, frames, words, 32, 3, 2, 1)
	n.rectify()
	n.convolve(p, name+".1", 32, 3, 2, 1)
	n.layers = append(n.layers, keypoints[T]{p, n.shape(), 1})
	n.finish(p, name, 128)
	return n
}

// newConvNet declares the first convolution (name.0) and its modulation by words (name.words).
func newConvNet[T Float](p *Params[T], name string, frame Image, frames int, words Choices, filters, size, stride,
	pad int) *ConvNet[T] {
	pixels := newPixels[T](frame, frames, [2]float64{0, 1})
	n := &ConvNet[T]{pixels: pixels, stem: NewConv2D(p, name+".0", pixels.shape(), filters, size, stride, pad)}
	if len(words.Low) > 0 {
		n.words = NewEmbedding(p, name+".words", words, 2*filters)
	}
	return n
}

// shape returns the shape of an output image of the last layer.
func (n *ConvNet[T]) shape() Image {
	if len(n.layers) == 0 {
		return n.stem.Out
	}
	return n.layers[len(n.layers)-1].Shape()
}

func (n *ConvNet[T]) convolve(p *Params[T], name string, filters, size, stride, pad int) {
	n.layers = append(n.layers, NewConv2D(p, name, n.shape(), filters, size, stride, pad))
}

func (n *ConvNet[T]) rectify() {
	n.layers = append(n.layers, rectifier[T]{n.stem.product.p, n.shape()})
}

func (n *ConvNet[T]) finish(p *Params[T], name string, features int) {
	n.head, n.Out = NewMLP(p, name+".features", n.shape().Len(), []int{features}, ReLU), features
}

// Init draws orthogonal weights with gain √2, and sets biases to 0. γ and β have an initial variance of about 1, so
// that words have an effect from the beginning.
func (n *ConvNet[T]) Init(seed uint64) {
	n.stem.Init(seed)
	if n.words != nil {
		n.words.Init(seed)
	}
	for _, l := range n.layers {
		l.Init(seed)
	}
	n.head.Init(seed, math.Sqrt2)
}

// A ConvNetWork holds the activations of one user of a ConvNet, for batches up to a fixed number of
// images.
type ConvNetWork[T Float] struct {
	conv   *ConvWork[T]
	images []T // a few images, the input of the first convolution
	stem   []T
	layers []layerWork[T]
	in     [][]T // the input of each layer, and of the head
	head   *MLPWork[T]

	film, dFilm []T // γ and β of each image, and the gradients of γ and β
	filmed      []T // the modulated stem

	pixels []uint8 // argument of the last Forward
	words  []int32
	d, e   []T // gradients of the outputs of layers, used in turn; allocated by the first Backward
	size   int // length of d and of e
}

// NewWork returns working memory for at most maxRows images.
func (n *ConvNet[T]) NewWork(maxRows int) *ConvNetWork[T] {
	w := &ConvNetWork[T]{
		conv: NewConvWork(n.stem), images: Vector[T](n.stem.batch() * n.stem.In.Len()),
		stem: Vector[T](maxRows * n.stem.Out.Len()),
		head: n.head.NewWork(maxRows), in: make([][]T, len(n.layers)+1), size: maxRows * n.stem.Out.Len(),
	}
	if n.words != nil {
		w.film, w.dFilm, w.filmed = Vector[T](maxRows*n.words.Out), Vector[T](maxRows*n.words.Out),
			Vector[T](len(w.stem))
	}
	for _, l := range n.layers {
		w.layers = append(w.layers, l.NewWork(maxRows, w.conv))
		w.size = max(w.size, maxRows*l.Shape().Len())
	}
	return w
}

// Forward returns the features, [n,Out], in memory of w. pixels, [n,frames,H,W,C], has the n images. words,
// [n,places], is nil if the network reads no words. pixels and words must not change before Backward.
func (n *ConvNet[T]) Forward(w *ConvNetWork[T], pixels []uint8, words []int32, rows int) []T {
	w.pixels, w.words = pixels, words
	n.eachBatch(w, rows, func(lo, count int) {
		n.stem.Forward(w.conv, w.stem[lo*n.stem.Out.Len():], w.images, count)
	})
	x := w.stem[:rows*n.stem.Out.Len()]
	if n.words != nil {
		n.words.Forward(w.film, words, len(n.words.zero), rows)
		n.words.p.Ops().Modulate(w.filmed, x, w.film, n.stem.Out, rows)
		x = w.filmed[:len(x)]
	}
	for i, l := range w.layers {
		w.in[i] = x
		x = l.Forward(x, rows)
	}
	w.in[len(w.layers)] = x
	return n.head.Forward(w.head, x, rows)
}

// eachBatch unpacks a few images at a time into w.images, and then calls visit for these images.
func (n *ConvNet[T]) eachBatch(w *ConvNetWork[T], rows int, visit func(lo, count int)) {
	each := n.stem.In.Len()
	for lo, count := 0, 0; lo < rows; lo += count {
		count = min(n.stem.batch(), rows-lo)
		for i := range count {
			n.pixels.unpack(w.images[i*each:(i+1)*each], w.pixels[(lo+i)*each:(lo+i+1)*each])
		}
		visit(lo, count)
	}
}

// OutGrad returns memory, [n,Out], for the gradient of the features. Fill it before Backward.
func (n *ConvNet[T]) OutGrad(w *ConvNetWork[T], rows int) []T { return n.head.OutGrad(w.head, rows) }

// Backward adds the gradients of the last Forward on w. It reads the gradient of the features from OutGrad, and
// overwrites this memory. Unless ready is nil, Backward calls ready as soon as the gradients of a layer are complete,
// beginning with the last layer.
func (n *ConvNet[T]) Backward(w *ConvNetWork[T], rows int, ready func(lo, hi int)) {
	if w.d == nil {
		w.d, w.e = Vector[T](w.size), Vector[T](w.size)
	}
	top := w.in[len(w.layers)]
	dy, free := w.d[:len(top)], w.e
	n.head.Backward(w.head, dy, top, rows, ready)
	for i := len(w.layers) - 1; i >= 0; i-- {
		dx := w.layers[i].Backward(free[:len(w.in[i])], w.in[i], dy, rows, ready)
		if &dx[0] != &dy[0] {
			free = dy[:cap(dy)]
		}
		dy = dx
	}
	if n.words != nil {
		n.words.p.Ops().ModulateGrad(w.dFilm, dy, w.stem, w.film, n.stem.Out, rows)
		n.words.Backward(w.dFilm, w.words, len(n.words.zero), rows)
		if ready != nil {
			ready(n.words.Range())
		}
	}
	n.eachBatch(w, rows, func(lo, count int) {
		n.stem.Backward(w.conv, nil, w.images, dy[lo*n.stem.Out.Len():], count)
	})
	if ready != nil {
		ready(n.stem.Range())
	}
}
