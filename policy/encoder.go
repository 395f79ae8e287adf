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

// wordFeatures is how many features words have.
const wordFeatures = 32

// obsShape is what a network must know of an observation.
type obsShape struct {
	vector int // elements of the vectors together
	images []imageShape
	words  nn.Choices // of all words together
}

// An imageShape is one observation of U8: so many frames, whose channels are stacked.
type imageShape struct {
	name   string
	frames int
	nn.Image
}

// encoded reports whether there is more than vectors.
func (s obsShape) encoded() bool { return len(s.images)+len(s.words.Low) > 0 }

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
			return fmt.Errorf("observation %q: element %d is in [%v, %v]: want bounds in [%d, %d], or numbers of F32",
				f.Name, k, f.Low[k], f.High[k], math.MinInt16, math.MaxInt16)
		default:
			low, high = int(f.Low[k]), int(f.High[k])
		}
		c.Low, c.High = append(c.Low, low), append(c.High, high)
	}
	return nil
}

// sight is some rows of observations.
type sight[T nn.Float] struct {
	vector []T       // [n, vector]
	images [][]uint8 // of each image [n, frames, H, W, C]
	words  []int32   // [n, places]
	mask   []uint8   // [n, ΣNvec], for the distribution of actions; nil: everything is allowed
}

// encoder turns observations into rows of features: those of words, those of each image, by a
// network of its own that heeds the words, and the vectors, side by side. Actor and critic share
// it.
type encoder[T nn.Float] struct {
	words  *nn.Embedding[T] // nil without words
	images []*nn.ConvNet[T]
	said   int // features of words
	vector int
	out    int // width of a row
}

func newEncoder[T nn.Float](cfg Config, params *nn.Params[T], obs obsShape) *encoder[T] {
	e := &encoder[T]{vector: obs.vector}
	if len(obs.words.Low) > 0 {
		e.said = wordFeatures
		e.words = nn.NewEmbedding(params, "encoder.words", obs.words, e.said)
	}
	e.out = e.said + e.vector
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

func (e *encoder[T]) init(seed uint64) {
	if e.words != nil {
		e.words.Init(seed)
	}
	for _, net := range e.images {
		net.Init(seed)
	}
}

// encoderWork is the state of one user of an encoder.
type encoderWork[T nn.Float] struct {
	words  []T // [n, said], or the derivative by them
	images []*nn.ConvNetWork[T]

	y, dy, more []T // [n, out]: features, the derivative by them, and a part of that
}

func (e *encoder[T]) newWork(maxRows int) *encoderWork[T] {
	row := func(width int) []T { return nn.Vector[T](maxRows * width) }
	w := &encoderWork[T]{words: row(e.said), y: row(e.out), dy: row(e.out), more: row(e.out)}
	for _, net := range e.images {
		w.images = append(w.images, net.NewWork(maxRows))
	}
	return w
}

// forward returns the features [rows, out] of x, which must not change before backward.
func (e *encoder[T]) forward(w *encoderWork[T], x sight[T], rows int) []T {
	if e.words != nil {
		e.words.Forward(w.words, x.words, rows)
		copyColumns(w.y, e.out, w.words, e.said, e.said, rows)
	}
	at := e.said
	for i, net := range e.images {
		copyColumns(w.y[at:], e.out, net.Forward(w.images[i], x.images[i], x.words, rows), net.Out, net.Out, rows)
		at += net.Out
	}
	copyColumns(w.y[at:], e.out, x.vector, e.vector, e.vector, rows)
	return w.y[:rows*e.out]
}

// outGrad returns where backward expects the derivative by the features, and room for another part
// of it.
func (e *encoder[T]) outGrad(w *encoderWork[T], rows int) (dy, more []T) {
	return w.dy[:rows*e.out], w.more[:rows*e.out]
}

// backward adds the gradients of the last forward, which had x, given outGrad, and reports what is
// ready, from the last parameters to the first.
func (e *encoder[T]) backward(w *encoderWork[T], x sight[T], rows int, ready func(lo, hi int)) {
	at := e.out - e.vector
	for i := len(e.images) - 1; i >= 0; i-- {
		net := e.images[i]
		at -= net.Out
		copyColumns(net.OutGrad(w.images[i], rows), net.Out, w.dy[at:], e.out, net.Out, rows)
		net.Backward(w.images[i], rows, ready)
	}
	if e.words != nil {
		copyColumns(w.words, e.said, w.dy, e.out, e.said, rows)
		e.words.Backward(w.words, x.words, rows)
		if ready != nil {
			ready(e.words.Range())
		}
	}
}

// copyColumns copies the first width columns of rows of src to those of dst; rows are so many
// elements apart.
func copyColumns[T nn.Float](dst []T, dstStep int, src []T, srcStep, width, rows int) {
	for i := range rows {
		copy(dst[i*dstStep:][:width], src[i*srcStep:][:width])
	}
}
