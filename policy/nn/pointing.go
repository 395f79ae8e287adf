package nn

import "math"

// pointing is word-conditioned attention. For each word of a sentence, it computes the position in an image of the
// object that the word means. E [words, C] has a row q for each word, which is the same at all places of the sentence.
// F [H,W,C] has the features of all pixels. The position of a word is that of the channel q·F (Ops.SpatialSoftmax). All
// words share F, so that "red" means the same in "the red cube" and in "the red zone". A place without a word has the
// position (0,0).
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
	words := w.maxRows * u.places
	pixels := u.in.H * u.in.W
	return &pointingWork[T]{
		pointing: u, grid: newGrid[T](u.in, u.deviation), index: make([]int32, 0, words), at: make([]int, 0, words),
		end: make([]int, w.maxRows), y: w.rows(2 * u.places), position: Vector[T](2 * words),
		scale: Vector[T](words), logits: Vector[T](words * pixels), prob: Vector[T](words * pixels),
		query: Vector[T](words * u.in.C), turned: Vector[T](u.in.Len()),
	}
}

// A pointingWork is the memory of one user. W is the number of words in all rows of a batch; it does not count places
// without a word.
type pointingWork[T Float] struct {
	*pointing[T]
	grid            PixelGrid[T]
	index           []int32 // [W], the row of E of each word
	at              []int   // [W], the index in y of the word's x coordinate; its y coordinate is places further on
	end             []int   // [n], the number of words in the rows up to and including this one
	x, y            []T     // the input, and the output [n, 2·places]: all x, then all y of a row
	position, scale []T     // [W, 2] and [W], from Ops.SpatialSoftmax
	logits, prob    []T     // [W, H·W]; Backward replaces prob with the gradient of the channels
	query           []T     // [W, C], the rows of E for the words, then their gradients
	turned          []T     // [C, H·W], the features of an image
	dPosition       []T     // [W, 2]; allocated by the first Backward
}

// read finds the words of a batch.
func (w *pointingWork[T]) read(b *Batch[T]) {
	w.index, w.at = w.index[:0], w.at[:0]
	for row := range b.Rows {
		w.eachWord(b.Choices, row, func(_, place, word int) {
			w.index, w.at = append(w.index, int32(word)), append(w.at, 2*row*w.places+place)
		})
		w.end[row] = len(w.index)
	}
}

// words returns the range of the words of a row.
func (w *pointingWork[T]) words(row int) (lo, hi int) {
	if row > 0 {
		lo = w.end[row-1]
	}
	return lo, w.end[row]
}

func (w *pointingWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x = x
	w.read(b)
	o, n, pixels, c, size := w.p.Ops(), len(w.index), w.in.H*w.in.W, w.in.C, w.in.Len()
	logits, query := w.logits[:n*pixels], w.query[:n*c]
	o.CopyRows(query, Rows{}, w.p.Of(w.weight), Rows{Index: w.index}, nil, c, n)
	for row := range b.Rows { // one product for each row, because each row has features of its own
		lo, hi := w.words(row)
		o.Transpose(w.turned, x[row*size:(row+1)*size], pixels, c, 1)
		o.Product(logits[lo*pixels:hi*pixels], query[lo*c:hi*c], w.turned, nil, hi-lo, pixels, c, false)
	}
	o.SpatialSoftmax(w.position[:2*n], w.scale[:n], w.prob[:n*pixels], logits, &w.grid, n, 1)
	y := w.y[:b.Rows*2*w.places]
	clear(y)
	for i, at := range w.at {
		y[at], y[at+w.places] = w.position[2*i], w.position[2*i+1]
	}
	return y
}

func (w *pointingWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	o, n, pixels, c, size := w.p.Ops(), len(w.index), w.in.H*w.in.W, w.in.C, w.in.Len()
	if w.dPosition == nil {
		w.dPosition = Vector[T](len(w.position))
	}
	for i, at := range w.at {
		w.dPosition[2*i], w.dPosition[2*i+1] = dy[at], dy[at+w.places]
	}
	d, query := w.prob[:n*pixels], w.query[:n*c]
	o.SpatialSoftmaxGrad(d, w.logits[:n*pixels], w.position[:2*n], w.scale[:n], w.dPosition[:2*n], &w.grid, n, 1)
	for row := range b.Rows {
		lo, hi := w.words(row)
		image := row * size
		if dx != nil {
			o.Gradient(dx[image:image+size], d[lo*pixels:hi*pixels], query[lo*c:hi*c], pixels, c, hi-lo, false)
		}
		o.Product(query[lo*c:hi*c], d[lo*pixels:hi*pixels], w.x[image:image+size], nil, hi-lo, c, pixels, false)
	}
	o.AddRows(w.p.GradOf(w.weight), Rows{Index: w.index}, query, Rows{}, nil, c, n)
	ready(w.p.Range(w.weight, w.weight))
	return dx
}
