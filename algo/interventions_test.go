package algo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A watcher is a policy that sees filmed environments.
type watcher struct {
	policy.Policy
	filmed
}

func (w watcher) Spaces() (obs []env.Field, action env.Space) {
	front := env.Field{Name: "front", Space: env.Space{Shape: []int{2, 3}}}
	if w.stack > 1 {
		front.Shape, front.Frames = []int{w.stack, 2, 3}, w.stack
	}
	return []env.Field{front, {Name: "side", Space: env.Space{Shape: []int{2, 2}}}}, action
}

// guidedSetup returns a setup with interventions, for rollouts of the given number of steps.
func guidedSetup(f filmed, steps, window int) Setup {
	s := Setup{Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: 32, MicroBatch: 16, Steps: steps,
		Envs: f.envs, Policy: watcher{filmed: f}, Rollout: append(f.fields(steps), tensor.Field{Name: FieldIntervened,
			DType: tensor.U8, Shape: []int{steps, f.envs}})}
	s.Optim.LR = 1
	s.CriticOptim = s.Optim
	o := &s.Config.OffPolicy
	o.ReplayBuffer = ReplayConfig{SampleWindowSize: 50, MinBufferSize: 1}
	o.EntropyTuning.AlphaType, o.NStep = AlphaFixed, 3
	o.Demos.SampleWindowSize = window
	return s
}

// intervene adds to a rollout where a person acts, with this probability of a change in each step, and appends the
// steps in which one acts to kept.
func (m *film) intervene(rollout *tensor.Dict, change float64, kept [][]plainStep) {
	steps := rollout.Must("reward").Dim(0)
	flags := tensor.New(tensor.U8, steps, m.envs)
	rollout.Set(FieldIntervened, flags)
	for e := range m.envs {
		for t, s := range m.steps[e][len(m.steps[e])-steps:] {
			if m.acts == nil {
				m.acts = make([]bool, m.envs)
			}
			m.acts[e] = m.acts[e] != (m.random.Float64() < change)
			if m.acts[e] {
				flags.U8()[t*m.envs+e] = 1
			}
			if m.acts[e] && !s.aborted {
				s.frame = 0
				kept[e] = append(kept[e], s)
			} else if n := len(kept[e]); n > 0 && !kept[e][n-1].terminated {
				kept[e][n-1].truncated = true
			}
		}
	}
}

// TestInterventions: the rings have the newest transitions in which a person acted, with the bytes that the rollouts
// had, and returns of several steps end where the person stops. A checkpoint keeps them.
func TestInterventions(t *testing.T) {
	t.Parallel()
	for stack := 1; stack <= 3; stack++ {
		for _, steps := range []int{1, 4} {
			f := filmed{stack, 3}
			s := guidedSetup(f, steps, 24/steps)
			s.setDefaults()
			p := test.Must(newInterventions(&s))(t)
			m, kept := newFilm(f, 12, false, uint64(steps)), make([][]plainStep, f.envs)
			for i := range 120 / steps {
				rollout := m.rollout(steps)
				m.intervene(&rollout, 0.15, kept)
				p.add(rollout)
				if i%5 != 4 {
					continue
				}
				var d tensor.Dict
				used := map[string]int{}
				held, frames := p.used()
				p.save(&d, used, held, frames)
				packRings(&d, used)
				again := test.Must(newInterventions(&s))(t)
				test.OK(t, again.load(d.Clone()))
				for e := range f.envs {
					for _, r := range []*Replay{p.rings[e], again.rings[e]} {
						all := len(kept[e])
						if want := min(all, 24); r.Size() > want || r.Size() < want/2 || r.Total() != int64(all) {
							t.Fatalf("environment %d: size %d, total %d, want %d, %d", e, r.Size(), r.Total(), want,
								all)
						}
						shown := &film{filmed: filmed{stack, 1}, steps: kept[e : e+1]}
						test.OK(t, shown.check(r, r.NewBatch(3), 3, false),
							"stack %d, %d steps, rollout %d, environment %d", stack, steps, i, e)
					}
				}
			}
		}
	}
}

