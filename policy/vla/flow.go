package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A flowHead denoises actions (π0, Black et al. 2024, arXiv:2410.24164). An action has a state x. At time 1 the state
// is noise, and at time 0 it is the action, within [-1, 1]. Each action of the chunk has a slot. The input of the slot
// depends on x, on the time and on the position of the slot. The head computes the velocity v of x. It learns from
// demonstrated actions a:
//
//	x = t·noise + (1-t)·a,    loss Σ (v - (noise - a))²,    t ~ 0.001 + 0.999·Beta(1.5, 1)
//
// For reinforcement learning (πRL, Chen et al. 2025, arXiv:2510.25889) one random step adds noise, and the log-prob
// of a chunk is the log-prob of this step. The other steps add no noise. With δ = 1/num_steps, a = x - v·t and
// b = x + v·(1-t), the next state is
//
//	without noise:  a·(1-t+δ) + b·(t-δ)
//	with noise:     mean a·(1-t+δ) + b·(t-δ-σ²δ/(2t)), deviation σ·√δ, σ = noise_level·√(t/(1-t))
//
// At t = 1 the denominator 1-t in σ is replaced with δ. Entropies are 0.
//
// Slots use the weights of the trunk. In π0 the slots have weights of their own (action expert).
type flowHead struct {
	commonHead
	state    *nn.Linear[float32] // [A, d]
	time     *nn.Linear[float32] // [waves, d]
	velocity *nn.Linear[float32] // [d, A]
}

func (h *flowHead) check(c *policy.Config) error { return h.noLogits(c) }
func (h *flowHead) slots() int                   { return h.p.cfg.NumActionChunks }
func (h *flowHead) latent() int                  { return (h.p.own.NumSteps+1)*h.p.dims + 1 }

func (h *flowHead) embed() {
	h.state = h.p.linear("flow.state", h.p.actions.dims, h.p.d, 1)
	h.time = h.p.linear("flow.time", waves, h.p.d, 1)
}

func (h *flowHead) add() { h.velocity = h.p.linear("actor.head", h.p.d, h.p.actions.dims, firstGain) }

func (h *flowHead) graph(end graph.Node) ([]graph.Node, []graph.Param) {
	end.Op = graph.Denoise
	end.Consts = append(end.Consts, graph.Const{Name: "num_steps", Value: h.p.own.NumSteps})
	end.Parts = []graph.Node{h.state.Graph(), h.time.Graph(), h.velocity.Graph()}
	return []graph.Node{end}, nil
}

func (h *flowHead) newWork(rows int) headWork {
	p := h.p
	perDim := func() []float32 { return nn.Vector[float32](rows * p.dims) }
	return &flowWork{
		denoiser: denoiser{p.own.NumSteps, p.own.NoiseLevel}, p: p, head: h, times: make([]float32, rows),
		waves: nn.Vector[float32](rows * waves), state: perDim(), target: perDim(),
		slots: nn.Vector[float32](rows * p.slots * p.d), shift: nn.Vector[float32](rows * p.d), velocity: perDim(),
		slope: perDim(), scratch: nn.Vector[float32](p.d * p.actions.dims), noisy: make([]int, rows),
	}
}

// A flowWork is the memory of a flowHead.
type flowWork struct {
	denoiser
	p         *Policy
	head      *flowHead
	imitating bool // whether the last encode had no recorded chains, as in imitation

	times  []float32 // [rows]: the time of each row
	waves  []float32 // [rows, waves]: sines and cosines of times
	state  []float32 // [rows, C·A]
	target []float32 // [rows, C·A]: the next state, or the velocity of a demonstration
	slots  []float32 // [rows, C, d]: features of the states, added to the slots of the pass
	shift  []float32 // [rows, d]: features of the times, added to all slots of a row; then their gradient

	hidden   []float32 // hidden states of the slots in the last evaluate
	velocity []float32 // [rows, C·A]: the velocity, then its gradient
	slope    []float32 // [rows, C·A]: ∂ log-prob / ∂ velocity
	scratch  []float32
	noisy    []int // [rows]: the step that adds noise; -1 without noise
}

var _ iterativeWork = (*flowWork)(nil)

// waves is the number of sines and cosines that encode a time. Their periods range from 4 down to 4/1000.
const waves = 32

