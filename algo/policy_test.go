package algo

import (
	"fmt"
	"math"
	"sync"

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
	_ policy.Policy    = (*linear)(nil)
	_ ObservationStats = (*linear)(nil)
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

// A team has replicas that are goroutines of one process. A sum waits for all replicas, and adds them in their order.
type team struct {
	mu    sync.Mutex
	cond  *sync.Cond
	parts [][]float64
	here  int
	round int
	sums  int // number of calls of Sum, on all replicas together
}

func newTeam(n int) *team {
	t := &team{parts: make([][]float64, n)}
	t.cond = sync.NewCond(&t.mu)
	return t
}

func (t *team) sum(member int, x []float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts[member] = x
	if t.here++; t.here < len(t.parts) {
		for round := t.round; round == t.round; {
			t.cond.Wait()
		}
		return
	}
	total := make([]float64, len(x))
	for _, p := range t.parts {
		if len(p) != len(x) {
			panic(fmt.Sprintf("replicas sum %d and %d numbers", len(p), len(x)))
		}
		for i, v := range p {
			total[i] += v
		}
	}
	for _, p := range t.parts {
		copy(p, total)
	}
	t.here, t.round = 0, t.round+1
	t.cond.Broadcast()
}

// A replica is one member's Replicas.
type replica struct {
	*team
	member int
	grad   []float32
	ready  [][2]int // ranges made ready since the last Gradient
	open   bool     // Wait was not called for the last gradient
}

var _ Replicas = (*replica)(nil)

func (r *replica) Count() (int, int) { return len(r.parts), r.member }

func (r *replica) Sum(x []float64) error {
	r.sum(r.member, x)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums++
	return nil
}

func (r *replica) Gradient(grad []float32) GradientStream {
	if r.open {
		panic("two gradients are summed at once")
	}
	r.grad, r.ready, r.open = grad, r.ready[:0], true
	return r
}

func (r *replica) Gather(x []float32, counts []int) error {
	mine, at := make([]float64, len(x)), 0
	for i, n := range counts {
		for j := at; j < at+n && i == r.member; j++ {
			mine[j] = float64(x[j])
		}
		at += n
	}
	r.sum(r.member, mine)
	for i, v := range mine[:at] { // elements in no block stay
		x[i] = float32(v)
	}
	return nil
}

func (r *replica) Ready(lo, hi int) { r.ready = append(r.ready, [2]int{lo, hi}) }

func (r *replica) Wait(final func(lo, hi int)) error {
	r.open = false
	x := make([]float64, len(r.grad))
	for i, g := range r.grad {
		x[i] = float64(g)
	}
	r.sum(r.member, x)
	for i := range x {
		r.grad[i] = float32(x[i])
	}
	if final != nil {
		final(len(x)/3, len(x)) // in two parts, from the end
		final(0, len(x)/3)
	}
	return nil
}
