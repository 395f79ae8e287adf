package emulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
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

// A clock measures the time of a run, in nanoseconds since the clock was made. It also has the present costs of the
// job.
type clock struct {
	setting *Setting
	job     atomic.Pointer[Load]
	timer   *local.Timer
	start   time.Time
	ended   chan struct{} // closed when the run is over, so that all waits end

	updated     atomic.Int64 // when the last backward pass should have ended
	waits, late atomic.Int64 // sums over all waits: intended duration, and lateness of the end
}

func newClock(s *Setting) *clock {
	c := &clock{setting: s, timer: local.NewTimer(), start: time.Now(), ended: make(chan struct{})}
	c.job.Store(&s.Load)
	return c
}

// now returns the present time.
func (c *clock) now() int64 { return int64(time.Since(c.start)) }

// latest returns the latest time of all rows of observations or actions. If actors have trained since that time, it
// returns the present time, because the next wait is the first wait of a rollout.
func (c *clock) latest(x []float32) int64 {
	if t := latest(x); t > c.updated.Load() {
		return t
	}
	return c.now()
}

// A core stands for the core of one rank. Members that wait on it at the same time take turns, as threads do.
type core struct {
	*clock
	mu   sync.Mutex
	free int64 // when the last turn ends
}

// turn is the longest time for which a member keeps the core while other members wait for it.
const turn = time.Millisecond

// wait occupies the core in place of computing, for the duration d × Setting.Stretch. t0 is the time at which the
// previous wait should have ended. The duration begins at t0, so it includes real work and lateness since then. wait
// returns the time at which this wait should have ended.
func (c *core) wait(d time.Duration, t0 int64) (ends int64) {
	for ends = t0; d > 0; d -= turn {
		ends = c.take(int64(float64(min(d, turn))*c.setting.Stretch), ends)
	}
	return ends
}

// take occupies the core for one turn of ns nanoseconds, after all earlier turns and not before t0. It returns the time
// at which the turn should have ended.
func (c *core) take(ns, t0 int64) int64 {
	c.mu.Lock()
	c.free = max(c.free, t0) + ns
	ends := c.free
	c.mu.Unlock()
	end := c.start.Add(time.Duration(ends))
	c.timer.SleepUntil(end, c.ended)
	c.waits.Add(ns)
	c.late.Add(int64(time.Since(end)))
	return ends
}

func (c *clock) close() {
	close(c.ended)
	c.timer.Close()
}

// Observations and actions carry the time at which the previous wait should have ended. The time is stored as digits
// that float32 represents exactly.
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

// An environment simulates n environments by waiting. Rewards are random, and no episode ends before its limit.
type environment struct {
	core   *core
	n      int
	state  []int64 // for each environment, the seed of its episode and its number of steps
	source rand.PCG
	ended  int64 // when the last step should have ended
}

var (
	_ env.Simulator = (*environment)(nil)
	_ env.Saver     = (*environment)(nil)
)

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

func (e *environment) Reset(n int, seed uint64) error {
	e.state[2*n], e.state[2*n+1] = int64(seed), 0
	return nil
}

// draw returns random numbers for the present step of environment n.
func (e *environment) draw(n int) *rand.Rand {
	e.source.Seed(uint64(e.state[2*n]), uint64(e.state[2*n+1]))
	return rand.New(&e.source)
}

// Step draws one random duration for all rows.
func (e *environment) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte,
	_ []float32) error {
	rows, skew := 0, 0.0
	for i, t := range turn {
		if t == env.Idle {
			continue
		}
		draw := e.draw(i)
		reward[i], terminated[i] = draw.Float32(), 0
		if rows == 0 {
			skew = draw.NormFloat64()
		}
		rows++
		e.state[2*i+1]++
	}
	j := e.core.job.Load()
	d := float64(j.Step.Of(rows))
	if j.Skew > 0 {
		d *= math.Exp(j.Skew*skew - j.Skew*j.Skew/2)
	}
	e.ended = e.core.wait(time.Duration(d), e.core.latest(action.F32()))
	return nil
}

// Save implements env.Saver.
func (e *environment) Save() (d tensor.Dict, err error) {
	d.Set("state", tensor.FromI64(slices.Clone(e.state), e.n, 2))
	return d, nil
}

// Load implements env.Saver.
func (e *environment) Load(d tensor.Dict) error {
	copy(e.state, d.Must("state").I64())
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

// A waitingPolicy waits in place of computing. Its log-probs, values and gradients are 0.
type waitingPolicy struct {
	core   *core
	spec   env.Spec
	params nn.Params[float32]
}

var _ policy.Policy = (*waitingPolicy)(nil)

// A work holds the results of a call.
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
	k.ended = p.core.wait(p.core.job.Load().Infer.Of(k.rows), p.core.latest(obs.Must("state").F32()))
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

// Evaluate takes a third of the time of an update. Backward takes the rest.
func (p *waitingPolicy) Evaluate(w policy.Work, obs tensor.Dict, _ tensor.Tensor) (policy.Eval, error) {
	k, err := p.begin(w, obs)
	if err != nil {
		return policy.Eval{}, err
	}
	k.ended = p.core.wait(p.core.job.Load().Update.Of(k.rows)/3, p.core.now())
	zeros := k.zeros.Slice(0, k.rows)
	return policy.Eval{LogProb: zeros, Entropy: zeros, Value: zeros}, nil
}

func (p *waitingPolicy) Backward(w policy.Work, _ policy.Grad, ready func(lo, hi int)) error {
	k := w.(*work)
	update := p.core.job.Load().Update.Of(k.rows)
	p.core.updated.Store(p.core.wait(update-update/3, k.ended))
	if ready != nil {
		ready(0, p.params.Len())
	}
	return nil
}

// registries returns registries that contain the emulated environment and the emulated policy of this core's rank.
func (c *core) registries() (*env.Registry, *policy.Registry) {
	envs, policies := new(env.Registry), new(policy.Registry)
	envs.Add(Name, func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&environment{core: c, n: n, state: make([]int64, 2*n)}, cfg), nil
	})
	policies.Add(Name, func(_ policy.Config, spec env.Spec, _ uint64, alloc tensor.Allocator) (policy.Policy, error) {
		p := &waitingPolicy{core: c, spec: spec}
		p.params.Group("actor")
		p.params.Add(Name, c.setting.Params/c.setting.Shrink)
		return p, p.params.Alloc(alloc)
	})
	return envs, policies
}
