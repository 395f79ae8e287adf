package lm

import (
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Micro is a micro-batch for Train or Infer.
type Micro struct {
	Batch   Batch
	Targets []Target
	Aux     float32 // factor of the auxiliary loss: see Backward
}

// A Head selects what a model computes after its layers.
type Head struct {
	Values      bool    // compute values (Options.Values) instead of log-probabilities and entropies
	Likeliest   bool    // instead of entropies, compute 1 if a target is the most likely token, else 0
	Temperature float32 // for log-probabilities
}

// columns returns the number of outputs for each target.
func (h Head) columns() int {
	if h.Values {
		return 1
	}
	return 2
}

// Outputs are what a model computes after its layers for the targets of a micro-batch.
type Outputs struct {
	LogProb, Entropy, Value []float32
	Likeliest               []float32
	AuxLoss                 float64 // only in training

	// The gradients of the loss with respect to the outputs. They are 0 until Feed.Got sets them.
	DLogProb, DEntropy, DValue []float32

	all, slopes []float32 // memory of the outputs above, and memory of their gradients
	targets     []Target
	aux         float32
}

// prepare makes room for the outputs of this micro-batch.
func (o *Outputs) prepare(h Head, micro *Micro) {
	n := len(micro.Targets)
	o.targets, o.aux, o.AuxLoss = append(o.targets[:0], micro.Targets...), micro.Aux, 0
	o.all, o.slopes = resize(o.all, n*h.columns()), resize(o.slopes, n*h.columns())
	clear(o.slopes)
	o.view(h, n)
}

// view sets the exported slices to parts of o.all and o.slopes, for n targets.
func (o *Outputs) view(h Head, n int) {
	o.LogProb, o.Entropy, o.Likeliest, o.Value, o.DLogProb, o.DEntropy, o.DValue = nil, nil, nil, nil, nil, nil, nil
	switch {
	case h.Values:
		o.Value, o.DValue = o.all, o.slopes
	case h.Likeliest:
		o.LogProb, o.Likeliest = o.all[:n], o.all[n:]
	default:
		o.LogProb, o.Entropy, o.DLogProb, o.DEntropy = o.all[:n], o.all[n:], o.slopes[:n], o.slopes[n:]
	}
}

// A Feed provides the micro-batches for Train and Infer, and receives their outputs.
type Feed interface {
	// Micro returns micro-batch k. The next call of Micro may overwrite the memory of the result.
	Micro(k int) Micro
	// Got receives the outputs of micro-batch k. In training it sets the gradients of the loss in o.
	Got(k int, o *Outputs)
}

// Train adds the gradients of n micro-batches, in their order. With several pipeline stages, forward and backward
// passes alternate (1F1B, Narayanan et al. 2019, doi:10.1145/3341301.3359646). Stage s of p stages begins with p-s-1
// forward passes. On every stage, Feed.Got receives the same outputs of a micro-batch, before the backward pass of
// that stage.
//
// If ready is not nil, Train calls ready(lo, hi) when the range [lo, hi) of m.Params.Grad is final. The calls go from
// the end of Grad to its beginning. Ranges without a call are final after FinishGradients.
func (m *Model) Train(w *Work, n int, h Head, s Feed, ready func(lo, hi int)) error {
	defer func() { w.ready = nil }()
	if n == 0 { // this replica has no micro-batch, but other replicas have some
		w.ready = ready
		w.announce(m.heads)
		for _, l := range slices.Backward(m.layers) {
			w.announce(l.fields)
		}
	}
	early := min(w.following(), n)
	for len(w.passes) <= early {
		w.passes = append(w.passes, w.newPass())
	}
	for k := range n + early {
		if k < n {
			w.pass = w.passes[k%len(w.passes)]
			if err := m.begin(w, h, s.Micro(k)); err != nil {
				return err
			}
		}
		if k >= early {
			w.pass = w.passes[(k-early)%len(w.passes)]
			if k-early == n-1 {
				w.ready = ready
			}
			if err := m.complete(w, h, k-early, s); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

// Infer computes the outputs of n micro-batches. On every stage, Feed.Got receives the same outputs.
func (m *Model) Infer(w *Work, n int, h Head, s Feed) error {
	var sizes []int // number of outputs of each micro-batch
	w.results = w.results[:0]
	w.pass = w.passes[0]
	for k := range n {
		if err := m.begin(w, h, s.Micro(k)); err != nil {
			return err
		}
		if m.last() {
			m.outputs(w, h)
		}
		if w.pipe == nil {
			if err := w.Err(); err != nil {
				return err
			}
			s.Got(k, &w.out)
			continue
		}
		sizes, w.results = append(sizes, len(w.out.all)), append(w.results, w.out.all...)
	}
	if w.pipe == nil {
		return nil
	}
	counts := make([]int, w.pipe.Size())
	counts[len(counts)-1] = len(w.results)
	if w.err == nil {
		w.err = w.pipe.Gather(w.results, counts)
	}
	if err := w.Err(); err != nil {
		return err
	}
	at := 0
	for k, size := range sizes {
		w.out.all = append(w.out.all[:0], w.results[at:at+size]...)
		at += size
		w.out.view(h, size/h.columns())
		s.Got(k, &w.out)
	}
	return w.flush()
}

// begin runs the forward pass of this stage for a micro-batch.
func (m *Model) begin(w *Work, h Head, micro Micro) error {
	w.out.prepare(h, &micro)
	return m.Forward(w, micro.Batch)
}

// complete computes the outputs of the current micro-batch, number k, and runs this stage's backward pass.
func (m *Model) complete(w *Work, h Head, k int, s Feed) error {
	o, dx := &w.out, w.delta[:w.n*m.Config.Hidden]
	if m.last() {
		m.outputs(w, h)
	} else {
		w.recv(w.pipe.Index()+1, dx, o.all, w.share, bits(w.means))
	}
	if err := w.Err(); err != nil {
		return err
	}
	o.AuxLoss = w.AuxLoss()
	s.Got(k, o)
	switch {
	case !m.last():
		m.backwardLayers(w, dx, o.aux)
	case h.Values:
		m.valueBackward(w, o.DValue, o.targets)
		m.BackwardHidden(w, w.head.dh[:len(dx)], o.aux)
	default:
		m.Backward(w, o.DLogProb, o.DEntropy, o.targets, h.Temperature, o.aux)
	}
	if !m.first() {
		w.send(w.pipe.Index()-1, dx, o.all, w.share, bits(w.means))
	}
	return w.Err()
}

// outputs computes the outputs of the current micro-batch, on the last stage.
func (m *Model) outputs(w *Work, h Head) {
	o := &w.out
	if h.Values {
		m.valueForward(w, o.Value, o.targets)
		return
	}
	m.LogProbs(w, o.LogProb, o.Entropy, o.targets, h.Temperature)
	if h.Likeliest {
		m.likeliest(w, o.Likeliest, o.targets)
	}
}

// following returns the number of stages after this stage.
func (w *Work) following() int {
	if w.pipe == nil {
		return 0
	}
	return w.pipe.Size() - 1 - w.pipe.Index()
}

// send sends parts as one message to another stage.
func (w *Work) send(to int, parts ...[]float32) {
	if w.err != nil {
		return
	}
	rest := w.makeMessage(parts)
	for _, p := range parts {
		rest = rest[copy(rest, p):]
	}
	w.err = w.pipe.Send(to, w.message)
}

// recv receives parts as one message from another stage.
func (w *Work) recv(from int, parts ...[]float32) {
	if w.err != nil {
		return
	}
	rest := w.makeMessage(parts)
	w.err = w.pipe.Recv(from, w.message)
	for _, p := range parts {
		rest = rest[copy(p, rest):]
	}
}

// makeMessage returns w.message, resized to the total length of parts.
func (w *Work) makeMessage(parts [][]float32) []float32 {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.message = resize(w.message, n)
	return w.message
}

// streamLen is the largest number of elements in one message of the function stream (16 MiB).
const streamLen = 4 << 20

// stream sends or receives long data in several messages. call is w.send or w.recv.
func stream(call func(peer int, parts ...[]float32), peer int, x []float32) {
	for lo := 0; lo < len(x); lo += streamLen {
		call(peer, x[lo:min(lo+streamLen, len(x))])
	}
}

// flush waits until all messages have been received.
func (w *Work) flush() error {
	if w.pipe != nil && w.err == nil {
		w.err = w.pipe.Flush()
	}
	return w.Err()
}

// bits returns the memory of x as float32s, so that x can be part of a message.
func bits(x []float64) []float32 {
	if len(x) == 0 {
		return nil
	}
	return tensor.Of(tensor.FromF64(x, len(x)).Bytes(), tensor.F32, 2*len(x)).F32()
}

// valueForward sets values[i] to the value of target i: a linear function of the hidden state at the target's row.
func (m *Model) valueForward(w *Work, values []float32, targets []Target) {
	w.ops.Values(values, w.Hidden(), m.value.w.data(), m.value.b.data(), w.rowsOf(targets))
}

// valueBackward adds to the gradients of the linear function, and sets w.head.dh to the gradient with respect to the
// hidden rows.
func (m *Model) valueBackward(w *Work, slopes []float32, targets []Target) {
	weight, dh, n := m.value.w.data(), w.hiddenGrad(), len(targets)
	rows, only, d := nn.Rows{Index: w.rowsOf(targets)}, nn.Rows{Repeat: max(n, 1)}, len(weight)
	w.base.AddRows(m.value.b.grad(), only, w.head.one, only, slopes, 1, n)
	w.base.AddRows(m.value.w.grad(), only, w.final.hidden, rows, slopes, d, n)
	w.base.AddRows(dh, rows, weight, only, slopes, d, n)
}
