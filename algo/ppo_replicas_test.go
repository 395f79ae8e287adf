package algo_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

// Two replicas with half of the environments each take the same step as one replica with all: means and statistics
// are over all samples.
func TestReplicasTakeOneStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*algo.Setup)
	}{
		{"batch", func(*algo.Setup) {}},
		{"minibatch, rewards", func(s *algo.Setup) {
			s.Config.NormalizeAdvantages, s.Config.NormalizeRewards = algo.NormalizeMinibatch, true
		}},
		{"none, early stop", func(s *algo.Setup) {
			s.Config.NormalizeAdvantages, s.Config.TargetKL = algo.NormalizeNone, 1e-4
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// the whole rollout in one minibatch: then the placement of samples does not matter
			whole := func(s *algo.Setup) {
				s.GlobalBatch, s.Config.ShuffleRollout = 128, false
				s.Config.UpdateEpoch, s.Config.EntropyBonus = 3, 0.01
			}
			one := mustPPO(t, ppoSetup(whole, c.change))
			want := iterate(t, one, 0, 3)

			members := algo.NewTeam(2)
			var two [2]ppoRun
			var got [2]algo.Metrics
			var wg sync.WaitGroup
			for i := range two {
				two[i] = mustPPO(t, ppoSetup(whole, c.change,
					func(s *algo.Setup) { s.Envs, s.Replicas = 4, members[i] }))
				wg.Go(func() { got[i] = iterate(t, two[i], 0, 3) })
			}
			wg.Wait()
			if !slices.Equal(two[0].params(), two[1].params()) {
				t.Error("the two replicas have different parameters")
			}
			for k, name := range want.Names {
				if got[0].Values[k] != got[1].Values[k] {
					t.Errorf("%s: %v on one replica, %v on the other", name, got[0].Values[k], got[1].Values[k])
				}
				within(t, name, got[0].Values[k], want.Values[k], 1e-4*max(1, math.Abs(want.Values[k])))
			}
			for k, x := range one.params() {
				within(t, "parameter", float64(two[0].params()[k]), float64(x), 1e-5)
			}
			if c.name == "none, early stop" {
				if e := metric(t, want, "actor/update_epochs"); e >= 3 {
					t.Errorf("no early stop: %v epochs", e)
				}
			}
		})
	}
}

// Micro-batches add up to the minibatch, and only the last one marks gradients as final.
func TestMicroBatches(t *testing.T) {
	whole := mustPPO(t, ppoSetup())
	var final marks
	micro := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.MicroBatch, s.Replicas = 8, &final }))
	want, got := iterate(t, whole, 0, 2), iterate(t, micro, 0, 2)
	for i, x := range want.Values {
		within(t, want.Names[i], got.Values[i], x, 1e-4*max(1, math.Abs(x)))
	}
	for i, x := range whole.params() {
		within(t, "parameter", float64(micro.params()[i]), float64(x), 1e-5)
	}
	if want := [][2]int{{16, 32}, {0, 16}}; !slices.Equal(final, want) {
		t.Errorf("ranges made ready: %v, want %v", final, want)
	}
}

// marks are the ranges of the last gradient, in the order in which they became final.
type marks [][2]int

func (*marks) Count() (n, this int) { return 1, 0 }

func (*marks) Sum([]float64) error { return nil }

func (*marks) Gather([]float32, []int) error { return nil }

func (m *marks) Gradient([]float32) algo.GradientStream {
	*m = (*m)[:0]
	return m
}

func (m *marks) Ready(lo, hi int) { *m = append(*m, [2]int{lo, hi}) }

func (*marks) Wait(onSummed func(lo, hi int)) error {
	onSummed(0, 32)
	return nil
}

// Each replica shuffles its own samples: from the same rollout, two replicas learn in different orders.
func TestReplicasShuffleApart(t *testing.T) {
	var orders [2]spy
	var wg sync.WaitGroup
	for i, member := range algo.NewTeam(2) {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
			s.Replicas, s.GlobalBatch, s.Config.UpdateEpoch = member, 64, 1
			orders[i].linear, s.Policy = s.Policy.(*linear), &orders[i]
		}))
		wg.Go(func() {
			r := algo.RandomRollout(1, 16, 0, 8)
			test.Check(t, p.Prepare(&r))
			test.Check(t, test.Err(p.Update(r)))
		})
	}
	wg.Wait()
	a, b := orders[0].observed, orders[1].observed
	if slices.Equal(a, b) {
		t.Error("both replicas drew the same order")
	}
	slices.Sort(a)
	slices.Sort(b)
	test.Equal(t, len(a), 16*8, "samples")
	test.EqualSlices(t, a, b)
}

// The divergence that ends an update is that of the last epoch, over all replicas. The first epoch has the policy that
// acted, so that its one minibatch has the divergence 0. The mean of both epochs is half of the second's divergence.
func TestTargetKLIsOfTheLastEpoch(t *testing.T) {
	epochs := func(target float64, most int) (made, kl float64) {
		var m [2]algo.Metrics
		var wg sync.WaitGroup
		for i, member := range algo.NewTeam(2) {
			p := mustPPO(t, ppoSetup(func(s *algo.Setup) {
				s.Replicas, s.Envs, s.GlobalBatch, s.Optim.LR = member, 4, 128, 0.1
				s.Config.TargetKL, s.Config.UpdateEpoch = float32(target), most
			}))
			wg.Go(func() {
				r := algo.RandomRollout(1, 16, 4*i, 4*i+4)
				for k := range r.Must("sample_log_prob").F32() {
					r.Must("sample_log_prob").F32()[k] = -math.Ln2
				}
				test.Check(t, p.Prepare(&r))
				var err error
				m[i], err = p.Update(r)
				test.Check(t, err)
			})
		}
		wg.Wait()
		return metric(t, m[0], "actor/update_epochs"), metric(t, m[0], "actor/approx_kl")
	}
	_, half := epochs(0, 2)
	if half < 1e-4 {
		t.Fatalf("divergence %v: the policy did not move", half)
	}
	for share, want := range map[float64]float64{0.9: 2, 1.1: 3} {
		if made, _ := epochs(share*2*half, 3); made != want {
			t.Errorf("%v epochs with %v of the second epoch's divergence, want %v", made, share, want)
		}
	}
}
