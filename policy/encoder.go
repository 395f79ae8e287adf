package policy

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
)

// Values of Config.Encoder.
const (
	NatureCNN = "nature_cnn"
	ImpalaCNN = "impala"
	Keypoints = "keypoints"
)

// wordFeatures is the total number of features for the words of a row.
const wordFeatures = 32

// obsShape describes an observation for a network.
type obsShape struct {
	numbers int // count of numbers in a row
	images  []imageShape
	words   nn.Choices // bounds of all words, side by side

	own     *nn.Layer // the user's own layers, which compute features from sources; nil without such layers
	sources []nn.Source
}

// An imageShape describes an observation of U8 images. A row has several frames, stacked along the channels.
type imageShape struct {
	name   string
	frames int
	nn.Image
}

// encoded reports whether the user's layers or an encoder compute features of the observations.
func (s obsShape) encoded() bool { return s.own != nil || len(s.images)+len(s.words.Low) > 0 }

// imageOf returns the shape of the images in f. It returns an error if they are too small for the named encoder.
func imageOf(f env.Field, encoder string) (imageShape, error) {
	frames, dims := 1, f.Shape
	if len(dims) == 4 {
		frames, dims = dims[0], dims[1:]
	}
	if len(dims) != 3 {
		return imageShape{}, fmt.Errorf("observation %q: image of %v: expected [H W C], or [frames H W C]", f.Name,
			f.Shape)
	}
	s := imageShape{f.Name, frames, nn.Image{H: dims[0], W: dims[1], C: dims[2]}}
	least := 1
	if encoder == NatureCNN {
		least = nn.NatureSize
	}
	if min(s.H, s.W) < least || min(s.C, s.frames) < 1 {
		return imageShape{}, fmt.Errorf("observation %q: image of %v: encoder %s wants at least %d×%d pixels", f.Name,
			f.Shape, encoder, least, least)
	}
	return s, nil
}

// addWords adds the bounds of the words of f to c.
func addWords(c *nn.Choices, f env.Field) error {
	for k := range f.Dim() {
		low, high := 0, 0
		switch {
		case f.Kind != env.Box:
			high = f.Nvec[k%len(f.Nvec)] - 1
		case !(f.Low[k] >= math.MinInt16 && f.High[k] <= math.MaxInt16):
			return fmt.Errorf("observation %q: element %d is in [%v, %v]: expected bounds in [%d, %d], or numbers "+
				"of F32", f.Name, k, f.Low[k], f.High[k], math.MinInt16, math.MaxInt16)
		default:
			low, high = int(f.Low[k]), int(f.High[k])
		}
		c.Low, c.High = append(c.Low, low), append(c.High, high)
	}
	return nil
}

// A batch holds some rows of observations.
type batch[T nn.Float] struct {
	nn.Batch[T]
	mask []uint8 // [Rows, ΣNvec], for the distribution of actions; nil allows every option
}

// An encoder turns observations into rows of features. A row holds, side by side, the features of the words, the
// features of each image, and the numbers. The network of an image also reads the words. Actor and critic share the
// encoder.
type encoder[T nn.Float] struct {
	ops       nn.Ops[T]
	places    int              // number of words of a row
	words     *nn.Embedding[T] // nil without words
	images    []*nn.ConvNet[T]
	wordWidth int // features of words
	numbers   int
	out       int // width of a row
}

// features is the part of a network that turns observations into features, before the trunks.
type features[T nn.Float] interface {
	Width() int // width of a row of features
	State() int // size of the recurrent state of a row; 0 without recurrent cells
	Init(seed uint64)
	NewWork(maxRows int) featuresWork[T]
}

// featuresWork is the state of one user of features.
type featuresWork[T nn.Float] interface {
	// Forward returns the features of x, [Rows, width]. x must not change before Backward.
	Forward(x batch[T]) []T
	// OutGrad returns dy, the slice from which Backward reads the gradient with respect to the features. It also
	// returns dy2, memory of the same size for a second term of this gradient.
	OutGrad(rows int) (dy, dy2 []T)
	// Backward adds the gradients of the last Forward, whose input was x. It reads the gradient with respect to the
	// features from dy, the first result of OutGrad. Backward calls ready for ranges from the end of the flat gradient
	// to its beginning.
	Backward(x batch[T], ready func(lo, hi int))
}