// A denoiser moves states from time 1 to time 0 in a fixed number of steps. One of the steps can add noise.
type denoiser struct {
	steps int
	noise float64 // noise_level
}

// begin returns the time at which a step begins.
func (d *denoiser) begin(step int) float32 { return 1 - float32(step)/float32(d.steps) }

// step returns the mean and the deviation of the state after a step that begins at time t, and the slope ∂ mean / ∂v.
func (d *denoiser) step(x, v float32, t float64, noisy bool) (mean, deviation, slope float64) {
	delta := 1 / float64(d.steps)
	toAction, toNoise := 1-t+delta, t-delta
	if noisy {
		sigma := d.noise * math.Sqrt(t/max(1-t, delta))
		toNoise -= sigma * sigma * delta / (2 * t)
		deviation = sigma * math.Sqrt(delta)
	}
	slope = -t*toAction + (1-t)*toNoise
	return float64((float64(x) * (toAction + toNoise))) + float64(float64(v)*slope), deviation, slope
}

// encode adds features of states and times to slots. If b has recorded chains, it reads the state and the time at the
// step with noise from each of them. Otherwise, it draws a time for each row, and noise for the demonstrated actions.
func (h *flowWork) encode(slots []float32, b batch) error {
	chains, recorded := b.obs.Get(policy.Latent)
	if h.imitating = !recorded; h.imitating {
		h.imitate(b)
	} else if err := h.readChains(chains, b.n); err != nil {
		return err
	}
	h.addTo(slots, b.n)
	return nil
}

// readChains sets times, state and target of each row to their values at the step with noise, from recorded chains.
func (h *flowWork) readChains(chains tensor.Tensor, n int) error {
	dims, k := h.p.dims, h.p.LatentLen()
	if chains.DType() != tensor.F32 || chains.Len() != n*k {
		return fmt.Errorf("observation %q: %v: expected F32[%d %d], the chains behind the actions", policy.Latent,
			chains, n, k)
	}
	for row := range n {
		chain := chains.F32()[row*k : (row+1)*k]
		step := int(chain[k-1])
		if step < 0 || step >= h.steps {
			return fmt.Errorf("observation %q: row %d: step %v has the noise: expected 0 to %d", policy.Latent, row,
				chain[k-1], h.steps-1)
		}
		h.times[row] = h.begin(step)
		copy(h.state[row*dims:(row+1)*dims], chain[step*dims:])
		copy(h.target[row*dims:(row+1)*dims], chain[(step+1)*dims:])
	}
	return nil
}

// imitate draws times and noise for demonstrated actions. It sets times, the states, and the velocities as targets.
func (h *flowWork) imitate(b batch) {
	p := h.p
	for row := range b.n {
		s := philox.New(0, philox.Denoise, uint64(row), 0)
		if len(b.augment.Env) > 0 {
			s = philox.New(b.augment.Seed, philox.Denoise, b.augment.Env[row], b.augment.Step[row])
		}
		t := 0.001 + 0.999*math.Pow(s.Float64(), 1/1.5)
		h.times[row] = float32(t)
		var spare float64
		for i := range p.dims {
			at, noise := row*p.dims+i, spare
			if i%2 == 0 {
				noise, spare = s.Normal()
			}
			a := p.actions.unit(b.action[at], i%p.actions.dims)
			h.state[at], h.target[at] = float32(t*noise+(1-t)*a), float32(noise-a)
		}
	}
}

// addTo computes the features of the states and times of n rows, and adds them to slots.
func (h *flowWork) addTo(slots []float32, n int) {
	d, each := h.p.d, h.p.slots
	for row := range n {
		f := h.waves[row*waves : (row+1)*waves]
		for i := range waves / 2 {
			frequency := math.Pi / 2 * math.Pow(1000, float64(i)/(waves/2-1))
			sin, cos := math.Sincos(frequency * float64(h.times[row]))
			f[2*i], f[2*i+1] = float32(sin), float32(cos)
		}
	}
	h.head.state.Forward(h.slots, h.state, n*each)
	h.head.time.Forward(h.shift, h.waves, n)
	o := h.p.params.Ops()
	o.Axpy(slots[:n*each*d], 1, h.slots[:n*each*d])
	o.AddRows(slots, nn.Rows{}, h.shift, nn.Rows{Repeat: each}, nil, d, n*each)
}

