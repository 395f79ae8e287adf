package algo

import "github.com/rlinf/rlinf/policy/lm"

// TextLogProbs computes log-probabilities by one language model, with the bits of a TextPPO that has
// the same weights. It belongs to one goroutine.
type TextLogProbs struct{ pass *textPass }

// NewTextLogProbs returns one that computes so much at once, on so many threads, at the temperature of
// sampling. Call Close at the end.
func NewTextLogProbs(m *lm.Model, limit MicroBatch, threads int, temperature float64) *TextLogProbs {
	return &TextLogProbs{newTextPass(m, limit, threads, float32(temperature))}
}

// Append appends to dst the log-probabilities of the tokens with Learn, one text after the other.
func (p *TextLogProbs) Append(dst []float32, texts []Sequence) ([]float32, error) {
	return p.pass.logProbs(dst, texts)
}

// Close ends the threads.
func (p *TextLogProbs) Close() { p.pass.Close() }
