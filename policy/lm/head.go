package lm

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// At most headRows rows of logits are in memory at a time. They have at most headLogits logits, unless a single row has
// more.
const (
	headRows   = 192
	headLogits = 1 << 24
)

// headWork is the memory of the output layer.
type headWork struct {
	logits []float32      // [rows, this part of the vocabulary]
	hidden []float32      // [rows, d]
	rows   []int32        // rows of targets
	dists  []Distribution // one per target of the last LogProbs
	dh     []float32      // [n,d], the gradient with respect to the hidden rows
	one    []float32      // 1, the input of the bias of a value head
	all    []float32      // numbers that all ranks exchange
}

// headRows returns the number of rows of logits that are in memory at a time. Its first call allocates this memory.
func (w *Work) headRows() int {
	v := w.m.local.Vocab
	rows := headRowsOf(&w.m.Config, w.rows)
	if w.head.logits == nil {
		w.head.logits = w.vector(rows * v)
		w.head.hidden = w.vector(rows * w.m.Config.Hidden)
	}
	return rows
}

// Logits writes the logits of the given rows of the last pass to dst [len(rows), vocabulary].
func (m *Model) Logits(w *Work, dst []float32, rows []int32) {
	d, v, step := m.Config.Hidden, m.Config.Vocab, w.headRows()
	for i := 0; i < len(rows); i += step {
		part := rows[i:min(i+step, len(rows))]
		to := dst[i*v : (i+len(part))*v]
		if w.axis == nil {
			m.logits(w, to, w.gather(part, d))
			continue
		}
		own := w.head.logits[:len(part)*m.local.Vocab]
		m.logits(w, own, w.gather(part, d))
		m.joinVocabulary(w, to, own, len(part))
	}
}

// joinVocabulary writes the logits of all ranks to dst [n, vocabulary]. src has the logits of this part of the
// vocabulary.
func (m *Model) joinVocabulary(w *Work, dst, src []float32, n int) {
	v := m.Config.Vocab
	w.head.all = resize(w.head.all, n*v)
	at, counts := 0, w.counts()
	for i := range counts {
		p := m.part
		p.Index = i
		ids := m.Config.slice(p, 0, v)
		counts[i] = n * (ids.To - ids.From)
		if i < m.part.Index {
			at += counts[i]
		}
	}
	copy(w.head.all[at:], src)
	w.collect(w.head.all, counts)
	first, all := 0, w.head.all
	for _, count := range counts {
		width := count / n
		for r := range n {
			copy(dst[r*v+first:][:width], all[r*width:])
		}
		first, all = first+width, all[count:]
	}
}

// gather returns a copy of the hidden rows whose indices are in rows.
func (w *Work) gather(rows []int32, d int) []float32 {
	hidden := w.head.hidden[:len(rows)*d]
	w.base.CopyRows(hidden, nn.Rows{}, w.final.hidden, nn.Rows{Index: rows}, nil, d, len(rows))
	return hidden
}

// rowsOf returns the rows of targets.
func (w *Work) rowsOf(targets []Target) []int32 {
	w.head.rows = w.head.rows[:0]
	for _, t := range targets {
		w.head.rows = append(w.head.rows, t.Row)
	}
	return w.head.rows
}

// logits writes the logits of hidden rows to dst, for this part of the vocabulary.
func (m *Model) logits(w *Work, dst, hidden []float32) {
	m.head.forward(w, dst, hidden, len(hidden)/m.Config.Hidden, nil)
}

// A Target is a token whose probability is computed from a row of the last pass.
type Target struct {
	Row   int32 // row of the token before Token
	Token int32
}

// NextTokens appends the targets of a batch to dst: all tokens except the first of each sequence.
func (b Batch) NextTokens(dst []Target) []Target {
	for i := range len(b.Starts) - 1 {
		for t := b.Starts[i] + 1; t < b.Starts[i+1]; t++ {
			dst = append(dst, Target{t - 1, b.IDs[t]})
		}
	}
	return dst
}

