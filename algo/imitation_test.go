package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func TestImitationLossesByHand(t *testing.T) {
	d := make([]float32, 4)
	slopes := func(what string, want ...float64) {
		t.Helper()
		for i, x := range want {
			within(t, "derivative of "+what, float64(d[i]), x, 1e-6)
		}
	}
	within(t, "likelihood", algo.LikelihoodLoss(d, []float32{-1, -2, -3, 0.5}, 0.5), 5.5, 1e-6)
	slopes("likelihood", -0.5, -0.5, -0.5, -0.5)
	// errors of 1 and -2 half widths, then of 0.25 and 0
	action, target, half := []float32{3, 0, 1, 1}, []float32{1, 1, 0.5, 1}, []float32{2, 0.5}
	within(t, "action", algo.ActionLoss(d, action, target, half, nil, 10), 0.5+2+0.03125, 1e-6)
	slopes("action", 5, -40, 1.25, 0)
	within(t, "weighted action", algo.ActionLoss(d, action, target, half, []float32{2, 4}, 10), 5+0.125, 1e-6)
	slopes("weighted action", 10, -80, 5, 0)
	// values 1 below, 2 above and at the estimate
	within(t, "expectile", algo.ExpectileLoss(d[:3], []float32{0, 3, 1}, []float32{1, 1, 1}, 0.7, 10), 0.7+0.3*4, 1e-6)
	slopes("expectile", -14, 12, 0)
	sum := algo.AdvantageWeights(d[:3], []float32{1, 1, 9}, []float32{1, 2, 1}, 3)
	within(t, "weights", sum, 1+math.Exp(-3)+100, 1e-6)
}

// trackDemos are n steps that go to ½ at once, from all over the track.
func trackDemos(n int) (demos tensor.Dict) {
	state, next := tensor.New(tensor.F32, n, 1), tensor.New(tensor.F32, n, 1)
	action, reward := tensor.New(tensor.F32, n, 1, 1), tensor.New(tensor.F32, n)
	truncated := tensor.New(tensor.U8, n)
	for i := range n {
		x := float32(2*(i*37%n))/float32(n) - 1 // in no order
		state.F32()[i] = x
		action.F32()[i] = min(max((0.5-x)/0.4, -1), 1)
		next.F32()[i] = moved(x, action, i)
		d := next.F32()[i] - 0.5
		reward.F32()[i], truncated.U8()[i] = -d*d, 1
	}
	demos.Set("observation.state", state)
	demos.Set("next_observation.state", next)
	demos.Set("action", action)
	demos.Set("reward", reward)
	demos.Set("terminated", tensor.New(tensor.U8, n))
	demos.Set("truncated", truncated)
	return demos
}

// bcSetup is a setup with 100 demonstrations of one step each.
func bcSetup(t testing.TB, changes ...change) algo.Setup {
	return trackSetup(t, append([]change{func(s *algo.Setup, _ *policy.Config) {
		s.Demos = trackDemos(100)
	}}, changes...)...)
}

// TestBCLearns: the policy acts as in the demonstrations, also in those set aside. The loss of these does not depend on
// the size of micro-batches.
func TestBCLearns(t *testing.T) {
	for name, c := range map[string]change{
		"squashed":      asIs,
		"deterministic": func(_ *algo.Setup, m *policy.Config) { m.ExplorationNoise = 0.1 },
		"normal, micro-batches": func(s *algo.Setup, m *policy.Config) {
			m.AddQHead, m.AddValueHead, m.LearnStd, m.ShareTrunk, s.MicroBatch = false, true, false, true, 16
		},
	} {
		t.Run(name, func(t *testing.T) {
			aside := [2]int{}
			s := bcSetup(t, c, func(s *algo.Setup, _ *policy.Config) {
				s.Config.OffPolicy.Demos.ValidationShare = 0.21
				s.Progress = func(what string, done, total int) {
					if what == "validation" {
						aside = [2]int{done, total}
					}
				}
			})
			b := made(t, s, algo.NewBC)
			first := metric(t, update(t, b, 1), "bc/val_loss")
			last := update(t, b, 29)
			within(t, "demonstrations to learn from", metric(t, last, "demo_buffer/size"), 79, 0)
			if aside != [2]int{21, 21} {
				t.Errorf("validated by %v demonstrations, want all 21", aside)
			}
			checkGoal(t, s.Policy, 0.1)
			if end := metric(t, last, "bc/val_loss"); !(end < first) {
				t.Errorf("validation: %v at first, %v in the end", first, end)
			}
		})
	}
}

func TestBCResumes(t *testing.T) { checkResumes(t, bcSetup, algo.NewBC) }

func TestBCRefuses(t *testing.T) {
	checkRefuses(t, bcSetup, algo.NewBC, map[string]change{
		"no demonstrations": func(s *algo.Setup, _ *policy.Config) { s.Demos = tensor.Dict{} },
		"a share of all":    keys(func(o *algo.OffPolicyConfig) { o.Demos.ValidationShare = 1 }),
		"actions squashed behind": func(_ *algo.Setup, m *policy.Config) {
			m.AddQHead, m.ActionBound = false, policy.BoundTanh
		},
	})
}

// TestMicroBatchesOfOne: half of a micro-batch are demonstrations, so it has an even number of samples.
func TestMicroBatchesOfOne(t *testing.T) {
	checkRefuses(t, bcSetup, algo.NewSAC, map[string]change{
		"micro-batches of one": func(s *algo.Setup, _ *policy.Config) { s.MicroBatch = 1 },
	})
}