// newFeatures declares the layers that compute features of obs. obs must have images, words or the user's layers.
func newFeatures[T nn.Float](cfg Config, params *nn.Params[T], obs obsShape) (features[T], error) {
	if obs.own == nil {
		return newEncoder(cfg, params, obs), nil
	}
	net, err := nn.NewNet(params, "encoder", *obs.own, obs.sources)
	if err != nil {
		return nil, err
	}
	return ownFeatures[T]{net}, nil
}

func newEncoder[T nn.Float](cfg Config, params *nn.Params[T], obs obsShape) *encoder[T] {
	e := &encoder[T]{ops: params.Ops(), numbers: obs.numbers, places: len(obs.words.Low)}
	if len(obs.words.Low) > 0 {
		e.wordWidth = wordFeatures
		e.words = nn.NewEmbedding(params, "encoder.words", obs.words, e.wordWidth)
	}
	e.out = e.wordWidth + e.numbers
	build := nn.NewNatureCNN[T]
	switch cfg.Encoder {
	case ImpalaCNN:
		build = nn.NewImpalaCNN[T]
	case Keypoints:
		build = nn.NewKeypointCNN[T]
	}
	for _, s := range obs.images {
		net := build(params, "encoder."+s.name, s.Image, s.frames, obs.words)
		e.images = append(e.images, net)
		e.out += net.Out
	}
	return e
}

func (e *encoder[T]) Width() int { return e.out }
func (e *encoder[T]) State() int { return 0 }

func (e *encoder[T]) Init(seed uint64) {
	if e.words != nil {
		e.words.Init(seed)
	}
	for _, net := range e.images {
		net.Init(seed)
	}
}

// encoderWork is the state of one user of an encoder.
type encoderWork[T nn.Float] struct {
	of     *encoder[T]
	words  []T // [n, wordWidth]: features of words, or their gradient
	images []*nn.ConvNetWork[T]

	y, dy, dy2 []T // [n, out]: features, their gradient, and memory for a second term of the gradient
}

func (e *encoder[T]) NewWork(maxRows int) featuresWork[T] {
	row := func(width int) []T { return nn.Vector[T](maxRows * width) }
	w := &encoderWork[T]{of: e, words: row(e.wordWidth), y: row(e.out), dy: row(e.out), dy2: row(e.out)}
	for _, net := range e.images {
		w.images = append(w.images, net.NewWork(maxRows))
	}
	return w
}

func (w *encoderWork[T]) Forward(x batch[T]) []T {
	e, rows := w.of, x.Rows
	if e.words != nil {
		e.words.Forward(w.words, x.Choices, e.places, rows)
		e.ops.CopyColumns(w.y, e.out, w.words, e.wordWidth, e.wordWidth, rows)
	}
	at := e.wordWidth
	for i, net := range e.images {
		y := net.Forward(w.images[i], x.Images[i], x.Choices, rows)
		e.ops.CopyColumns(w.y[at:], e.out, y, net.Out, net.Out, rows)
		at += net.Out
	}
	e.ops.CopyColumns(w.y[at:], e.out, x.Numbers, e.numbers, e.numbers, rows)
	return w.y[:rows*e.out]
}

func (w *encoderWork[T]) OutGrad(rows int) (dy, dy2 []T) {
	return w.dy[:rows*w.of.out], w.dy2[:rows*w.of.out]
}

func (w *encoderWork[T]) Backward(x batch[T], ready func(lo, hi int)) {
	e, rows := w.of, x.Rows
	at := e.out - e.numbers
	for i := len(e.images) - 1; i >= 0; i-- {
		net := e.images[i]
		at -= net.Out
		e.ops.CopyColumns(net.OutGrad(w.images[i], rows), net.Out, w.dy[at:], e.out, net.Out, rows)
		net.Backward(w.images[i], rows, ready)
	}
	if e.words != nil {
		e.ops.CopyColumns(w.words, e.wordWidth, w.dy, e.out, e.wordWidth, rows)
		e.words.Backward(w.words, x.Choices, e.places, rows)
		if ready != nil {
			ready(e.words.Range())
		}
	}
}
