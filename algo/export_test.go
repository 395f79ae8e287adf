package algo

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// Fixtures that tests in and outside of the package use.
var (
	SmallSetup    = setup
	NewRollout    = newRollout
	RandomRollout = randomRollout
)

// setup is a small problem without a policy: rollouts of 16 steps in 8 environments, minibatches of 32.
func setup(change ...func(*Setup)) Setup {
	s := Setup{Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: 32, Seed: 7, Steps: 16, Envs: 8}
	s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch = 0.9, 0.95, 2
	s.Optim.LR = 0.01
	for _, c := range change {
		c(&s)
	}
	return s
}

func mustPPO(t testing.TB, s Setup) *PPO {
	t.Helper()
	return test.Must(NewPPO(s))(t)
}

// NewTeam returns replicas that are goroutines of one process, for the tests that use exported names.
func NewTeam(n int) []Replicas {
	t := newTeam(n)
	all := make([]Replicas, n)
	for i := range all {
		all[i] = &replica{team: t, member: i}
	}
	return all
}

// ShiftImages shifts the images of b as updates do.
func ShiftImages(s *Setup, b *Transitions, first int, update uint64) error {
	of, err := newShift(s.Seed, s.Policy)
	if err == nil {
		of.apply(b, first, update)
	}
	return err
}

// A team has replicas that are goroutines of one process. A sum waits for all replicas, and adds them in their order.
type team struct {
	mu    sync.Mutex
	cond  *sync.Cond
	parts [][]float64
	here  int
	round int
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
	ready  []float32 // what ready ranges had when they were marked, NaN elsewhere
	order  float64   // the ranges and their order, as a number
	open   bool      // Wait was not called for the last gradient
}

var _ Replicas = (*replica)(nil)

func (r *replica) Count() (int, int) { return len(r.parts), r.member }

func (r *replica) Sum(x []float64) error {
	r.sum(r.member, x)
	return nil
}

func (r *replica) Gradient(grad []float32) GradientStream {
	if r.open {
		panic("two gradients are summed at once")
	}
	r.grad, r.open, r.order = grad, true, 0
	r.ready = slices.Repeat([]float32{float32(math.NaN())}, len(grad))
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

func (r *replica) Ready(lo, hi int) {
	copy(r.ready[lo:hi], r.grad[lo:hi])
	r.order = 3*r.order + float64(lo) + 2*float64(hi)
}

func (r *replica) Wait(final func(lo, hi int)) error {
	r.open = false
	x := make([]float64, len(r.grad), len(r.grad)+1)
	for i, g := range r.grad {
		x[i] = float64(g)
		if early := r.ready[i]; early == early && early != g {
			panic(fmt.Sprintf("element %d changes from %v to %v after it is ready", i, early, g))
		}
	}
	sums := append(x, r.order)
	if r.sum(r.member, sums); sums[len(x)] != r.order*float64(len(r.parts)) {
		panic("replicas mark other ranges, or in another order")
	}
	for i := range x {
		r.grad[i] = float32(sums[i])
	}
	if final != nil {
		final(len(x)/3, len(x)) // in two parts, from the end
		final(0, len(x)/3)
	}
	return nil
}

// newRollout returns a rollout of zeros, with the given numbers of steps, environments and observed numbers.
func newRollout(steps, envs, obs int) tensor.Dict {
	d := tensor.NewLayout(
		tensor.Field{Name: "observation.state", DType: tensor.F32, Shape: []int{steps, envs, obs}},
		tensor.Field{Name: "action", DType: tensor.I32, Shape: []int{steps, envs, 1, 1}},
		tensor.Field{Name: "sample_log_prob", DType: tensor.F32, Shape: []int{steps, envs, 1}},
		tensor.Field{Name: "value", DType: tensor.F32, Shape: []int{steps, envs, 1}},
		tensor.Field{Name: "next_value", DType: tensor.F32, Shape: []int{steps, envs}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{steps, envs}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{steps, envs}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{steps, envs}},
	)
	return d.Bind(tensor.New(tensor.U8, d.Size()).Bytes())
}

// randomRollout returns a rollout of random numbers. Environments lo to hi-1 depend only on their own index.
func randomRollout(seed uint64, steps, lo, hi int) tensor.Dict {
	n := hi - lo
	r := newRollout(steps, n, 3)
	for e := range n {
		s := philox.New(seed, philox.Init, uint64(lo+e), 0)
		for t := range steps {
			i := t*n + e
			for k := range 3 {
				r.Must("observation.state").F32()[3*i+k] = float32(s.Uniform(-1, 1))
			}
			r.Must("action").I32()[i] = int32(s.IntN(2))
			r.Must("sample_log_prob").F32()[i] = float32(math.Log(s.Uniform(0.3, 0.7)))
			r.Must("value").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("next_value").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("reward").F32()[i] = float32(s.Uniform(-1, 1))
			r.Must("terminated").U8()[i] = uint8(s.IntN(8) / 7)
			r.Must("truncated").U8()[i] = uint8(s.IntN(8) / 7)
		}
	}
	return r
}
