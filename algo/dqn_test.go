package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func dqnSetup(t testing.TB, changes ...change) algo.Setup {
	t.Helper()
	spec := trackSpec()
	spec.Action = env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{3}}
	return setupFor(t, spec, append([]change{func(_ *algo.Setup, m *policy.Config) {
		m.EpsilonSteps, m.Activation = 200, policy.DefaultConfig().Activation
	}}, changes...)...)
}

// By hand: the largest choice is action 1 of the first sample and action 0 of the second; nothing follows the third. In
// the last sample action 0 is not allowed, so action 1 is taken.
func TestGreedyTargets(t *testing.T) {
	y := make([]float32, 4)
	inf := float32(math.Inf(1))
	algo.GreedyTargets(y, []float32{1, 2, 3, 4}, []float32{0.5, 0.25, 0, 0.5},
		[]float32{9, 4, 8, 7, inf, inf, -inf, -6}, []float32{0, 1, 6, 5, 0, 0, -inf, -8})
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
		loss, estimates := algo.ChosenQLoss(dQ, q, action, y, c.delta, 0.5)
		if loss != c.loss || estimates != 1 || !slices.Equal(dQ, c.dQ) {
			t.Errorf("delta %v: loss %v, estimates %v, gradient %v, want %v, 1, %v", c.delta, loss, estimates, dQ,
				c.loss, c.dQ)
		}
	}
}

// TestDQNLearns: the policy goes to within 0.3 of ½ by steps of 0.4. Values are at most 0, and at least minus the cost
// of the way.
func TestDQNLearns(t *testing.T) {
	for name, c := range map[string]change{
		"double, soft targets": asIs,
		"plain, hard targets, n-step, micro-batches": func(s *algo.Setup, _ *policy.Config) {
			o := &s.Config.OffPolicy
			o.DoubleQ, o.Tau, o.TargetUpdateFreq, o.NStep, s.MicroBatch = false, 1, 20, 3, 16
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := dqnSetup(t, c)
			m := runTrack(t, made(t, s, algo.NewDQN), s, newTrack(s.Envs), 0, 150)
			checkGoal(t, s.Policy, 0.21)
			if q := metric(t, m, "critic/q_data"); q < -3 || q > 0.1 {
				t.Errorf("estimates %v on average, want between -3 and 0", q)
			}
		})
	}
}

// TestDQNLoss compares the loss of an update with a computation from the values of both networks. Double Q-learning
// takes the action that the network chooses, and its value from the target network.
func TestDQNLoss(t *testing.T) {
	for _, double := range []bool{false, true} {
		s := dqnSetup(t, func(s *algo.Setup, _ *policy.Config) {
			s.Config.OffPolicy.DoubleQ, s.Config.UpdateEpoch = double, 1
		})
		w, on := watch(t, made(t, s, algo.NewDQN), s), newTrack(s.Envs)
		runTrack(t, w, s, on, 0, 3) // nothing is learnt yet
		disturb(stateOf(t, w), "target")
		params := slices.Clone(s.Policy.Params().Data)
		target := paramsIn(stateOf(t, w), "target", s.Policy.Params())
		m := runTrack(t, w, s, on, 3, 1)

		b := w.batch(0)
		q, next := actionValues(t, params, b.Obs), actionValues(t, target, b.Next)
		choice := next
		if double {
			choice = actionValues(t, params, b.Next)
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
			want += e * e / 2 / float64(len(b.Reward))
		}
		within(t, "loss", metric(t, m, "dqn/loss"), want, 1e-5*want)
		p := s.Policy.Params()
		checkFollows(t, "target", target, paramsIn(stateOf(t, w), "target", p), p.Data)
	}
}

// actionValues returns the values of actions by a policy with these parameters.
func actionValues(t *testing.T, params []float32, obs tensor.Dict) []float32 {
	t.Helper()
	p := dqnSetup(t).Policy.(*policy.Greedy)
	copy(p.Params().Data, params)
	q := test.Must(p.Values(p.NewWork(obs.Must("state").Dim(0)), obs))(t)
	return q.F32()
}

func TestDQNResumes(t *testing.T) { checkResumes(t, dqnSetup, algo.NewDQN) }

func TestDQNRefuses(t *testing.T) {
	checkRefuses(t, trackSetup, algo.NewDQN, map[string]change{"continuous actions": asIs})
	checkRefuses(t, dqnSetup, algo.NewDQN, map[string]change{
		"a demonstrated action that there is not": func(s *algo.Setup, _ *policy.Config) {
			s.Demos = trackDemos(8)
			s.Demos.Set("action", tensor.FromI32([]int32{0, 1, 2, 3, 0, 1, 2, 0}, 8, 1, 1))
		}})
	checkRefuses(t, dqnSetup, algo.NewSAC, map[string]change{"SAC with discrete actions": asIs})
}
