package algo

import (
	"iter"

	"github.com/rlinf/rlinf/policy/lm"
)

// A Sequence is a text to learn from. Learn says for each token whether the model is to predict it.
// It is false for the first token.
type Sequence struct {
	IDs   []int32
	Learn []bool
}

// A MicroBatch bounds the texts that are computed at once.
type MicroBatch struct {
	Tokens    int // largest number of tokens; no sequence may have more
	Sequences int // largest number of sequences; 0: any number
}

// Fit returns how many sequences from the start of all are computed at once. It is at least 1.
func (b MicroBatch) Fit(all []Sequence) int {
	n, tokens := 1, len(all[0].IDs)
	for n < len(all) && (b.Sequences == 0 || n < b.Sequences) && tokens+len(all[n].IDs) <= b.Tokens {
		tokens += len(all[n].IDs)
		n++
	}
	return n
}

// A textPass cuts texts into micro-batches. The texts of a micro-batch lie one after the other, in their
// order.
type textPass struct {
	limit   MicroBatch
	batch   lm.Batch    // the micro-batch
	targets []lm.Target // its tokens to be learnt
}

// microBatches packs each micro-batch in turn, and yields the range of its texts.
func (p *textPass) microBatches(all []Sequence) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < len(all); {
			hi := lo + p.limit.Fit(all[lo:])
			p.pack(all[lo:hi])
			if !yield(lo, hi) {
				return
			}
			lo = hi
		}
	}
}

func (p *textPass) pack(part []Sequence) {
	b := &p.batch
	b.IDs, b.Starts, p.targets = b.IDs[:0], append(b.Starts[:0], 0), p.targets[:0]
	for _, q := range part {
		for t, id := range q.IDs {
			if q.Learn[t] {
				p.targets = append(p.targets, lm.Target{Row: int32(len(b.IDs) - 1), Token: id})
			}
			b.IDs = append(b.IDs, id)
		}
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
}

// TextLogProbs computes log-probabilities by one language model, for training and for inference with
// the same bits. It belongs to one goroutine.
type TextLogProbs struct {
	textPass
	model       *lm.Model
	work        *lm.Work
	temperature float32

	logp, entropy   []float32 // of each target of the micro-batch
	dlogp, dentropy []float32 // derivatives of the loss by them
}

// NewTextLogProbs returns a TextLogProbs of m for micro-batches within limit, on the given number of
// threads, at the temperature of sampling. Call Close at the end.
func NewTextLogProbs(m *lm.Model, limit MicroBatch, threads int, temperature float64) *TextLogProbs {
	p := &TextLogProbs{textPass: textPass{limit: limit}, model: m, work: m.NewTraining(limit.Tokens),
		temperature: float32(temperature)}
	p.work.SetThreads(threads)
	return p
}

// Join connects p with the ranks that have the other parts of the model, if axis is not nil.
func (p *TextLogProbs) Join(axis lm.Axis) { p.work.Join(axis) }

// Append appends to dst the log-probabilities of the tokens with Learn, one text after the other.
func (p *TextLogProbs) Append(dst []float32, texts []Sequence) ([]float32, error) {
	for range p.microBatches(texts) {
		if err := p.forward(); err != nil {
			return dst, err
		}
		dst = append(dst, p.logp...)
	}
	return dst, nil
}

// Close ends the threads.
func (p *TextLogProbs) Close() { p.work.SetThreads(1) }

// forward computes the log-probabilities of the micro-batch.
func (p *TextLogProbs) forward() error {
	if err := p.model.Forward(p.work, p.batch); err != nil {
		return err
	}
	n := len(p.targets)
	p.logp, p.entropy = sized(p.logp, n), sized(p.entropy, n)
	p.dlogp, p.dentropy = sized(p.dlogp, n), sized(p.dentropy, n)
	p.model.LogProbs(p.work, p.logp, p.entropy, p.targets, p.temperature)
	return p.work.Err()
}

// backward adds the gradient of a loss whose derivatives are p.dlogp, and dentropy unless it is nil.
// share is the micro-batch's part of its minibatch.
func (p *TextLogProbs) backward(dentropy []float32, share float64) {
	p.model.Backward(p.work, p.dlogp, dentropy, p.targets, p.temperature, float32(share))
}

// share returns the micro-batch's part of a minibatch with the given number of tokens.
func (p *TextLogProbs) share(tokens float64) float64 { return float64(len(p.batch.IDs)) / tokens }

// sized returns n elements, in the memory of x if that is large enough. Their values are arbitrary.
func sized[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
