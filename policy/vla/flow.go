package vla

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// flowHead denoises actions (π0, Black et al. 2024, arXiv:2410.24164). Time runs from 1, noise, to
// 0, an action of [-1, 1]. A slot stands for one action of the chunk and is made of its noisy state
// x, of the time and of its place. The head gives the velocity v of x. It learns from demonstrations
// a by
//
//	x = t·noise + (1-t)·a,    loss Σ (v - (noise - a))²,    t ~ 0.001 + 0.999·Beta(1.5, 1)
//
// For reinforcement learning (πRL, Chen et al. 2025, arXiv:2510.25889) one of the steps, drawn by
// chance, has noise, and the log-prob of a chunk is that of this step. Others follow the equation
// without noise. With δ = 1/num_steps, a = x - v·t and b = x + v·(1-t),
//
//	without:  a·(1-t+δ) + b·(t-δ)
//	with:     mean a·(1-t+δ) + b·(t-δ-σ²δ/(2t)), deviation σ·√δ, σ = noise_level·√(t/(1-t))
//
// where 1-t is δ at t = 1. Entropies are 0.
//
// Slots share the weights of the trunk. There is no expert with weights of its own as in π0.
type flowHead struct {
	p             *Policy
	in, time, out *nn.Linear[float32] // [A,d] of states, [waves,d] of times, [d,A]
}

// waves is how many sines and cosines of a time a slot sees, of periods from 4 down to 4/1000.
const waves = 32

func newFlowHead(p *Policy) *flowHead {
	return &flowHead{p: p, in: nn.NewLinear(p.params, "flow.state", p.actions.dims, p.d),
		time: nn.NewLinear(p.params, "flow.time", waves, p.d)}
}

func (h *flowHead) init(seed uint64) {
	h.in.Init(seed, 1)
	h.time.Init(seed, 1)
	h.out.Init(seed, firstGain)
}

func (h *flowHead) fields() (lo, hi int) { return h.out.Range() }

// step returns mean and deviation of the state after a step that begins at time t, and the
// derivative of the mean by the velocity.
func (h *flowHead) step(x, v float32, t float64, noisy bool) (mean, deviation, slope float64) {
	delta := 1 / float64(h.p.own.NumSteps)
	toAction, toNoise := 1-t+delta, t-delta
	if noisy {
		sigma := h.p.own.NoiseLevel * math.Sqrt(t/max(1-t, delta))
		toNoise -= sigma * sigma * delta / (2 * t)
		deviation = sigma * math.Sqrt(delta)
	}
	slope = -t*toAction + (1-t)*toNoise
	return float64((float64(x) * (toAction + toNoise))) + float64(float64(v)*slope), deviation, slope
}

// A denoising is one user's memory of the slots of a flowHead, and of the head.
type denoising struct {
	*flowHead
	x        *pass
	imitates bool      // there are demonstrations, and no chain
	state    []float32 // [rows, C·A]
	times    []float32 // [rows]
	wanted   []float32 // [rows, C·A]: the next state, or in imitation the velocity
	features []float32 // [rows, waves]
	made     []float32 // [rows, C, d] of states
	timed    []float32 // [rows, d] of times
	velocity []float32 // [rows, C·A]
	slope    []float32 // [rows, C·A], derivative of a log-prob by the velocity
	h        []float32 // the slots of the last evaluate
	dMade    []float32
	dTimed   []float32
	scratch  []float32
	streams  []philox.Stream
	noisy    []int // the step with noise of each row; -1: none
}

func newDenoising(x *pass, most int, training bool) *denoising {
	p := x.p
	dims, wide := x.rows*p.count, x.rows*p.slotted*p.d
	d := &denoising{
		flowHead: p.flow, x: x, state: nn.Vector[float32](dims), times: make([]float32, x.rows),
		wanted: nn.Vector[float32](dims), features: nn.Vector[float32](x.rows * waves),
		made: nn.Vector[float32](wide), timed: nn.Vector[float32](x.rows * p.d), velocity: nn.Vector[float32](dims),
		noisy: make([]int, x.rows),
	}
	x.head = d
	if !training {
		x.cache, d.streams = newCache(x, most), make([]philox.Stream, x.rows)
		return d
	}
	d.slope, d.dMade, d.dTimed = nn.Vector[float32](dims), nn.Vector[float32](wide), nn.Vector[float32](x.rows*p.d)
	d.scratch = nn.Vector[float32](p.d * p.actions.dims)
	return d
}

