package algo

import "github.com/rlinf/rlinf/policy/lm"

// TextSums holds sums over texts, from which Metrics computes the quality of a model.
type TextSums struct {
	Loss      float64 // -Σ log p of the tokens to be learnt
	Targets   float64 // number of tokens to be learnt
	Likeliest float64 // number of tokens to be learnt that have the largest probability
	Exact     float64 // number of texts whose tokens to be learnt all have the largest probability
	Texts     float64 // number of texts
}

// Add adds the sums o of other texts to s.
func (s *TextSums) Add(o *TextSums) {
	s.Loss += o.Loss
	s.Targets += o.Targets
	s.Likeliest += o.Likeliest
	s.Exact += o.Exact
	s.Texts += o.Texts
}

// reduce replaces s by its sum over all replicas.
func (s *TextSums) reduce(r Replicas) error {
	x := []float64{s.Loss, s.Targets, s.Likeliest, s.Exact, s.Texts}
	err := r.Sum(x)
	*s = TextSums{Loss: x[0], Targets: x[1], Likeliest: x[2], Exact: x[3], Texts: x[4]}
	return err
}

// Metrics returns
//
//   - loss: the mean over the tokens to be learnt
//   - token_accuracy: the share of these tokens that have the largest probability
//   - exact_match: the share of texts in which all of these tokens have the largest probability, so
//     that greedy generation gives the answer token for token
func (s *TextSums) Metrics() (m Metrics) {
	m.add("loss", quotient(s.Loss, s.Targets))
	m.add("token_accuracy", quotient(s.Likeliest, s.Targets))
	m.add("exact_match", quotient(s.Exact, s.Texts))
	return m
}

// MeasureTexts returns the TextSums of each text, without a training step. threads is the number of threads, and mesh
// connects the ranks over which m is sharded. The results do not depend on either of them, bit for bit. progress, which
// may be nil, receives the number of texts measured so far.
func MeasureTexts(m *lm.Model, limit MicroBatch, threads int, mesh lm.Mesh, texts []Sequence, progress Progress) (
	[]TextSums, error) {
	p := NewTextLogProbs(m, limit, threads, mesh, 1)
	defer p.Close()
	sums := make([]TextSums, len(texts))
	return sums, p.measure(texts, func(text int) *TextSums { return &sums[text] }, progress)
}

// measure measures the model on each text, and adds the result for text i to sums(i).
func (p *textPass) measure(texts []Sequence, sums func(text int) *TextSums, progress Progress) error {
	progress.Report(workEvaluation, 0, len(texts))
	h := p.head
	h.Likeliest = true
	return p.infer(texts, h, func(lo, hi int, o *lm.Outputs) {
		i := 0
		for k, q := range texts[lo:hi] {
			s, exact := sums(lo+k), true
			for _, learn := range q.Learn {
				if !learn {
					continue
				}
				s.Loss -= float64(o.LogProb[i])
				s.Targets++
				s.Likeliest += float64(o.Likeliest[i])
				exact = exact && o.Likeliest[i] == 1
				i++
			}
			if exact {
				s.Exact++
			}
			s.Texts++
		}
		progress.Report(workEvaluation, hi, len(texts))
	})
}