func (h *flowWork) backwardSlots(dSlots []float32, n int) {
	d, each := h.p.d, h.p.slots
	clear(h.shift[:n*d])
	h.p.params.Ops().AddRows(h.shift, nn.Rows{Repeat: each}, dSlots, nn.Rows{}, nil, d, n*each)
	h.head.state.Backward(nil, h.state, dSlots, n*each, false, nil)
	h.head.time.Backward(nil, h.waves, h.shift, n, false, nil)
}

func (h *flowWork) choose(x *pass, action, logProb, chains []float32, s sampling) error {
	p, n, dims, k := h.p, x.n, h.p.dims, h.p.LatentLen()
	clear(logProb[:n*dims])
	for row := range n {
		h.beginChain(row, chains[row*k:(row+1)*k], s)
	}
	for step := range h.steps {
		for row := range n {
			h.times[row] = h.begin(step)
		}
		x.resetSlots(n)
		h.addTo(x.slots, n)
		hidden, err := x.cache.extend(x, p.slots, true)
		if err != nil {
			return err
		}
		h.head.velocity.Forward(h.velocity, hidden, n*p.slots)
		for row := range n {
			h.move(row, step, logProb[row*dims:(row+1)*dims], &s.streams[row])
			copy(chains[row*k+(step+1)*dims:], h.state[row*dims:(row+1)*dims])
		}
	}
	for i := range n * dims {
		action[i] = p.actions.number(min(max(float64(h.state[i]), -1), 1), i%p.actions.dims)
	}
	return nil
}

// beginChain draws the first state of a row and writes it to chain. In training, it also draws the step that adds
// noise. chain ends with the number of this step, or -1.
func (h *flowWork) beginChain(row int, chain []float32, s sampling) {
	state := h.state[row*h.p.dims : (row+1)*h.p.dims]
	h.noisy[row] = -1
	clear(state)
	if s.temperature > 0 {
		policy.Normals(state, &s.streams[row])
	}
	if s.training {
		h.noisy[row] = s.streams[row].IntN(h.steps)
	}
	copy(chain, state)
	chain[len(chain)-1] = float32(h.noisy[row])
}

// move replaces the state of a row with the state after a step. If the step adds noise, move draws it from stream and
// sets logProb.
func (h *flowWork) move(row, step int, logProb []float32, stream *philox.Stream) {
	dims, noisy := h.p.dims, h.noisy[row] == step
	state, noise := h.state[row*dims:(row+1)*dims], h.target[row*dims:(row+1)*dims]
	if noisy {
		policy.Normals(noise, stream)
	}
	for i, x := range state {
		mean, deviation, _ := h.step(x, h.velocity[row*dims+i], float64(h.times[row]), noisy)
		if state[i] = float32(mean); noisy {
			state[i] = float32(mean + deviation*float64(noise[i]))
			logProb[i] = normalLogProb(state[i], mean, deviation)
		}
	}
}

func normalLogProb(x float32, mean, deviation float64) float32 {
	u := (float64(x) - mean) / deviation
	return float32(-0.5*u*u - math.Log(deviation) - 0.5*math.Log(2*math.Pi))
}

func (h *flowWork) evaluate(logProb, entropy, hidden, _ []float32, n int) {
	h.hidden = hidden
	h.head.velocity.Forward(h.velocity, hidden, n*h.p.slots)
	for i := range n * h.p.dims {
		entropy[i] = 0
		if h.imitating {
			e := h.velocity[i] - h.target[i]
			logProb[i], h.slope[i] = -e*e, -2*e
			continue
		}
		mean, deviation, slope := h.step(h.state[i], h.velocity[i], float64(h.times[i/h.p.dims]), true)
		logProb[i] = normalLogProb(h.target[i], mean, deviation)
		h.slope[i] = float32((float64(h.target[i]) - mean) / (deviation * deviation) * slope)
	}
}

func (h *flowWork) backward(dHidden, dLogProb, _ []float32, n int) {
	for i := range n * h.p.dims {
		h.velocity[i] = dLogProb[i] * h.slope[i]
	}
	h.head.velocity.Backward(dHidden, h.hidden, h.velocity, n*h.p.slots, false, h.scratch)
}
