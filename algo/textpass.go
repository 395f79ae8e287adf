package algo

import "github.com/rlinf/rlinf/policy/lm"

// A Sequence is a text to learn from: Learn says of each token whether it is to be predicted, false
// for the first.
type Sequence struct {
	IDs   []int32
	Learn []bool
}

// A MicroBatch bounds what is computed at once.
type MicroBatch struct {
	Tokens    int // at most so many; a sequence must not have more
	Sequences int // at most so many; 0: any number
}

// Fit returns how many of the sequences, at least one and from the first on, are computed at once.
func (b MicroBatch) Fit(all []Sequence) int {
	n, tokens := 1, len(all[0].IDs)
	for n < len(all) && (b.Sequences == 0 || n < b.Sequences) && tokens+len(all[n].IDs) <= b.Tokens {
		tokens += len(all[n].IDs)
		n++
	}
	return n
}

// A textPass computes the log-probabilities of the tokens to be learnt, in micro-batches of texts.
// The texts of a micro-batch lie one after the other, in their order.
type textPass struct {
	model       *lm.Model
	work        *lm.Work
	limit       MicroBatch
	temperature float32

	textPack
	logp    []float32 // of each target
	entropy []float32 // nil: nobody asks for it

	progress     Progress
	what         string // the passes are done for; "": nothing that is counted
	first, total int    // texts of that: done before these passes, and all
}

// A textPack is a micro-batch.
type textPack struct {
	batch   lm.Batch
	targets []lm.Target // its tokens to be learnt
}

func newTextPass(m *lm.Model, limit MicroBatch, threads int, temperature float32) *textPass {
	p := &textPass{model: m, work: m.NewTraining(limit.Tokens), limit: limit, temperature: temperature}
	p.work.SetThreads(threads)
	return p
}

// Close ends the threads.
func (p *textPass) Close() { p.work.SetThreads(1) }

// each calls f after the forward pass of each micro-batch, with the range of its texts.
func (p *textPass) each(all []Sequence, f func(lo, hi int) error) error {
	for lo := 0; lo < len(all); {
		hi := lo + p.limit.Fit(all[lo:])
		p.pack(all[lo:hi])
		if err := p.model.Forward(p.work, p.batch); err != nil {
			return err
		}
		p.logp = sized(p.logp, len(p.targets))
		if p.entropy != nil {
			p.entropy = sized(p.entropy, len(p.targets))
		}
		p.model.LogProbs(p.work, p.logp, p.entropy, p.targets, p.temperature)
		if err := f(lo, hi); err != nil {
			return err
		}
		if lo = hi; p.what != "" {
			p.progress.Report(p.what, p.first+hi, p.total)
		}
	}
	return nil
}

// count says what the next passes are done for: first of its total texts were
// done before.
func (p *textPass) count(what string, first, total int) {
	p.what, p.first, p.total = what, first, total
	p.progress.Report(what, first, total)
}

// pack makes one batch of texts.
func (p *textPack) pack(part []Sequence) {
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

// logProbs appends the log-probabilities of all tokens to be learnt to dst.
func (p *textPass) logProbs(dst []float32, all []Sequence) ([]float32, error) {
	err := p.each(all, func(int, int) error {
		dst = append(dst, p.logp...)
		return nil
	})
	return dst, err
}

func sized(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