// TestHalfOfTheBatchIsGuided: without a file, the second half of each micro-batch is what people did, and all of it is
// drawn alike, whatever the environment. With a file its transitions are drawn beside those, and stay.
func TestHalfOfTheBatchIsGuided(t *testing.T) {
	t.Parallel()
	for _, demos := range []int{0, 7} {
		s := guidedSetup(filmed{1, 2}, 4, 3)
		s.Policy, s.Rollout = spaceless{}, append(transitions(1, 4, 2), s.Rollout[len(s.Rollout)-1])
		if demos > 0 {
			shown := counted(1000, demos, 1, nil)
			shown.Set(FieldIntervened, tensor.New(tensor.U8, demos, 1))
			for i := range shown.Len() {
				name, x := shown.Entry(i)
				s.Demos.Set(name, x.Reshape(append([]int{demos}, x.Shape()[2:]...)...))
			}
		}
		e := test.Must(newOffPolicy(&s, "test", false, 1))(t)
		want := map[float32]int{}
		for first := 0; first < 80; first += 4 { // a person acts in each second step of environment 0, once in 1
			rollout := counted(first, 4, 2, nil)
			flags := tensor.New(tensor.U8, 4, 2)
			for i := range 4 {
				if i%2 == 1 {
					flags.U8()[2*i] = 1
				}
				if first == 8 {
					flags.U8()[2*i+1] = 1
				}
			}
			rollout.Set(FieldIntervened, flags)
			test.OK(t, e.Prepare(&rollout))
		}
		for i := range 12 { // the newest of environment 0
			want[float32(79-2*i)] = 0
		}
		for i := range 4 {
			want[float32(108+i)] = 0
		}
		for i := range demos {
			want[float32(1000+i)] = 0
		}
		test.Equal(t, e.held[heldDemos], 16.0, "interventions")
		e.off.NStep = 1
		const updates = 500
		for e.number = range updates {
			e.draw()
			for e.first = 0; e.first < e.local; e.first += e.micro {
				test.OK(t, e.gather())
				for i, r := range e.batch.Reward {
					if _, ok := want[r]; i >= 8 && !ok || i < 8 && r >= 1000 {
						t.Fatalf("sample %d of a micro-batch of 16 has reward %v", i, r)
					} else if i >= 8 {
						want[r]++
					}
				}
			}
		}
		mean := float64(updates*16) / float64(len(want))
		for r, n := range want {
			near(t, fmt.Sprintf("draws of the transition with reward %v", r), float64(n), mean, 0.25*mean)
		}
	}
}

// TestEveryReplicaWaitsForItsPeople: no replica learns before the demonstration buffers of all replicas have enough.
// All save rings of one length.
func TestEveryReplicaWaitsForItsPeople(t *testing.T) {
	t.Parallel()
	f, team := filmed{2, 2}, NewTeam(2)
	all := make([]*offPolicy, len(team))
	for i := range all {
		s := guidedSetup(f, 5, 4)
		s.Replicas = team[i]
		s.Config.OffPolicy.Demos.MinBufferSize = 2
		all[i] = test.Must(newOffPolicy(&s, "test", false, firstMean))(t)
	}
	for iteration := 1; iteration <= 6; iteration++ {
		var learnt [2]bool
		var done sync.WaitGroup
		for i, e := range all {
			done.Go(func() {
				rollout := newFilm(f, 100, false, uint64(iteration)).rollout(5)
				flags := tensor.New(tensor.U8, 5, f.envs)
				if i == 0 || iteration > 3 { // replica 1 has nobody at first
					copy(flags.U8(), slices.Repeat([]byte{1}, flags.Len()))
				}
				rollout.Set(FieldIntervened, flags)
				test.Check(t, e.Prepare(&rollout))
				test.Check(t, e.iterate(func() error { learnt[i] = true; return e.gather() }))
			})
		}
		done.Wait()
		test.Equal(t, learnt, [2]bool{iteration >= 5, iteration >= 5}, "iteration %d learns", iteration)
	}
	a, usedA := all[0].SaveInPlace()
	_, usedB := all[1].SaveInPlace()
	test.Equal(t, fmt.Sprint(usedA), fmt.Sprint(usedB), "used places")
	test.Equal(t, usedA[interventionPrefix+"reward"], 20, "used places of a ring")
	s := guidedSetup(f, 5, 4)
	loaded := test.Must(newOffPolicy(&s, "test", false, firstMean))(t)
	test.OK(t, loaded.Load(a))
	_, used := loaded.SaveInPlace()
	test.Equal(t, fmt.Sprint(used), fmt.Sprint(usedA), "used places after a load")
	var draws [2][]float32
	for i, e := range []*offPolicy{all[0], loaded} {
		e.number = 77
		e.draw()
		test.OK(t, e.gather())
		draws[i] = slices.Clone(e.batch.Reward)
	}
	test.EqualSlices(t, draws[1], draws[0], "rewards of a batch after a load")
	var bad tensor.Dict
	for i := range a.Len() {
		if name, x := a.Entry(i); name != interventionPrefix+"cursor" {
			bad.Set(name, x)
		}
	}
	test.Fails(t, loaded.Load(bad), interventionPrefix+"cursor is")
}

// BenchmarkPool measures batches of 128 that are drawn from a file and the interventions of 8 environments.
func BenchmarkPool(b *testing.B) {
	s := guidedSetup(filmed{1, 8}, 50, 20)
	s.setDefaults()
	p := test.Must(newInterventions(&s))(b)
	m := newFilm(filmed{1, 8}, 50, false, 1)
	for range 20 {
		rollout := m.rollout(50)
		m.intervene(&rollout, 0.1, make([][]plainStep, 8))
		p.add(rollout)
	}
	batch, rows, stream := p.rings[0].NewBatch(128), make([]int32, 128), philox.New(rand.Uint64(), philox.Replay, 0, 0)
	for b.Loop() {
		p.rings.draw(rows, &stream)
		test.OK(b, p.rings.gather(batch, rows, 1, 0.9, false))
	}
}
