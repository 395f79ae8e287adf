package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func dqnSetup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	t.Helper()
	s := sacSetup(t, change...)
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.HiddenSizes, model.EpsilonSteps = true, false, []int{32, 32}, 200
	spec := trackSpec()
	spec.Action = env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}
	s.Rollout = slices.Clone(s.Rollout)
	s.Rollout[2].DType = tensor.I32
	var err error
	if s.Policy, err = policy.NewMLP(model, spec, 1, tensor.Heap); err != nil {
		t.Fatal(err)
	}
	return s
}

// By hand: the largest choice is action 1 of the first sample and action 0 of the second; nothing follows the third. In the last, where action 0 is not
// allowed, action 1 is taken.
func TestGreedyTargets(t *testing.T) {
	y := make([]float32, 4)
	inf := float32(math.Inf(1))
	GreedyTargets(y, []float32{1, 2, 3, 4}, []float32{0.5, 0.25, 0, 0.5}, []float32{9, 4, 8, 7, inf, inf, -inf, -6}, []float32{0, 1, 6, 5, 0, 0, -inf, -8})
	if want := []float32{1 + 0.5*4, 2 + 0.25*8, 3, 4 - 0.5*6}; !slices.Equal(y, want) {
		t.Errorf("targets %v, want %v", y, want)
	}
}

// By hand: errors 1 and -3; Huber's loss of width 2 is linear in the second.
func TestChosenQLoss(t *testing.T) {
	q, action, y, dQ := []float32{2, 7, 5, -1}, []int32{0, 1}, []float32{1, 2}, make([]float32, 4)
	for _, c := range []struct {
		delta float32
		loss  float64
		dQ    []float32
	}{{0, 0.5 + 4.5, []float32{0.5, 0, 0, -1.5}}, {2, 0.5 + 2*(3-1), []float32{0.5, 0, 0, -1}}} {
		loss, estimates := ChosenQLoss(dQ, q, action, y, c.delta, 0.5)
		if loss != c.loss || estimates != 1 || !slices.Equal(dQ, c.dQ) {
			t.Errorf("delta %v: loss %v, estimates %v, gradient %v, want %v, 1, %v", c.delta, loss, estimates, dQ, c.loss, c.dQ)
		}
	}
}

// TestDQNLearns: steps of 0.4 lead to within 0.3 of ½, and what that is worth is known, time limit or not: at most 0, and no less than what the way costs.
func TestDQNLearns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Setup, *policy.Config)
	}{
		{"double, soft targets", func(*Setup, *policy.Config) {}},
		{"plain, hard targets, n-step, micro-batches", func(s *Setup, _ *policy.Config) {
			o := &s.Config.OffPolicy
			o.DoubleQ, o.Tau, o.TargetUpdateFreq, o.NStep, s.MicroBatch = false, 1, 20, 3, 16
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := dqnSetup(t, c.change)
			d, err := NewDQN(s)
			if err != nil {
				t.Fatal(err)
			}
			m := runTrack(t, d, s, newTrack(s.Envs), 0, 150)
			checkGoal(t, s.Policy, 0.21)
			if q := metric(t, m, "critic/q_data"); q < -3 || q > 0.1 {
				t.Errorf("estimates %v on average, want between -3 and 0", q)
			}
		})
	}
}

// TestDQNLoss holds the loss of an update against one that is worked out from the values of both networks: double Q-learning takes the action that the
// network chooses, at what the target network says it is worth.
func TestDQNLoss(t *testing.T) {
	for _, double := range []bool{false, true} {
		s := dqnSetup(t, func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.DoubleQ, s.Config.UpdateEpoch = double, 1 })
		d, err := NewDQN(s)
		if err != nil {
			t.Fatal(err)
		}
		w := newTrack(s.Envs)
		runTrack(t, d, s, w, 0, 3) // nothing is learnt yet
		for i, x := range d.target.Params().Data {
			d.target.Params().Data[i] = x * float32(math.Cos(float64(i)))
		}
		network, target := dqnSetup(t).Policy.(*policy.Greedy), dqnSetup(t).Policy.(*policy.Greedy)
		copy(network.Params().Data, s.Policy.Params().Data)
		copy(target.Params().Data, d.target.Params().Data)
		m := runTrack(t, d, s, w, 3, 1)

		b := d.replay.NewBatch(d.local)
		d.replay.Gather(b, d.rows, 1, s.Config.Gamma, false)
		values := func(p *policy.Greedy, obs tensor.Dict) []float32 {
			q, err := p.Values(p.NewWork(d.local), obs)
			if err != nil {
				t.Fatal(err)
			}
			return q.F32()
		}
		q, next := values(network, b.Obs), values(target, b.Next)
		choice := next
		if double {
			choice = values(network, b.Next)
		}
		var want float64
		for i, a := range b.Action.I32() {
			best := 0
			for k := range 3 {
				if choice[3*i+k] > choice[3*i+best] {
					best = k
				}
			}
			e := float64(q[3*i+int(a)] - b.Reward[i] - b.Discount[i]*next[3*i+best])
			want += e * e / 2 / float64(d.local)
		}
		if got := metric(t, m, "dqn/loss"); math.Abs(got-want) > 1e-5*want {
			t.Errorf("double %v: loss %v, want %v", double, got, want)
		}
	}
}

func TestDQNResumes(t *testing.T) {
	checkResumes(t, func() Setup { return dqnSetup(t) }, func(s Setup) (Algorithm, error) { return NewDQN(s) })
}

func TestDQNRefuses(t *testing.T) {
	if _, err := NewDQN(sacSetup(t)); err == nil {
		t.Error("continuous actions: no error")
	}
	if _, err := NewSAC(dqnSetup(t)); err == nil {
		t.Error("SAC with discrete actions: no error")
	}
}