// LogProbs sets logp[i] to the log-probability of target i. Unless entropy is nil, it sets
// entropy[i] to the entropy of the distribution at the row of target i. The distribution is
// softmax(logits/temperature). The bits of results depend only on the sequence up to the target.
func (m *Model) LogProbs(w *Work, logp, entropy []float32, targets []Target, temperature float32) {
	step := w.headRows()
	w.head.dists = resize(w.head.dists, len(targets))
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, temperature)
		m.distributions(w, w.head.dists[i:], logp[i:], logits, part)
		if entropy != nil {
			for r, d := range w.head.dists[i : i+len(part)] {
				entropy[i+r] = float32(d.Entropy)
			}
		}
	}
}

// distributions sets dists[i] to the Distribution for target i, and logp[i] to the target's log-probability. logits has
// a row for each target, with the columns of this part of the vocabulary.
func (m *Model) distributions(w *Work, dists []Distribution, logp, logits []float32, targets []Target) {
	v := m.local.Vocab
	per := 3*m.own + 1 // numbers of a rank for each target: 3 for each block, and the target's logit
	all, mine := w.ofAllRanks(per * len(targets))
	w.ops.CrossEntropy(mine, logits, targets, m.firstID, v, m.own, m.Config.blockWidth(m.Config.Vocab))
	w.collect(all, w.sizes)
	for r, t := range targets {
		var parts [maxBlocks]partial
		for i := range m.part.Size {
			from := all[i*len(mine)+r*per:][:per]
			for b := range m.own {
				parts[i*m.own+b] = partial{float64(from[3*b]), float64(from[3*b+1]), float64(from[3*b+2])}
			}
			if i == m.owner(t.Token) {
				logp[r] = from[per-1]
			}
		}
		dists[r] = m.merge(&parts)
		logp[r] = dists[r].LogProb(logp[r])
	}
}

// targetLogits returns logits/temperature at the rows of the given targets.
func (w *Work) targetLogits(part []Target, temperature float32) []float32 {
	logits := w.head.logits[:len(part)*w.m.local.Vocab]
	w.m.logits(w, logits, w.gather(w.rowsOf(part), w.m.Config.Hidden))
	if temperature != 1 {
		w.base.Scale(logits, 1/max(temperature, LeastTemperature))
	}
	return logits
}

// LeastTemperature is the least temperature that logits are divided by: a lower one, such as 1e-39, counts as this one.
// The quotients stay finite, and the largest logit already has all of the probability.
const LeastTemperature = 1e-30

// likeliest sets dst[i] to 1 if the logit of target i is the largest of its row in the last pass, and to 0 otherwise.
// Of equal logits, the logit with the smallest id counts as the largest, as in greedy generation.
func (m *Model) likeliest(w *Work, dst []float32, targets []Target) {
	v, step := m.local.Vocab, w.headRows()
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, 1)
		all, mine := w.ofAllRanks(2 * len(part)) // for each target the largest logit and its id
		if v > 0 {
			w.ops.Largest(mine, logits, len(part), v)
		}
		for r := range part {
			if mine[2*r+1] += float32(m.firstID); v == 0 {
				mine[2*r] = float32(math.Inf(-1))
			}
		}
		w.collect(all, w.sizes)
		for r, t := range part {
			best := all[2*r:][:2]
			for from := all[2*len(part):]; len(from) > 0; from = from[2*len(part):] {
				if from[2*r] > best[0] {
					best = from[2*r:][:2]
				}
			}
			if dst[i+r] = 0; int32(best[1]) == t.Token {
				dst[i+r] = 1
			}
		}
	}
}

// A Distribution describes softmax(logits) for a row of logits.
type Distribution struct {
	LSE     float64 // log Σ e^logit
	Entropy float64
}

// LogProb returns the log-probability of the token with this logit.
func (d Distribution) LogProb(logit float32) float32 { return float32(float64(logit) - d.LSE) }