// newWork returns nothing: newDenoising makes the memory, which is that of the slots, too.
func (h *flowHead) newWork(int) headWork { return nil }

// read takes the state, the time and the next state of the step with noise from chains, or makes a
// task of imitation.
func (d *denoising) read(obs tensor.Dict, action []float32, n int, augment *policy.Noise) error {
	p, k := d.p, d.p.LatentLen()
	chains, ok := obs.Get(policy.Latent)
	if d.imitates = !ok; d.imitates {
		d.task(action, n, augment)
		d.embed(n)
		return nil
	}
	if chains.DType() != tensor.F32 || chains.Len() != n*k {
		return fmt.Errorf("observation %q: %v: expected F32[%d %d], the chains behind the actions", policy.Latent,
			chains,
			n, k)
	}
	for row := range n {
		chain := chains.F32()[row*k : (row+1)*k]
		at := int(chain[k-1])
		if at < 0 || at >= p.own.NumSteps {
			return fmt.Errorf("observation %q: row %d: step %v has the noise: expected 0 to %d", policy.Latent, row,
				chain[k-1], p.own.NumSteps-1)
		}
		d.times[row] = d.time0(at)
		copy(d.state[row*p.count:(row+1)*p.count], chain[at*p.count:])
		copy(d.wanted[row*p.count:(row+1)*p.count], chain[(at+1)*p.count:])
	}
	d.embed(n)
	return nil
}

// time0 is the time at which a step begins.
func (h *flowHead) time0(step int) float32 { return 1 - float32(step)/float32(h.p.own.NumSteps) }

// task draws times and noise for demonstrated actions.
func (d *denoising) task(action []float32, n int, augment *policy.Noise) {
	p := d.p
	for row := range n {
		s := philox.New(0, philox.Denoise, uint64(row), 0)
		if len(augment.Env) > 0 {
			s = philox.New(augment.Seed, philox.Denoise, augment.Env[row], augment.Step[row])
		}
		t := 0.001 + 0.999*math.Pow(s.Float64(), 1/1.5)
		d.times[row] = float32(t)
		var spare float64
		for i := range p.count {
			at, noise := row*p.count+i, spare
			if i%2 == 0 {
				noise, spare = s.Normal()
			}
			a := p.actions.unit(action[at], i%p.actions.dims)
			d.state[at], d.wanted[at] = float32(t*noise+(1-t)*a), float32(noise-a)
		}
	}
}

// embed makes rows of the trunk of states and times.
func (d *denoising) embed(n int) {
	for row := range n {
		f := d.features[row*waves : (row+1)*waves]
		for i := range waves / 2 {
			w := math.Pi / 2 * math.Pow(1000, float64(i)/(waves/2-1))
			sin, cos := math.Sincos(w * float64(d.times[row]))
			f[2*i], f[2*i+1] = float32(sin), float32(cos)
		}
	}
	d.in.Forward(d.made, d.state, n*d.p.slotted)
	d.time.Forward(d.timed, d.features, n)
}

func (d *denoising) add(slots []float32, row int) {
	width := d.p.d
	kernel.Axpy(slots, 1, d.made[row*len(slots):(row+1)*len(slots)])
	for i := range d.p.slotted {
		kernel.Axpy(slots[i*width:(i+1)*width], 1, d.timed[row*width:(row+1)*width])
	}
}

func (d *denoising) addGrad(dSlots []float32, row int) { copy(d.dMade[row*len(dSlots):], dSlots) }

