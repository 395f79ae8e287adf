package algo

import "github.com/rlinf/rlinf/policy/lm"

// TextSums are what a model finds about texts, added up:
//
//  1. -Σ log p of the tokens to be learnt
//  2. how many these are
//  3. how many of them it finds likeliest
//  4. the texts in which it finds all of them likeliest
//  5. the texts
type TextSums [5]float64

// Add adds those of other texts.
func (s *TextSums) Add(o *TextSums) {
	for i, x := range o {
		s[i] += x
	}
}

// Metrics returns
//
//   - loss: the mean over the tokens to be learnt
//   - token_accuracy: the share of these tokens that the model finds likeliest
//   - exact_match: the share of texts in which that is true of all of them, so that greedy
//     generation answers token for token
func (s *TextSums) Metrics() Metrics {
	return Metrics{Names: []string{"loss", "token_accuracy", "exact_match"},
		Values: []float64{s[0] / s[1], s[2] / s[1], s[3] / s[4]}}
}

// MeasureTexts returns the TextSums of each text, without learning from it. threads is how many
// compute; they change no bit. progress is told of the texts; nil: nobody asks.
func MeasureTexts(m *lm.Model, limit MicroBatch, threads int, texts []Sequence, progress Progress) ([]TextSums, error) {
	p := newTextPass(m, limit, threads, 1)
	p.progress = progress
	defer p.Close()
	sums := make([]TextSums, len(texts))
	return sums, p.measure(texts, func(text int) *TextSums { return &sums[text] })
}

// measure adds what each text gives to sums of its index.
func (p *textPass) measure(all []Sequence, sums func(text int) *TextSums) error {
	p.count(workEvaluation, 0, len(all))
	var likely []bool
	return p.each(all, func(lo, _ int) error {
		likely = p.model.Likeliest(p.work, likely[:0], p.targets)
		i := 0
		for b := range len(p.batch.Starts) - 1 {
			s, exact := sums(lo+b), true
			for ; i < len(p.targets) && p.targets[i].Row < p.batch.Starts[b+1]; i++ {
				s[0] -= float64(p.logp[i])
				s[1]++
				if likely[i] {
					s[2]++
				}
				exact = exact && likely[i]
			}
			if exact {
				s[3]++
			}
			s[4]++
		}
		return nil
	})
}
