package lm

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// At most headRows rows of logits are in memory at a time, fewer if the vocabulary is large.
const (
	headRows   = 192
	headLogits = 1 << 24
)

// headWork is the memory of the output layer.
type headWork struct {
	logits []float32 // [rows, vocabulary]
	hidden []float32 // [rows, d]
	lse    []float64 // one per target of the last LogProbs
	dh     []float32 // [n,d], derivative by the hidden rows
}

func (w *Work) headRows() int {
	v := w.m.Config.Vocab
	rows := headRowsOf(&w.m.Config, w.rows)
	if w.head.logits == nil {
		w.head.logits = nn.Vector[float32](rows * v)
		w.head.hidden = nn.Vector[float32](rows * w.m.Config.Hidden)
	}
	return rows
}

// Logits sets out [len(rows), vocabulary] to the logits of some rows of the last pass.
func (m *Model) Logits(w *Work, out []float32, rows []int32) {
	d, v, step := m.Config.Hidden, m.Config.Vocab, w.headRows()
	for i := 0; i < len(rows); i += step {
		part := rows[i:min(i+step, len(rows))]
		m.logits(w, out[i*v:(i+len(part))*v], w.gather(part, d))
	}
}

// gather copies hidden rows to consecutive rows, and returns these.
func (w *Work) gather(rows []int32, d int) []float32 {
	for i, r := range rows {
		copy(w.head.hidden[i*d:(i+1)*d], w.final.hidden[int(r)*d:])
	}
	return w.head.hidden[:len(rows)*d]
}

func (m *Model) logits(w *Work, out, hidden []float32) {
	m.head.forward(w.team, out, hidden, w.low, len(hidden)/m.Config.Hidden, false)
}

// A Target is a token, with the row of the last pass after which its probability is computed.
type Target struct {
	Row   int32 // row of the token before it
	Token int32
}

// NextTokens appends the targets of a batch to dst: for every sequence, each token but the first.
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
	v, step := m.Config.Vocab, w.headRows()
	w.head.lse = resize(w.head.lse, len(targets))
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, temperature)
		for r, t := range part {
			d := m.Distribution(logits[r*v : (r+1)*v])
			w.head.lse[i+r] = d.LSE
			logp[i+r] = d.LogProb(logits[r*v+int(t.Token)])
			if entropy != nil {
				entropy[i+r] = float32(d.Entropy)
			}
		}
	}
}

// targetLogits returns logits/temperature of the rows of some targets.
func (w *Work) targetLogits(part []Target, temperature float32) []float32 {
	d, v := w.m.Config.Hidden, w.m.Config.Vocab
	hidden := w.head.hidden[:len(part)*d]
	for i, t := range part {
		copy(hidden[i*d:(i+1)*d], w.final.hidden[int(t.Row)*d:])
	}
	logits := w.head.logits[:len(part)*v]
	w.m.logits(w, logits, hidden)
	if temperature != 1 {
		kernel.Scale(logits, 1/temperature)
	}
	return logits
}

// A Distribution has sums over a row of logits.
type Distribution struct {
	LSE     float64 // log Σ e^logit
	Entropy float64
}

// LogProb returns the log-probability of the token with this logit.
func (d Distribution) LogProb(logit float32) float32 { return float32(float64(logit) - d.LSE) }

// Distribution returns sums over a row of logits. Blocks of the vocabulary are merged as a tree.
func (m *Model) Distribution(logits []float32) Distribution {
	width := (len(logits) + m.blocks - 1) / m.blocks
	var parts [maxBlocks]partial
	for b := range m.blocks {
		if part := logits[min(b*width, len(logits)):min((b+1)*width, len(logits))]; len(part) > 0 {
			top, sum, weighted := kernel.SumExp(part)
			parts[b] = partial{float64(top), float64(sum), float64(weighted)}
		} else {
			parts[b] = partial{top: math.Inf(-1)}
		}
	}
	for half := 1; half < m.blocks; half *= 2 {
		for b := 0; b < m.blocks; b += 2 * half {
			parts[b] = parts[b].merge(parts[b+half])
		}
	}
	p := parts[0]
	return Distribution{LSE: p.top + math.Log(p.sum), Entropy: math.Log(p.sum) - p.weighted/p.sum}
}

// A partial has sums over some logits: the largest one, top, Σ e^(logit - top), and Σ e^(logit -
// top)·(logit - top).
type partial struct{ top, sum, weighted float64 }

func (p partial) merge(q partial) partial {
	top := max(p.top, q.top)
	if math.IsInf(top, -1) {
		return p
	}
	return partial{top, p.shifted(top).sum + q.shifted(top).sum, p.shifted(top).weighted + q.shifted(top).weighted}
}

// shifted returns p with its sums relative to another top.
func (p partial) shifted(top float64) partial {
	if p.sum == 0 {
		return partial{top: top}
	}
	by := p.top - top
	f := math.Exp(by)
	return partial{top, p.sum * f, (p.weighted + by*p.sum) * f}
}

// headBackward adds to the gradients of the output matrix, and sets w.head.dh to the derivative by
// the hidden rows. dlogp and dentropy are the derivatives of the loss by the results of the last
// LogProbs; dentropy may be nil. The derivative by a row is summed over its targets in order.
func (m *Model) headBackward(w *Work, dlogp, dentropy []float32, targets []Target, temperature float32) {
	d, v, step := m.Config.Hidden, m.Config.Vocab, w.headRows()
	if w.head.dh == nil {
		w.head.dh = nn.Vector[float32](w.rows * d)
	}
	clear(w.head.dh[:w.n*d])
	for i := 0; i < len(targets); i += step {
		part := targets[i:min(i+step, len(targets))]
		logits := w.targetLogits(part, temperature)
		for r, t := range part {
			entropy := float32(0)
			if dentropy != nil {
				entropy = dentropy[i+r]
			}
			m.logitsGrad(logits[r*v:(r+1)*v], int(t.Token), w.head.lse[i+r], dlogp[i+r], entropy)
		}
		if temperature != 1 {
			kernel.Scale(logits, 1/temperature)
		}
		n := len(part)
		dh := w.delta2[:n*d]
		w.inputGrad(dh, w.head.hidden, n, derivative{&m.head, logits})
		for r, t := range part {
			kernel.Axpy(w.head.dh[int(t.Row)*d:][:d], 1, dh[r*d:(r+1)*d])
		}
	}
}

// logitsGrad replaces the logits x of a row by the derivative of the loss by x. t is the token, p
// are the probabilities, and H is their entropy:
//
//	∂logp_t/∂x = 1_t - p,   ∂H/∂x = -p·(log p + H)
func (m *Model) logitsGrad(x []float32, token int, lse float64, dlogp, dentropy float32) {
	h := float32(0)
	if dentropy != 0 {
		h = float32(m.Distribution(x).Entropy)
	}
	shift := float32(lse)
	if dentropy == 0 {
		kernel.ExpLess(x, x, shift)
		kernel.Scale(x, -dlogp)
		x[token] += dlogp
		return
	}
	var logs [256]float32
	for lo := 0; lo < len(x); lo += len(logs) {
		part := x[lo:min(lo+len(logs), len(x))]
		for j, v := range part {
			logs[j] = v - shift
		}
		kernel.ExpLess(part, part, shift)
		for j, p := range part {
			if p == 0 {
				part[j] = 0
				continue
			}
			part[j] = -p * (dlogp + dentropy*(logs[j]+h))
		}
	}
	x[token] += dlogp
}

func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
