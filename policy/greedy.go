package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A Greedy chooses the allowed discrete action with the largest value. In mode Sample it explores: with probability ε
// the action is random. ε falls linearly over the steps of an environment (Mnih et al. 2015,
// doi:10.1038/nature14236). DQN trains a Greedy.
type Greedy struct {
	cfg    Config
	spec   env.Spec
	obs    *observations
	params *nn.Params[float32]
	net    *nn.Net[float32] // its outputs are the values of A actions
}

var _ Policy = (*Greedy)(nil)

func newGreedy(cfg Config, spec env.Spec, encoder *nn.Layer, seed uint64, alloc tensor.Allocator) (*Greedy, error) {
	shape, err := shapeOf(spec.Action, cfg)
	if err == nil && shape.dims != 1 {
		err = fmt.Errorf("%d choices at a time: expected one (add_q_head)", shape.dims)
	}
	if err != nil {
		return nil, fmt.Errorf("action: %w", err)
	}
	if cfg.LayerNorm {
		return nil, env.KeyErrors{{Key: "layer_norm", Reason: "true, but actions are discrete, and the policy is its " +
			"own critic: expected false"}}
	}
	p := &Greedy{cfg: cfg, spec: spec, params: newParams(cfg)}
	if p.obs, err = newObservations(spec, cfg, encoder, p.params); err != nil {
		return nil, err
	}
	p.params.Group("critic")
	layers, sources := p.obs.shape().input()
	values := append(cfg.hidden(), head(shape.options[0], 1))
	layers = append(layers, nn.Sequence(values...).Named("critic"))
	if p.net, err = nn.NewNet(p.params, "", nn.Sequence(layers...), sources); err != nil {
		return nil, fmt.Errorf("network encoder: %w", err)
	}
	if p.net.State > 0 {
		return nil, errors.New("add_q_head: true: expected an encoder without recurrent cells")
	}
	if err := p.params.Alloc(alloc); err != nil {
		return nil, err
	}
	if !cfg.Blank {
		p.net.Init(seed)
	}
	return p, nil
}

// Spaces returns the fields of an observation and the space of actions.
func (p *Greedy) Spaces() ([]env.Field, env.Space) { return p.obs.fields, p.spec.Action }

// Params returns the parameters, in one group, "critic".
func (p *Greedy) Params() *nn.Params[float32] { return p.params }

// Cameras returns the cameras that p sees.
func (p *Greedy) Cameras() []Camera { return p.obs.images }

// NewTarget returns a target network: a policy like p with its own copy of p's parameters.
func (p *Greedy) NewTarget(alloc tensor.Allocator) (*Greedy, error) {
	t, err := build(p.cfg, p.spec, p.obs.own, 0, alloc)
	if err != nil {
		return nil, err
	}
	copy(t.Params().State(), p.params.State())
	return t.(*Greedy), nil
}

// greedyWork is the memory of one user of a Greedy.
type greedyWork struct {
	owner   *Greedy
	maxRows int
	obs     *obsWork
	net     *nn.NetWork[float32]
	n       int           // rows of the last Values
	q       tensor.Tensor // [maxRows,A]
	action  tensor.Tensor // [maxRows,1,1]
	logProb tensor.Tensor // [maxRows,1]
	allowed []int32       // actions of one row
}

// NewWork returns a Work for at most maxRows rows at a time.
func (p *Greedy) NewWork(maxRows int) Work {
	return &greedyWork{
		owner: p, maxRows: maxRows, obs: p.obs.newWork(maxRows), net: p.net.NewWork(maxRows),
		q: tensor.New(tensor.F32, maxRows, p.net.Out), action: tensor.New(tensor.I32, maxRows, 1, 1),
		logProb: tensor.New(tensor.F32, maxRows, 1), allowed: make([]int32, 0, p.net.Out),
	}
}

// Values returns the value of each action, F32 [N,A]. The value of a forbidden action is -Inf. The result is valid
// until the next call with wk.
func (p *Greedy) Values(wk Work, obs tensor.Dict) (tensor.Tensor, error) {
	w, q, err := p.estimate(wk, obs)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("policy: values: %w", err)
	}
	forbid(q.F32(), w.obs.mask, w.n)
	return q, nil
}