func (d *denoising) finish(n int) {
	width := d.p.d
	for row := range n {
		sum := d.dTimed[row*width : (row+1)*width]
		clear(sum)
		for i := range d.p.slotted {
			kernel.Axpy(sum, 1, d.dMade[(row*d.p.slotted+i)*width:][:width])
		}
	}
	d.in.Backward(nil, d.state, d.dMade, n*d.p.slotted, false, nil)
	d.time.Backward(nil, d.features, d.dTimed, n, false, nil)
}

func (d *denoising) decide(action, logProb, chains []float32, n int, t draws) error {
	p, x, k := d.p, d.x, d.p.LatentLen()
	clear(logProb[:n*p.count])
	for row := range n {
		state, chain := d.state[row*p.count:(row+1)*p.count], chains[row*k:]
		d.streams[row], d.noisy[row] = t.stream(row), -1
		clear(state)
		if t.temperature > 0 {
			normals(state, &d.streams[row])
		}
		if t.training {
			d.noisy[row] = d.streams[row].IntN(p.own.NumSteps)
		}
		copy(chain, state)
		chain[k-1] = float32(d.noisy[row])
	}
	places := p.params.Of(p.slots)
	for step := range p.own.NumSteps {
		for row := range n {
			d.times[row] = d.time0(step)
		}
		d.embed(n)
		for row := range n {
			slots := x.slots[row*len(places) : (row+1)*len(places)]
			copy(slots, places)
			d.add(slots, row)
		}
		h, err := x.cache.extend(x.slots, p.slotted, n, true)
		if err != nil {
			return err
		}
		x.cache.back(n)
		d.out.Forward(d.velocity, h, n*p.slotted)
		for row := range n {
			d.move(row, step, logProb[row*p.count:(row+1)*p.count])
			copy(chains[row*k+(step+1)*p.count:], d.state[row*p.count:(row+1)*p.count])
		}
	}
	for i := range n * p.count {
		action[i] = p.actions.number(min(max(float64(d.state[i]), -1), 1), i%p.actions.dims)
	}
	return nil
}

// move takes the state of a row through a step.
func (d *denoising) move(row, step int, logProb []float32) {
	p, noisy := d.p, d.noisy[row] == step
	state, noise := d.state[row*p.count:(row+1)*p.count], d.wanted[row*p.count:(row+1)*p.count]
	if noisy {
		normals(noise, &d.streams[row])
	}
	for i, x := range state {
		mean, deviation, _ := d.step(x, d.velocity[row*p.count+i], float64(d.times[row]), noisy)
		if state[i] = float32(mean); noisy {
			state[i] = float32(mean + deviation*float64(noise[i]))
			logProb[i] = normalLogProb(state[i], mean, deviation)
		}
	}
}

// normals draws x from a normal distribution.
func normals(x []float32, s *philox.Stream) {
	for i := 0; i < len(x); i += 2 {
		a, b := s.Normal()
		if x[i] = float32(a); i+1 < len(x) {
			x[i+1] = float32(b)
		}
	}
}

func normalLogProb(x float32, mean, deviation float64) float32 {
	u := (float64(x) - mean) / deviation
	return float32(-0.5*u*u - math.Log(deviation) - 0.5*math.Log(2*math.Pi))
}

func (d *denoising) evaluate(logProb, entropy, h, _ []float32, n int) {
	p := d.p
	d.h = h
	d.out.Forward(d.velocity, h, n*p.slotted)
	for i := range n * p.count {
		entropy[i] = 0
		if d.imitates {
			e := d.velocity[i] - d.wanted[i]
			logProb[i], d.slope[i] = -e*e, -2*e
			continue
		}
		mean, deviation, slope := d.step(d.state[i], d.velocity[i], float64(d.times[i/p.count]), true)
		logProb[i] = normalLogProb(d.wanted[i], mean, deviation)
		d.slope[i] = float32((float64(d.wanted[i]) - mean) / (deviation * deviation) * slope)
	}
}

func (d *denoising) backward(dh, dLogProb, _ []float32, n int) {
	for i := range n * d.p.count {
		d.velocity[i] = dLogProb[i] * d.slope[i]
	}
	d.out.Backward(dh, d.h, d.velocity, n*d.p.slotted, false, d.scratch)
}
