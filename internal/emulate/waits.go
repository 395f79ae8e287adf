package emulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// Name is the name of the emulated environment and of the emulated policy.
const Name = "emulated"

// A clock waits in place of computing. Its time counts nanoseconds since it was made.
type clock struct {
	setting *Setting
	timer   *local.Timer
	start   time.Time
	credit  int64         // longest lateness that the next wait makes up for
	ended   chan struct{} // the run is over: nobody waits any longer

	waits, late atomic.Int64 // of all waits: as long as they should be, and beyond
}

func newClock(s *Setting) *clock {
	return &clock{setting: s, timer: local.NewTimer(), start: time.Now(), ended: make(chan struct{}),
		credit: int64(float64(s.Minibatches) * float64(s.Update.Of(s.batch())) * s.Stretch / 2)}
}

// wait takes the time d, stretched, and returns when it should have ended. It follows a wait that should have ended
// at the time after; 0: none. Real work and lateness since then are part of d. But if much time has passed since, the
// rank has done something else, and the wait begins now.
func (c *clock) wait(d time.Duration, after int64) int64 {
	begin := int64(time.Since(c.start))
	if begin-after < c.credit {
		begin = after
	}
	lasts := int64(float64(d) * c.setting.Stretch)
	end := c.start.Add(time.Duration(begin + lasts))
	c.timer.SleepUntil(end, c.ended)
	c.waits.Add(lasts)
	c.late.Add(int64(time.Since(end)))
	return begin + lasts
}

func (c *clock) close() {
	close(c.ended)
	c.timer.Close()
}

// Observations and actions carry the time at which the wait before them should have ended, in digits that are exact
// in float32.
const (
	digits    = 3
	digitBits = 21
)

func putTime(x []float32, t int64) {
	for i := range digits {
		x[i] = float32(t >> (digitBits * i) & (1<<digitBits - 1))
	}
}

// latest returns the latest time of all rows.
func latest(x []float32) (t int64) {
	for ; len(x) > 0; x = x[digits:] {
		row := int64(0)
		for i := range digits {
			row |= int64(x[i]) << (digitBits * i)
		}
		t = max(t, row)
	}
	return t
}

// An environment is n environments whose steps wait. The reward is 1, and no episode ends before its limit.
type environment struct {
	clock *clock
	n     int
	draw  *rand.Rand
	ended int64 // when the last step should have ended
}

var _ env.Simulator = (*environment)(nil)

func spec() env.Spec {
	box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{digits}, Low: make([]float32, digits),
		High: make([]float32, digits)}
	for i := range box.High {
		box.High[i] = 1 << digitBits
	}
	return env.Spec{Name: Name, Obs: []env.Field{{Name: "state", Space: box}}, Action: box, MaxSteps: 1000}
}

func (e *environment) Spec() env.Spec { return spec() }
func (e *environment) Len() int       { return e.n }
func (e *environment) Close() error   { return nil }

// Reset begins the random numbers of all n environments anew with the seed of the first.
func (e *environment) Reset(n int, seed uint64) error {
	if n == 0 {
		e.draw = rand.New(rand.NewPCG(seed, e.clock.setting.Seed))
	}
	return nil
}

func (e *environment) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	_ []float32) error {
	rows := 0
	for i, t := range turn {
		if t != env.Idle {
			rows++
			reward[i], terminated[i] = 1, 0
		}
	}
	s := e.clock.setting
	d := float64(s.Step.Of(rows))
	if s.Skew > 0 && e.draw != nil {
		d *= math.Exp(s.Skew*e.draw.NormFloat64() - s.Skew*s.Skew/2)
	}
	e.ended = e.clock.wait(time.Duration(d), latest(action.F32()))
	return nil
}

func (e *environment) Observe(mask []bool, obs tensor.Dict) {
	state := obs.Must("state").F32()
	for i := range e.n {
		if mask == nil || mask[i] {
			putTime(state[i*digits:], e.ended)
		}
	}
}

// A waitingPolicy waits in place of computing. Log-probs, values and gradients are 0.
type waitingPolicy struct {
	clock  *clock
	spec   env.Spec
	params nn.Params[float32]
}

var _ policy.Policy = (*waitingPolicy)(nil)

// A work holds results.
type work struct {
	action tensor.Tensor
	zeros  tensor.Tensor
	rows   int
	ended  int64 // when the last wait should have ended
}

func (p *waitingPolicy) Spaces() ([]env.Field, env.Space) { return p.spec.Obs, p.spec.Action }
func (p *waitingPolicy) Params() *nn.Params[float32]      { return &p.params }
func (p *waitingPolicy) NewWork(maxRows int) policy.Work {
	return &work{action: tensor.New(tensor.F32, maxRows, 1, digits), zeros: tensor.New(tensor.F32, maxRows, 1)}
}

func (p *waitingPolicy) begin(w policy.Work, obs tensor.Dict) (*work, error) {
	k, ok := w.(*work)
	if !ok {
		return nil, fmt.Errorf("emulate: work of another policy: %T", w)
	}
	var err error
	k.rows, err = policy.Rows(p.spec.Obs, obs, k.zeros.Dim(0))
	return k, err
}

func (p *waitingPolicy) Forward(w policy.Work, obs tensor.Dict, _ policy.Mode, _ policy.Noise) (policy.Act, error) {
	k, err := p.begin(w, obs)
	if err != nil {
		return policy.Act{}, err
	}
	k.ended = p.clock.wait(p.clock.setting.Infer.Of(k.rows), latest(obs.Must("state").F32()))
	action := k.action.Slice(0, k.rows)
	for x := action.F32(); len(x) > 0; x = x[digits:] {
		putTime(x, k.ended)
	}
	zeros := k.zeros.Slice(0, k.rows)
	return policy.Act{Action: action, LogProb: zeros, Value: zeros}, nil
}

func (p *waitingPolicy) Value(w policy.Work, obs tensor.Dict) (tensor.Tensor, error) {
	act, err := p.Forward(w, obs, policy.Deterministic, policy.Noise{})
	return act.Value, err
}

// Evaluate takes a third of the time of an update, and Backward the rest.
func (p *waitingPolicy) Evaluate(w policy.Work, obs tensor.Dict, _ tensor.Tensor) (policy.Eval, error) {
	k, err := p.begin(w, obs)
	if err != nil {
		return policy.Eval{}, err
	}
	k.ended = p.clock.wait(p.clock.setting.Update.Of(k.rows)/3, 0)
	zeros := k.zeros.Slice(0, k.rows)
	return policy.Eval{LogProb: zeros, Entropy: zeros, Value: zeros}, nil
}

func (p *waitingPolicy) Backward(w policy.Work, _ policy.Grad, ready func(lo, hi int)) error {
	k := w.(*work)
	update := p.clock.setting.Update.Of(k.rows)
	p.clock.wait(update-update/3, k.ended)
	if ready != nil {
		ready(0, p.params.Len())
	}
	return nil
}

// registries returns the lists with which a configuration can name the environment and the policy of c.
func (c *clock) registries() (*env.Registry, *policy.Registry) {
	envs, policies := new(env.Registry), new(policy.Registry)
	envs.Add(Name, func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&environment{clock: c, n: n}, cfg), nil
	})
	policies.Add(Name, func(_ policy.Config, spec env.Spec, _ uint64, alloc tensor.Allocator) (policy.Policy, error) {
		p := &waitingPolicy{clock: c, spec: spec}
		p.params.Group("actor")
		p.params.Add(Name, c.setting.Params/c.setting.Shrink)
		return p, p.params.Alloc(alloc)
	})
	return envs, policies
}
