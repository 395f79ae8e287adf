package algo_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// informativeRollout is a rollout of four steps of n environments in pairs, all marked with a number;
// informative pairs have scores that differ.
func informativeRollout(mark float32, informative ...bool) tensor.Dict {
	r := algo.RandomRollout(1, 4, 0, 2*len(informative))
	mask := tensor.New(tensor.U8, 4, 2*len(informative))
	for i := range mask.U8() {
		mask.U8()[i] = 1
	}
	r.Set("mask", mask)
	r.Must("terminated").Zero()
	r.Must("truncated").Zero()
	for i := range r.Must("reward").F32() {
		env := i % (2 * len(informative))
		r.Must("reward").F32()[i] = 1
		if env%2 == 0 && informative[env/2] {
			r.Must("reward").F32()[i] = 2
		}
		r.Must("observation.state").F32()[3*i] = mark + float32(env)
	}
	return r
}

func resampling(change ...func(*algo.Setup)) algo.Setup {
	return groupSetup("grpo", append([]func(*algo.Setup){func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.Config.MaxNumGenBatches = 4, 6, 24, 3
	}}, change...)...)
}

// Of three pairs one is informative. The second rollout has one more, and the third has two, which completes the
// update.
func TestResample(t *testing.T) {
	p := test.Must(algo.NewGRPO(resampling()))(t)
	marks := func(r tensor.Dict) (m []float32) {
		for i := range 24 {
			m = append(m, r.Must("observation.state").F32()[3*i])
		}
		return m[18:] // of the last step
	}
	for range 2 { // the second time in the same memory
		for n, c := range []struct {
			informative []bool
			more        bool
			want        []float32
		}{
			{[]bool{false, true, false}, true, []float32{0, 1, 2, 3, 4, 5}},
			{[]bool{false, true, false}, true, []float32{102, 103, 2, 3, 4, 5}},
			{[]bool{false, true, true}, false, []float32{102, 103, 2, 3, 202, 203}},
		} {
			r := informativeRollout(float32(100*n), c.informative...)
			more, err := p.Resample(n, &r)
			if err != nil || more != c.more || !slices.Equal(marks(r), c.want) {
				t.Errorf("rollout %d: more %v, %v, kept %v; want %v, %v", n, more, err, marks(r), c.more, c.want)
			}
			if n < 2 {
				continue
			}
			test.OK(t, p.Prepare(&r))
			m := test.Must(p.Update(r))(t)
			within(t, "rollouts", metric(t, m, "rollout/gen_batches"), 3, 0)
			within(t, "advantage", metric(t, m, "rollout/advantages_max"), 0.7071, 1e-3) // all pairs differ
		}
	}
	r := informativeRollout(0, true, true, true)
	if more, err := p.Resample(0, &r); more || err != nil {
		t.Errorf("more %v, %v of a rollout in which all pairs are informative", more, err)
	}
}

// Pairs for which no rollout had an informative pair do not count.
func TestResampleEnds(t *testing.T) {
	p := test.Must(algo.NewGRPO(resampling()))(t)
	var r tensor.Dict
	for n := range 3 { // the first two are never informative
		r = informativeRollout(0, false, false, n == 0)
		if more, err := p.Resample(n, &r); err != nil || more != (n < 2) {
			t.Errorf("rollout %d: more %v, %v", n, more, err)
		}
	}
	test.OK(t, p.Prepare(&r))
	for i, w := range r.Must("weight").F32() {
		if want := float32(i % 6 / 4); w != want {
			t.Errorf("weight %v of environment %d, want %v", w, i%6, want)
		}
	}
	m := test.Must(p.Update(r))(t)
	within(t, "loss of the informative pair", metric(t, m, "actor/policy_loss_abs"), 0.7071, 0.5)
}

// Replicas ask for another rollout as long as one of them needs one.
func TestResampleTogether(t *testing.T) {
	members := algo.NewTeam(2)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			p, err := algo.NewGRPO(resampling(func(s *algo.Setup) {
				s.GlobalBatch, s.Replicas = 48, members[i]
			}))
			if err != nil {
				t.Error(err)
				return
			}
			for n, want := range []bool{true, false} {
				r := informativeRollout(0, true, i == 0 || n == 1, true)
				if more, err := p.Resample(n, &r); more != want || err != nil {
					t.Errorf("replica %d, rollout %d: more %v, %v", i, n, more, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestResampleErrors(t *testing.T) {
	p := test.Must(algo.NewGRPO(resampling()))(t)
	r := informativeRollout(0, true, true, true)
	for env := range 6 {
		r.Must("truncated").U8()[6+env] = 1
	}
	if _, err := p.Resample(0, &r); err == nil || !strings.Contains(err.Error(),
		"episode 6 begins at step 2 of environment 0: expected one episode in each") {
		t.Errorf("%v", err)
	}
	if _, err := algo.NewPPO(ppoSetup(func(s *algo.Setup) { s.Config.MaxNumGenBatches = 2 })); err == nil ||
		!strings.Contains(err.Error(), "max_num_gen_batches: 2: expected a number > 0, and 1 without adv_type grpo") {
		t.Errorf("%v", err)
	}
}
