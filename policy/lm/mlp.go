package lm

// A feedForward computes down(silu(gate x) ∘ up x).
type feedForward struct {
	gate, up, down linear
	width          int // inner width of this part
}

func (m *Model) newFeedForward(prefix string, width int) feedForward {
	d := m.Config.Hidden
	return feedForward{
		gate: m.newLinear(prefix+"gate_proj", d, width, m.Config.MLPBias, byColumns),
		up:   m.newLinear(prefix+"up_proj", d, width, m.Config.MLPBias, byColumns),
		down: m.newLinear(prefix+"down_proj", width, d, m.Config.MLPBias, byRows), width: m.size(width),
	}
}

// forward computes the output [n,d] from x [n,d]. It sets y to the output, plus from unless from is nil. It writes the
// outputs of the products gate_proj and up_proj to the slices gate and up [n,width].
func (f *feedForward) forward(w *Work, y, x, gate, up []float32, n int, from []float32) {
	f.gate.forward(w, gate, x, n, nil)
	f.up.forward(w, up, x, n, nil)
	act := w.wide[:n*f.width]
	w.ops.SwiGLU(act, gate[:n*f.width], up[:n*f.width])
	f.down.forward(w, y, act, n, from)
}

// backward sets dx [n,d] from dy [n,d] and adds to the gradients. The slices x, gate and up come from the forward pass.
// backward overwrites gate and up.
func (f *feedForward) backward(w *Work, dx, dy, x, gate, up []float32, n int) {
	act, dact := w.wide[:n*f.width], w.wide2[:n*f.width]
	gate, up = gate[:n*f.width], up[:n*f.width]
	w.inputGrad(dact, nil, n, derivative{&f.down, dy})
	w.ops.SwiGLUGrad(act, gate, up, dact)
	f.down.gradient(w, act, dy, n)
	w.inputGrad(dx, x, n, derivative{&f.gate, gate}, derivative{&f.up, up})
}
