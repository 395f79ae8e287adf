package nn

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// pointing is word-conditioned attention. For each word of a sentence it computes the position of an object in an
// image: the object that the word means. E [words, C] has a row q for each word. q is the same at all places of the
// sentence. F [H,W,C] has the features of all pixels. The position of a word is the position that a spotter computes
// for the channel q·F. All words share F, so that "red" means the same in "the red cube" and in "the red zone". A place
// without a word has the position (0,0).
type pointing[T Float] struct {
	wording
	p         *Params[T]
	in        Image
	deviation float64
	weight    int // field of p for E
}

func newPointing[T Float](p *Params[T], name string, in Image, c Choices, deviation float64, first,
	all int) *pointing[T] {
	u := &pointing[T]{wording: newWording(c, first, all), p: p, in: in, deviation: deviation}
	u.weight = p.Add(name+".weight", u.words, in.C)
	return u
}

// Init draws rows of variance about 1/C.
func (u *pointing[T]) Init(seed uint64) {
	gain := math.Sqrt(float64(max(u.words, u.in.C)) / float64(u.in.C))
	Orthogonal(u.p.Of(u.weight), u.words, u.in.C, gain, seed, uint64(u.weight))
}

func (u *pointing[T]) NewWork(w *NetWork[T]) unitWork[T] {
	each := u.in.H * u.in.W * u.places
	return &pointingWork[T]{
		pointing: u, spotter: newSpotter[T](u.in, u.deviation), y: w.rows(2 * u.places),
		scale: w.rows(u.places), logits: w.rows(each), prob: w.rows(each),
		query: Vector[T](u.places * u.in.C), turned: Vector[T](u.in.Len()),
	}
}

type pointingWork[T Float] struct {
	*pointing[T]
	spotter[T]
	x, y         []T // the input, and the output [n, 2·places]: all x, then all y of a row
	scale        []T // [n, places], the scale that spot returns for each word
	logits, prob []T // [n, places, H·W]: the words of a row, without gaps for places without a word
	query        []T // [places, C], the rows of E for the words of one row
	turned       []T // [C, H·W], the features of an image

	d, dQuery []T // gradients for one image, [places, H·W] and [places, C]; allocated by the first Backward
}

// ask sets query to the rows of E for the words in one row of b, and returns the number of words.
func (w *pointingWork[T]) ask(b *Batch[T], row int) int {
	c, weight := w.in.C, w.p.Of(w.weight)
	return w.eachWord(b.Choices, row, func(i, _, word int) { copy(w.query[i*c:(i+1)*c], weight[word*c:]) })
}

func (w *pointingWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x = x
	pixels, c, size := w.in.H*w.in.W, w.in.C, w.in.Len()
	y := w.y[:b.Rows*2*w.places]
	clear(y)
	for row := range b.Rows {
		n, lo := w.ask(b, row), row*w.places
		logits, prob := w.logits[lo*pixels:], w.prob[lo*pixels:]
		kernel.Transpose(w.turned, x[row*size:(row+1)*size], pixels, c)
		kernel.Gemm(logits[:n*pixels], w.query[:n*c], w.turned, n, pixels, c, false)
		w.eachWord(b.Choices, row, func(i, place, _ int) {
			at := 2*lo + place
			y[at], y[at+w.places], w.scale[lo+i] = w.spot(prob[i*pixels:(i+1)*pixels], logits[i*pixels:(i+1)*pixels])
		})
	}
	return y
}

func (w *pointingWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	pixels, c, size := w.in.H*w.in.W, w.in.C, w.in.Len()
	if w.d == nil {
		w.d, w.dQuery = Vector[T](w.places*pixels), Vector[T](w.places*c)
	}
	grad := w.p.GradOf(w.weight)
	for row := range b.Rows {
		n, lo := w.ask(b, row), row*w.places
		logits, prob := w.logits[lo*pixels:], w.prob[lo*pixels:]
		w.eachWord(b.Choices, row, func(i, place, _ int) {
			at := 2*lo + place
			w.spotGrad(w.d[i*pixels:(i+1)*pixels], prob[i*pixels:(i+1)*pixels], logits[i*pixels:(i+1)*pixels],
				w.y[at], w.y[at+w.places], w.scale[lo+i], dy[at], dy[at+w.places])
		})
		kernel.Gemm(w.dQuery[:n*c], w.d[:n*pixels], w.x[row*size:(row+1)*size], n, c, pixels, false)
		w.eachWord(b.Choices, row, func(i, _, word int) {
			kernel.Axpy(grad[word*c:(word+1)*c], 1, w.dQuery[i*c:(i+1)*c])
		})
		if dx != nil {
			kernel.GemmTA(dx[row*size:(row+1)*size], w.d[:n*pixels], w.query[:n*c], pixels, c, n, false)
		}
	}
	ready(w.p.Range(w.weight, w.weight))
	return dx
}
