package algo

import (
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
)

// A Sequence is a text to learn from. Learn marks the tokens that the model learns to predict. Learn[0] is false.
type Sequence struct {
	IDs   []int32
	Learn []bool
}

// A MicroBatch is the maximum size of a micro-batch. The texts of a micro-batch are computed at once.
type MicroBatch struct {
	Tokens    int // largest number of tokens; no sequence may have more
	Sequences int // largest number of sequences; 0 means no limit
}

// Fit returns the number of sequences in the next micro-batch, which begins with texts[0]. It is at least 1.
func (b MicroBatch) Fit(texts []Sequence) int {
	n, tokens := 1, len(texts[0].IDs)
	for n < len(texts) && (b.Sequences == 0 || n < b.Sequences) && tokens+len(texts[n].IDs) <= b.Tokens {
		tokens += len(texts[n].IDs)
		n++
	}
	return n
}

// A textPass runs one language model on texts, in micro-batches. The texts of a micro-batch are packed in their order.
// Only one goroutine may use a textPass.
type textPass struct {
	model *lm.Model
	work  *lm.Work
	limit MicroBatch
	head  lm.Head

	got     func(lo, hi int, o *lm.Outputs) // the function that receives outputs in the present call of train or infer
	texts   []Sequence
	total   float64 // tokens of the minibatch in training, else 1
	aux     float64 // in training: load-balancing loss of the minibatch, for a mixture of experts
	ends    []int   // the end of each micro-batch in texts
	batch   lm.Batch
	targets []lm.Target // tokens of batch to be learnt
}

// newTextPass returns a textPass of m for micro-batches within limit, on the given number of threads. It uses w, a Work
// for limit.Tokens. mesh connects the ranks over which m is sharded.
func newTextPass(m *lm.Model, w *lm.Work, limit MicroBatch, threads int, mesh lm.Mesh, h lm.Head) *textPass {
	p := &textPass{model: m, work: w, limit: limit, head: h}
	p.work.SetThreads(threads)
	p.work.Join(mesh)
	return p
}

var _ lm.Feed = (*textPass)(nil)

// train adds the gradient of a minibatch. texts are this replica's part of the minibatch, and tokens is the number of
// tokens of the whole minibatch. For each micro-batch, texts[lo:hi], it calls loss with the outputs. lm.Model.Train
// describes ready.
func (p *textPass) train(texts []Sequence, tokens float64, loss func(lo, hi int, o *lm.Outputs),
	ready func(lo, hi int)) error {
	p.cut(texts)
	p.total, p.aux, p.got = tokens, 0, loss
	return p.model.Train(p.work, len(p.ends), p.head, p, ready)
}

// infer runs the model on texts. For each micro-batch, texts[lo:hi], it calls receive with the outputs. On a device it
// uses the parameters there.
func (p *textPass) infer(texts []Sequence, h lm.Head, receive func(lo, hi int, o *lm.Outputs)) error {
	p.cut(texts)
	p.total, p.got = 1, receive
	return p.model.Infer(p.work, len(p.ends), h, p)
}

// cut divides texts into micro-batches.
func (p *textPass) cut(texts []Sequence) {
	p.texts, p.ends = texts, p.ends[:0]
	for lo := 0; lo < len(texts); {
		lo += p.limit.Fit(texts[lo:])
		p.ends = append(p.ends, lo)
	}
}

// span returns the range of the texts of micro-batch k.
func (p *textPass) span(k int) (lo, hi int) {
	if k > 0 {
		lo = p.ends[k-1]
	}
	return lo, p.ends[k]
}

// share returns the fraction of the minibatch's tokens that are in micro-batch k.
func (p *textPass) share(k int) float64 {
	lo, hi := p.span(k)
	n := 0
	for _, q := range p.texts[lo:hi] {
		n += len(q.IDs)
	}
	return float64(n) / p.total
}

// Micro packs micro-batch k; see lm.Feed.
func (p *textPass) Micro(k int) lm.Micro {
	lo, hi := p.span(k)
	b := &p.batch
	b.IDs, b.Starts, p.targets = b.IDs[:0], append(b.Starts[:0], 0), p.targets[:0]
	for _, q := range p.texts[lo:hi] {
		for t, id := range q.IDs {
			if q.Learn[t] {
				p.targets = append(p.targets, lm.Target{Row: int32(len(b.IDs) - 1), Token: id})
			}
			b.IDs = append(b.IDs, id)
		}
		b.Starts = append(b.Starts, int32(len(b.IDs)))
	}
	micro := lm.Micro{Batch: *b, Targets: p.targets}
	if !p.head.Values { // a critic has no load-balancing loss
		micro.Aux = float32(p.share(k))
	}
	return micro
}

// Got passes the outputs of micro-batch k to the caller; see lm.Feed.
func (p *textPass) Got(k int, o *lm.Outputs) {
	lo, hi := p.span(k)
	p.aux += p.share(k) * o.AuxLoss
	p.got(lo, hi, o)
}

// Close ends the threads.
func (p *textPass) Close() { p.work.SetThreads(1) }

// TextLogProbs computes log-probabilities with one language model. They equal those of training, bit for bit. Only one
// goroutine may use a TextLogProbs. If the model is on a device, upload its parameters after each change.
type TextLogProbs struct{ *textPass }

// NewTextLogProbs returns a TextLogProbs of m for micro-batches within limit, on the given number of threads.
// temperature is the temperature of sampling. mesh connects the ranks over which m is sharded. Call Close at the end.
func NewTextLogProbs(m *lm.Model, limit MicroBatch, threads int, mesh lm.Mesh, temperature float64) *TextLogProbs {
	h := lm.Head{Temperature: float32(temperature)}
	return &TextLogProbs{newTextPass(m, m.NewInference(limit.Tokens), limit, threads, mesh, h)}
}

// Append appends log-probabilities to dst, one text after the other. A text has one for each token that Learn marks.
func (p *textPass) Append(dst []float32, texts []Sequence) ([]float32, error) {
	err := p.infer(texts, p.head, func(_, _ int, o *lm.Outputs) { dst = append(dst, o.LogProb...) })
	return dst, err
}

// sized returns n elements, in the memory of x if x is large enough. Their values are arbitrary.
func sized[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }
