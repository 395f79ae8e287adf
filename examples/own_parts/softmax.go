package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// softmax is one layer without a critic. The probabilities of a discrete action are softmax(x·W + b).
type softmax struct {
	spec   env.Spec
	params nn.Params[float32]
	head   *nn.Linear[float32]
}

// softmaxWork is the memory of one caller: the probabilities of each row, and the inputs of Backward.
type softmaxWork struct {
	prob, dLogit     []float32
	x                []float32
	choice           []int32
	action           tensor.Tensor
	logProb, entropy tensor.Tensor
}

func newSoftmax(cfg policy.Config, spec env.Spec, _ uint64, alloc tensor.Allocator) (policy.Policy, error) {
	if len(spec.Obs) != 1 || spec.Action.Kind != env.Discrete || cfg.NumActionChunks != 1 {
		return nil, fmt.Errorf("softmax: for %s: expected one observation, a discrete action and no chunks", spec.Name)
	}
	p := &softmax{spec: spec}
	p.params.Group("actor")
	p.head = nn.NewLinear(&p.params, "actor.head", spec.Obs[0].Dim(), spec.Action.Nvec[0])
	return p, p.params.Alloc(alloc) // zeros: all actions are equally likely at first
}

func (p *softmax) Spaces() ([]env.Field, env.Space) { return p.spec.Obs, p.spec.Action }

func (p *softmax) Params() *nn.Params[float32] { return &p.params }

func (p *softmax) NewWork(rows int) policy.Work {
	return &softmaxWork{
		prob: nn.Vector[float32](rows * p.head.Out), dLogit: nn.Vector[float32](rows * p.head.Out),
		action: tensor.New(tensor.I32, rows, 1, 1), logProb: tensor.New(tensor.F32, rows, 1),
		entropy: tensor.New(tensor.F32, rows, 1),
	}
}

// run stores the probabilities of the actions in w, and returns the number of rows.
func (p *softmax) run(w *softmaxWork, obs tensor.Dict) int {
	x := obs.Must(p.spec.Obs[0].Name)
	n := x.Dim(0)
	w.x = x.F32()
	p.head.Forward(w.prob, w.x, n)
	for row := range n {
		z, sum := w.row(row, p.head.Out), 0.0
		for i := range z {
			z[i] = float32(math.Exp(float64(z[i])))
			sum += float64(z[i])
		}
		for i := range z {
			z[i] /= float32(sum)
		}
	}
	return n
}

func (w *softmaxWork) row(n, width int) []float32 { return w.prob[n*width : (n+1)*width] }

func (p *softmax) Forward(work policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act,
	error) {
	w := work.(*softmaxWork)
	n := p.run(w, obs)
	for row := range n {
		prob, a := w.row(row, p.head.Out), 0
		if mode == policy.Sample { // seed, environment and step select the noise
			u := rand.New(rand.NewPCG(noise.Seed^noise.Env[row]<<32, noise.Step[row])).Float32()
			for a = 0; a < len(prob)-1 && u >= prob[a]; a++ {
				u -= prob[a]
			}
		} else {
			for i := range prob {
				if prob[i] > prob[a] {
					a = i
				}
			}
		}
		w.action.I32()[row], w.logProb.F32()[row] = int32(a), float32(math.Log(float64(prob[a])))
	}
	return policy.Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n)}, nil
}

func (p *softmax) Evaluate(work policy.Work, obs tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	w := work.(*softmaxWork)
	n := p.run(w, obs)
	w.choice = action.I32()
	for row, a := range w.choice {
		w.logProb.F32()[row] = float32(math.Log(float64(w.row(row, p.head.Out)[a])))
		h := 0.0
		for _, q := range w.row(row, p.head.Out) {
			h -= float64(q) * math.Log(float64(q))
		}
		w.entropy.F32()[row] = float32(h)
	}
	return policy.Eval{LogProb: w.logProb.Slice(0, n), Entropy: w.entropy.Slice(0, n)}, nil
}

// Value returns the zero Tensor, because there is no critic.
func (p *softmax) Value(policy.Work, tensor.Dict) (tensor.Tensor, error) { return tensor.Tensor{}, nil }

// Backward uses d log π(a) / dz_i = [i = a] - π_i.
func (p *softmax) Backward(work policy.Work, g policy.Grad, ready func(lo, hi int)) error {
	if !g.Entropy.IsZero() {
		return fmt.Errorf("softmax: expected algorithm.entropy_bonus 0")
	}
	w := work.(*softmaxWork)
	for row, a := range w.choice {
		d := g.LogProb.F32()[row]
		for i, q := range w.row(row, p.head.Out) {
			w.dLogit[row*p.head.Out+i] = -d * q
		}
		w.dLogit[row*p.head.Out+int(a)] += d
	}
	p.head.Backward(nil, w.x, w.dLogit, len(w.choice), true, nil)
	if ready != nil {
		ready(0, len(p.params.Data))
	}
	return nil
}
