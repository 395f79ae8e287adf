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
)

// wordFeatures is how many features the words of one observation have.
const wordFeatures = 32

// obsShape is what a network must know of an observation.
type obsShape struct {
	vector int // elements of the vectors together
	images []imageShape
	words  []wordRange
}

// An imageShape is one observation of U8: so many frames, whose channels are stacked.
type imageShape struct {
	name   string
	frames int
	nn.Image
}

// A wordRange is one observation of I32: choice k is from low[k] to high[k].
type wordRange struct {
	name      string
	low, high []int
}

// encoded reports whether there is more than vectors.
func (s obsShape) encoded() bool { return len(s.images)+len(s.words) > 0 }

// imageOf reads the shape of an image, for the encoder of that name.
func imageOf(f env.Field, encoder string) (imageShape, error) {
	frames, dims := 1, f.Shape
	if len(dims) == 4 {
		frames, dims = dims[0], dims[1:]
	}
	if len(dims) != 3 {
		return imageShape{}, fmt.Errorf("observation %q: image of %v: want [H W C], or [frames H W C]", f.Name, f.Shape)
	}
	s := imageShape{f.Name, frames, nn.Image{H: dims[0], W: dims[1], C: dims[2]}}
	least := 1
	if encoder == NatureCNN {
		least = nn.NatureSize
	}
	if min(s.H, s.W) < least || min(s.C, s.frames) < 1 {
		return imageShape{}, fmt.Errorf("observation %q: image of %v: encoder %s wants at least %d×%d pixels", f.Name, f.Shape, encoder, least, least)
	}
	return s, nil
}

// wordsOf reads the bounds of an observation of words.
func wordsOf(f env.Field) (wordRange, error) {
	s := wordRange{name: f.Name}
	for k := range f.Dim() {
		low, high := 0, 0
		switch {
		case f.Kind != env.Box:
			high = f.Nvec[k%len(f.Nvec)] - 1
		case !(f.Low[k] >= math.MinInt16 && f.High[k] <= math.MaxInt16):
			return s, fmt.Errorf("observation %q: element %d is in [%v, %v]: want bounds in [%d, %d]", f.Name, k, f.Low[k], f.High[k], math.MinInt16, math.MaxInt16)
		default:
			low, high = int(f.Low[k]), int(f.High[k])
		}
		s.low, s.high = append(s.low, low), append(s.high, high)
	}
	return s, nil
}

// check returns an error that names the first of words, [n, places], that is out of its bounds.
func (s wordRange) check(words []int32) error {
	for i, v := range words {
		if k := i % len(s.low); int(v) < s.low[k] || int(v) > s.high[k] {
			return fmt.Errorf("observation %q: row %d, element %d: %d: want %d to %d", s.name, i/len(s.low), k, v, s.low[k], s.high[k])
		}
	}
	return nil
}

// sight is some rows of observations.
type sight[T nn.Float] struct {
	vector []T       // [n, vector]
	images [][]uint8 // of each image [n, frames, H, W, C]
	words  [][]int32 // of each observation of words [n, places]
}

// encoder turns observations into rows of features: those of each image, by a network of its own, those of words, and the vectors, side by side. Actor
// and critic share it.
type encoder[T nn.Float] struct {
	images []*nn.ConvNet[T]
	words  []*nn.Embedding[T]
	vector int
	out    int // width of a row
}

func newEncoder[T nn.Float](cfg Config, params *nn.Params[T], obs obsShape) *encoder[T] {
	e := &encoder[T]{vector: obs.vector, out: obs.vector}
	for _, s := range obs.images {
		build := nn.NewNatureCNN[T]
		if cfg.Encoder == ImpalaCNN {
			build = nn.NewImpalaCNN[T]
		}
		net := build(params, "encoder."+s.name, s.Image, s.frames)
		e.images = append(e.images, net)
		e.out += net.Out
	}
	for _, s := range obs.words {
		e.words = append(e.words, nn.NewEmbedding(params, "encoder."+s.name, s.low, s.high, wordFeatures))
		e.out += wordFeatures
	}
	return e
}

func (e *encoder[T]) init(seed uint64) {
	for _, net := range e.images {
		net.Init(seed)
	}
	for _, words := range e.words {
		words.Init(seed)
	}
}

// encoderWork is the state of one user of an encoder.
type encoderWork[T nn.Float] struct {
	images []*nn.ConvNetWork[T]
	words  []T // features of one observation of words, or the derivative by them

	y, dy, more []T // [n, out]: features, the derivative by them, and a part of that
}

func (e *encoder[T]) newWork(maxRows int) *encoderWork[T] {
	row := func(width int) []T { return nn.Vector[T](maxRows * width) }
	w := &encoderWork[T]{words: row(wordFeatures), y: row(e.out), dy: row(e.out), more: row(e.out)}
	for _, net := range e.images {
		w.images = append(w.images, net.NewWork(maxRows))
	}
	return w
}

// forward returns the features [rows, out] of x, which must not change before backward.
func (e *encoder[T]) forward(w *encoderWork[T], x sight[T], rows int) []T {
	at := 0
	for i, net := range e.images {
		copyColumns(w.y[at:], e.out, net.Forward(w.images[i], x.images[i], rows), net.Out, net.Out, rows)
		at += net.Out
	}
	for i, words := range e.words {
		words.Forward(w.words, x.words[i], rows)
		copyColumns(w.y[at:], e.out, w.words, wordFeatures, wordFeatures, rows)
		at += wordFeatures
	}
	copyColumns(w.y[at:], e.out, x.vector, e.vector, e.vector, rows)
	return w.y[:rows*e.out]
}

// outGrad returns where backward expects the derivative by the features, and room for another part of it.
func (e *encoder[T]) outGrad(w *encoderWork[T], rows int) (dy, more []T) {
	return w.dy[:rows*e.out], w.more[:rows*e.out]
}

// backward adds the gradients of the last forward, which had x, given outGrad, and reports what is ready, from the last parameters to the first.
func (e *encoder[T]) backward(w *encoderWork[T], x sight[T], rows int, ready func(lo, hi int)) {
	at := e.out - e.vector
	for i := len(e.words) - 1; i >= 0; i-- {
		at -= wordFeatures
		copyColumns(w.words, wordFeatures, w.dy[at:], e.out, wordFeatures, rows)
		e.words[i].Backward(w.words, x.words[i], rows)
		if ready != nil {
			ready(e.words[i].Range())
		}
	}
	for i := len(e.images) - 1; i >= 0; i-- {
		net := e.images[i]
		at -= net.Out
		copyColumns(net.OutGrad(w.images[i], rows), net.Out, w.dy[at:], e.out, net.Out, rows)
		net.Backward(w.images[i], rows, ready)
	}
}

// copyColumns copies the first width columns of rows of src to those of dst; rows are so many elements apart.
func copyColumns[T nn.Float](dst []T, dstStep int, src []T, srcStep, width, rows int) {
	for i := range rows {
		copy(dst[i*dstStep:][:width], src[i*srcStep:][:width])
	}
}