// ofAllRanks returns memory for n numbers of each tensor-parallel rank, and this rank's part of the memory. It sets
// w.sizes for collect.
func (w *Work) ofAllRanks(n int) (all, mine []float32) {
	w.head.all = resize(w.head.all, w.m.part.Size*n)
	for i := range w.counts() {
		w.sizes[i] = n
	}
	return w.head.all, w.head.all[w.m.part.Index*n:][:n]
}

// Distribution returns the Distribution of a row of logits over the whole vocabulary. It merges blocks of the
// vocabulary as a tree.
func (m *Model) Distribution(logits []float32) Distribution {
	var parts [maxBlocks]partial
	width := m.Config.blockWidth(len(logits))
	for b := range m.blocks {
		parts[b] = sumBlock(logits[min(b*width, len(logits)):min((b+1)*width, len(logits))])
	}
	return m.merge(&parts)
}

// sumBlock returns the sums over a block of logits, in float32 precision.
func sumBlock(logits []float32) partial {
	if len(logits) == 0 {
		return partial{top: math.Inf(-1)}
	}
	top, sum, weighted := kernel.SumExp(logits)
	return partial{float64(top), float64(sum), float64(weighted)}
}

// merge returns the Distribution over all blocks.
func (m *Model) merge(parts *[maxBlocks]partial) Distribution {
	for half := 1; half < m.blocks; half *= 2 {
		for b := 0; b < m.blocks; b += 2 * half {
			parts[b] = parts[b].merge(parts[b+half])
		}
	}
	p := parts[0]
	return Distribution{LSE: p.top + math.Log(p.sum), Entropy: math.Log(p.sum) - p.weighted/p.sum}
}

// A partial holds sums over a block of logits. top is the largest logit, sum is Σ e^(logit - top), and weighted is Σ
// e^(logit - top)·(logit - top).
type partial struct{ top, sum, weighted float64 }

func (p partial) merge(q partial) partial {
	top := max(p.top, q.top)
	if math.IsInf(top, -1) {
		return p
	}
	return partial{top, p.shifted(top).sum + q.shifted(top).sum, p.shifted(top).weighted + q.shifted(top).weighted}
}

// shifted returns p with its sums relative to the given top instead of p.top.
func (p partial) shifted(top float64) partial {
	if p.sum == 0 {
		return partial{top: top}
	}
	by := p.top - top
	f := math.Exp(by)
	return partial{top, p.sum * f, (p.weighted + by*p.sum) * f}
}

// headBackward adds to the gradients of the output matrix, and sets w.head.dh to the gradient with respect to the
// hidden rows. dlogp and dentropy are the gradients of the loss with respect to the results of the last LogProbs;
// dentropy may be nil. The gradient of a row is summed over its targets in order.
func (m *Model) headBackward(w *Work, dlogp, dentropy []float32, targets []Target, temperature float32) {
	d, v, step := m.Config.Hidden, m.local.Vocab, w.headRows()
	dhidden := w.hiddenGrad()
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, temperature)
		var entropies []float32
		if dentropy != nil {
			entropies = dentropy[i:]
		}
		w.ops.CrossEntropyGrad(logits, w.head.dists[i:], dlogp[i:], entropies, part, m.firstID, v)
		if temperature != 1 {
			w.base.Scale(logits, 1/max(temperature, LeastTemperature))
		}
		n := len(part)
		dh := w.delta2[:n*d]
		w.inputGrad(dh, w.head.hidden, n, derivative{&m.head, logits})
		w.base.AddRows(dhidden, nn.Rows{Index: w.rowsOf(part)}, dh, nn.Rows{}, nil, d, n)
	}
}

// hiddenGrad returns w.head.dh, set to 0.
func (w *Work) hiddenGrad() []float32 {
	d := w.m.Config.Hidden
	if w.head.dh == nil {
		w.head.dh = w.vector(w.rows * d)
	}
	w.clear(w.head.dh[:w.n*d])
	return w.head.dh[:w.n*d]
}

func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
