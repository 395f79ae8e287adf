package nn

import (
	"math"
)

// A wording tells which columns of a batch's choices hold the words of a sentence. Each row of the choices is a sample.
type wording struct {
	first, total  int   // first column of the sentence, and number of columns of a row
	places, words int   // number of columns of the sentence, and number of options of a column
	none          int32 // the option that means no word
}

func newWording(c Choices, first, total int) wording {
	return wording{first: first, total: total, places: len(c.Low), words: c.High[0] - c.Low[0] + 1,
		none: int32(c.Low[0])}
}

// eachWord calls visit for each word of a row, and returns the number of words. i is the index of the word among the
// words, place is its place in the sentence, and word is its option, counted from the option for no word.
func (s *wording) eachWord(choices []int32, row int, visit func(i, place, word int)) (n int) {
	for place, c := range choices[row*s.total+s.first:][:s.places] {
		if c != s.none {
			visit(n, place, int(c-s.none))
			n++
		}
	}
	return n
}

// sentence computes the features of a sentence: Σ_k E[word k] ⊙ P[k]. A word has the same row of E [words, Out] at all
// places. The factors P [places, Out] distinguish the places, so that "the red cube on the blue cube" is not "the blue
// cube on the red cube". A place without a word adds nothing.
type sentence[T Float] struct {
	wording
	p                *Params[T]
	out              int
	weight, position int // fields of p for E and P
}

func newSentence[T Float](p *Params[T], name string, c Choices, out, first, all int) *sentence[T] {
	s := &sentence[T]{wording: newWording(c, first, all), p: p, out: out}
	s.weight = p.Add(name+".weight", s.words, out)
	s.position = p.Add(name+".position", s.places, out)
	return s
}

// wordsOfSentence is a typical number of words. A sentence of this length has initial features with a variance of about
// 1. placeSpread is the standard deviation of the initial factors of places.
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

func (s *sentence[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &sentenceWork[T]{sentence: s, y: w.rows(s.out)}
}

type sentenceWork[T Float] struct {
	*sentence[T]
	y []T
}

func (w *sentenceWork[T]) Forward(b *Batch[T], _ []T) []T {
	n, weight, position := w.out, w.p.Of(w.weight), w.p.Of(w.position)
	y := w.y[:b.Rows*n]
	clear(y)
	for row := range b.Rows {
		w.eachWord(b.Choices, row, func(_, place, word int) {
			e, p := weight[word*n:][:n], position[place*n:][:n]
			for i := range e {
				y[row*n+i] += T(e[i] * p[i])
			}
		})
	}
	return y
}

func (w *sentenceWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) []T {
	n, weight, position := w.out, w.p.Of(w.weight), w.p.Of(w.position)
	dWeight, dPosition := w.p.GradOf(w.weight), w.p.GradOf(w.position)
	for row := range b.Rows {
		w.eachWord(b.Choices, row, func(_, place, word int) {
			e, p, d := weight[word*n:][:n], position[place*n:][:n], dy[row*n:][:n]
			de, dp := dWeight[word*n:][:n], dPosition[place*n:][:n]
			for i, v := range d {
				de[i] += T(v * p[i])
				dp[i] += T(v * e[i])
			}
		})
	}
	ready(w.p.Range(w.weight, w.position))
	return nil
}
