package algo_test

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// linear is the smallest policy with everything: logits = x·W and value = x·w for an observation of in
// numbers, with exact gradients.
type linear struct {
	in, out int
	params  nn.Params[float32]
	stats   []float64 // of the last MergeStats; nil: observations are not normalised
}

type linearWork struct {
	obs     []float32
	action  []int32
	prob    []float32
	logProb tensor.Tensor
	entropy tensor.Tensor
	value   tensor.Tensor
}

var (
	_ policy.Policy         = (*linear)(nil)
	_ algo.ObservationStats = (*linear)(nil)
)

const pad = tensor.Align / 4

func newLinear(in, out int) *linear {
	lo := (in*out + pad - 1) / pad * pad
	hi := lo + (in+pad-1)/pad*pad
	return &linear{in: in, out: out, params: nn.Params[float32]{
		Data: tensor.New(tensor.F32, hi).F32(),
		Grad: tensor.New(tensor.F32, hi).F32(),
		Fields: []nn.ParamTensor{{Name: "actor.weight", Shape: []int{in, out}},
			{Name: "critic.weight", Shape: []int{in, 1}, Off: lo}},
		Groups: []nn.ParamGroup{{Name: "actor", Hi: lo, Trainable: true},
			{Name: "critic", Lo: lo, Hi: hi, Trainable: true}},
	}}
}

func (l *linear) Spaces() ([]env.Field, env.Space) { panic("not used") }
func (l *linear) Params() *nn.Params[float32]      { return &l.params }

func (l *linear) NewWork(rows int) policy.Work {
	return &linearWork{
		prob:    make([]float32, rows*l.out),
		logProb: tensor.New(tensor.F32, rows, 1), entropy: tensor.New(tensor.F32, rows, 1),
		value: tensor.New(tensor.F32, rows, 1),
	}
}

func (l *linear) Evaluate(work policy.Work, obs tensor.Dict, action tensor.Tensor) (policy.Eval, error) {
	w := work.(*linearWork)
	w.obs, w.action = obs.Must("state").F32(), action.I32()
	critic := l.params.Data[l.params.Groups[1].Lo:]
	for row, a := range w.action {
		x, p := w.obs[row*l.in:(row+1)*l.in], w.prob[row*l.out:(row+1)*l.out]
		var sum, h, value float64
		for k := range p {
			var logit float64
			for i, xi := range x {
				logit += float64(xi) * float64(l.params.Data[i*l.out+k])
			}
			p[k] = float32(math.Exp(logit))
			sum += float64(p[k])
		}
		for k := range p {
			p[k] /= float32(sum)
			h -= float64(p[k]) * math.Log(float64(p[k]))
		}
		for i, xi := range x {
			value += float64(xi) * float64(critic[i])
		}
		w.logProb.F32()[row] = float32(math.Log(float64(p[a])))
		w.entropy.F32()[row] = float32(h)
		w.value.F32()[row] = float32(value)
	}
	n := len(w.action)
	return policy.Eval{LogProb: w.logProb.Slice(0, n), Entropy: w.entropy.Slice(0, n), Value: w.value.Slice(0, n)}, nil
}

func (l *linear) Backward(work policy.Work, g policy.Grad, ready func(lo, hi int)) error {
	w := work.(*linearWork)
	actor, critic := l.params.Groups[0], l.params.Groups[1]
	if !g.Value.IsZero() {
		grad := l.params.Grad[critic.Lo:]
		for row, d := range g.Value.F32() {
			for i := range l.in {
				grad[i] += d * w.obs[row*l.in+i]
			}
		}
	}
	if ready != nil {
		ready(critic.Lo, critic.Hi)
	}
	for row, a := range w.action {
		p := w.prob[row*l.out : (row+1)*l.out]
		for k := range p {
			var d float32 // by logit k
			if !g.LogProb.IsZero() {
				d -= g.LogProb.F32()[row] * p[k]
				if k == int(a) {
					d += g.LogProb.F32()[row]
				}
			}
			if !g.Entropy.IsZero() {
				d -= g.Entropy.F32()[row] * p[k] * (float32(math.Log(float64(p[k]))) + w.entropy.F32()[row])
			}
			for i := range l.in {
				l.params.Grad[i*l.out+k] += d * w.obs[row*l.in+i]
			}
		}
	}
	if ready != nil {
		ready(actor.Lo, actor.Hi)
	}
	return nil
}

func (l *linear) Forward(w policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act, error) {
	n := obs.Must("state").Dim(0)
	action := tensor.New(tensor.I32, n, 1, 1)
	eval, err := l.Evaluate(w, obs, action)
	for row := range n {
		s := philox.New(noise.Seed, philox.Action, noise.Env[row], noise.Step[row])
		u, p := float32(s.Float64()), w.(*linearWork).prob[row*l.out:(row+1)*l.out]
		for k := range p {
			if u -= p[k]; u < 0 || k == l.out-1 {
				action.I32()[row] = int32(k)
				eval.LogProb.F32()[row] = float32(math.Log(float64(p[k])))
				break
			}
		}
	}
	return policy.Act{Action: action, LogProb: eval.LogProb, Value: eval.Value}, err
}

func (l *linear) Value(w policy.Work, obs tensor.Dict) (tensor.Tensor, error) {
	eval, err := l.Evaluate(w, obs, tensor.New(tensor.I32, obs.Must("state").Dim(0), 1, 1))
	return eval.Value, err
}

func (l *linear) StatsLen() int { return len(l.stats) }

// AddStats adds the number of rows, and Σ of each element.
func (l *linear) AddStats(sums []float64, obs tensor.Dict) error {
	x := obs.Must("state").F32()
	sums[0] += float64(len(x) / l.in)
	for i, v := range x {
		sums[1+i%l.in] += float64(v)
	}
	return nil
}

func (l *linear) MergeStats(sums []float64) {
	if len(sums) != len(l.stats) {
		panic(fmt.Sprintf("%d sums", len(sums)))
	}
	copy(l.stats, sums)
}
