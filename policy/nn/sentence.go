package nn

import (
	"math"
)

// sentence gives features to the words of a sentence: Σ_k E[word k] ⊙ P[k]. A word has one row of
// E [words, Out] wherever it stands. The factors P [places, Out] tell the places apart, so that "the
// red cube on the blue cube" is not "the blue cube on the red cube". The first word of all is none:
// it adds nothing.
type sentence[T Float] struct {
	p                *Params[T]
	out              int
	first, all       int // its places among all choices
	places, words    int
	none             int32
	weight, position int // fields
}

func newSentence[T Float](p *Params[T], name string, c Choices, out, first, all int) *sentence[T] {
	s := &sentence[T]{p: p, out: out, first: first, all: all, places: len(c.Low), words: c.High[0] - c.Low[0] + 1,
		none: int32(c.Low[0])}
	s.weight = p.Add(name+".weight", s.words, out)
	s.position = p.Add(name+".position", s.places, out)
	return s
}

// wordsOfSentence is how many words a sentence has, about, where features are to have a variance of
// 1, and placeSpread how much the factors of places differ at the beginning.
const (
	wordsOfSentence = 6
	placeSpread     = 0.5
)

func (s *sentence[T]) Init(seed uint64) {
	for _, m := range []struct {
		field, rows int
		scale, add  float64
	}{{s.weight, s.words, 1 / math.Sqrt(wordsOfSentence), 0}, {s.position, s.places, placeSpread, 1}} {
		x := s.p.Of(m.field)
		gain := m.scale * math.Sqrt(float64(max(m.rows, s.out)))
		Orthogonal(x, m.rows, s.out, gain, seed, uint64(m.field))
		for i := range x {
			x[i] += T(m.add)
		}
	}
}

func (s *sentence[T]) NewWork(maxRows int) unitWork[T] {
	return &sentenceWork[T]{sentence: s, y: Vector[T](maxRows * s.out)}
}

type sentenceWork[T Float] struct {
	*sentence[T]
	y []T
}

// each calls do for every word of every row.
func (w *sentenceWork[T]) each(b *Batch[T], do func(row, place, word int)) {
	for row := range b.Rows {
		for k, c := range b.Choices[row*w.all+w.first:][:w.places] {
			if c != w.none {
				do(row, k, int(c-w.none))
			}
		}
	}
}

func (w *sentenceWork[T]) Forward(b *Batch[T], _ []T) []T {
	n, weight, position := w.out, w.p.Of(w.weight), w.p.Of(w.position)
	y := w.y[:b.Rows*n]
	clear(y)
	w.each(b, func(row, place, word int) {
		e, p := weight[word*n:][:n], position[place*n:][:n]
		for i := range e {
			y[row*n+i] += T(e[i] * p[i])
		}
	})
	return y
}

func (w *sentenceWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) {
	n, weight, position := w.out, w.p.Of(w.weight), w.p.Of(w.position)
	dWeight, dPosition := w.p.GradOf(w.weight), w.p.GradOf(w.position)
	w.each(b, func(row, place, word int) {
		e, p, d := weight[word*n:][:n], position[place*n:][:n], dy[row*n:][:n]
		de, dp := dWeight[word*n:][:n], dPosition[place*n:][:n]
		for i, v := range d {
			de[i] += T(v * p[i])
			dp[i] += T(v * e[i])
		}
	})
	ready(w.p.Range(w.weight, w.position))
}