// estimate returns wk as a greedyWork, and the values of all actions, allowed or not.
func (p *Greedy) estimate(wk Work, obs tensor.Dict) (*greedyWork, tensor.Tensor, error) {
	w, ok := wk.(*greedyWork)
	if !ok || w.owner != p {
		return nil, tensor.Tensor{}, fmt.Errorf("work %T of another policy", wk)
	}
	rows, n, err := p.obs.read(w.obs, obs, w.maxRows)
	if err != nil {
		w.n = 0
		return nil, tensor.Tensor{}, err
	}
	q := w.q.Slice(0, n)
	copy(q.F32(), p.net.Forward(w.net, w.obs.batch(rows, n).Batch))
	w.n = n
	return w, q, nil
}

// BackwardValues adds the gradient of a loss. dValues is the gradient of the loss with respect to the result of Values.
// The last call with wk must be Values. Policy.Backward describes ready.
func (p *Greedy) BackwardValues(wk Work, dValues tensor.Tensor, ready func(lo, hi int)) error {
	w, ok := wk.(*greedyWork)
	if !ok || w.owner != p || w.n == 0 || dValues.Len() != w.n*p.net.Out {
		return fmt.Errorf("policy: backward: derivative %v by the values of the last call: expected F32[%d %d]",
			dValues, w.n, p.net.Out)
	}
	copy(p.net.OutGrad(w.net), dValues.F32())
	p.net.Backward(w.net, nil, ready)
	w.n = 0
	return nil
}

// Forward implements Policy. Act.LogProb is the log-probability of the action at the present ε.
func (p *Greedy) Forward(wk Work, obs tensor.Dict, mode Mode, noise Noise) (Act, error) {
	w, q, err := p.estimate(wk, obs)
	if err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	n, options := w.n, p.net.Out
	if err = finite(q, "value of an action", n); err == nil && mode == Sample {
		err = noise.Check(n)
	}
	if err != nil {
		return Act{}, fmt.Errorf("policy: forward: %w", err)
	}
	forbid(q.F32(), w.obs.mask, n)
	act := Act{Action: w.action.Slice(0, n), LogProb: w.logProb.Slice(0, n)}
	choice, logProb := act.Action.I32(), act.LogProb.F32()
	for row := range n {
		values := q.F32()[row*options : (row+1)*options]
		best := Argmax(values)
		choice[row], logProb[row] = int32(best), 0
		if mode == Deterministic {
			continue
		}
		epsilon := p.epsilon(noise.Step[row])
		s := noise.Stream(row)
		allowed := w.allowed[:0]
		for i, v := range values {
			if !math.IsInf(float64(v), -1) {
				allowed = append(allowed, int32(i))
			}
		}
		if s.Float64() < epsilon {
			choice[row] = allowed[s.IntN(len(allowed))]
		}
		prob := epsilon / float64(len(allowed))
		if int(choice[row]) == best {
			prob += 1 - epsilon
		}
		logProb[row] = float32(math.Log(prob))
	}
	return act, nil
}

// epsilon returns ε at a step of an environment.
func (p *Greedy) epsilon(step uint64) float64 {
	done := 1.0
	if n := uint64(p.cfg.EpsilonSteps); step < n {
		done = float64(step) / float64(n)
	}
	return p.cfg.EpsilonStart + (p.cfg.EpsilonEnd-p.cfg.EpsilonStart)*done
}

// Evaluate returns an error, because a Greedy learns from values, not from log-probs.
func (p *Greedy) Evaluate(Work, tensor.Dict, tensor.Tensor) (Eval, error) {
	return Eval{}, fmt.Errorf("policy: evaluate: a policy with add_q_head gives no probabilities of earlier actions")
}

// Value returns an error, because a Greedy values actions, not states.
func (p *Greedy) Value(Work, tensor.Dict) (tensor.Tensor, error) {
	return tensor.Tensor{}, fmt.Errorf("policy: value: no critic of states: add_value_head is false")
}

// Backward returns an error; see BackwardValues.
func (p *Greedy) Backward(Work, Grad, func(lo, hi int)) error {
	return fmt.Errorf("policy: backward: a policy with add_q_head and discrete actions learns by values")
}
