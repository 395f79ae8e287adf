package algo

import (
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// iqlSetup is of demonstrations that go to ½ at once, and as many that go anywhere, of one step each.
func iqlSetup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	return sacSetup(t, append([]func(*Setup, *policy.Config){func(s *Setup, _ *policy.Config) {
		s.Demos, s.Config.OffPolicy.Temperature, s.Config.OffPolicy.Expectile = trackDemos(400), 30, 0.9
		action, next, reward := s.Demos.Must("action"), s.Demos.Must("next_observation.state").F32(), s.Demos.Must("reward").F32()
		for i, x := range s.Demos.Must("observation.state").F32() {
			if i%2 == 0 {
				action.F32()[i] = float32(i*31%400)/200 - 1
				next[i] = moved(x, action, i)
				reward[i] = -(next[i] - 0.5) * (next[i] - 0.5)
			}
		}
	}}, change...)...)
}

// TestIQLLearns: the policy goes to ½ though half of the demonstrations do not; without weights, at temperature 0, it does not.
func TestIQLLearns(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"squashed":                     func(*Setup, *policy.Config) {},
		"deterministic, micro-batches": func(s *Setup, m *policy.Config) { m.ExplorationNoise, s.MicroBatch = 0.1, 16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := iqlSetup(t, change)
			a, err := NewIQL(s)
			if err != nil {
				t.Fatal(err)
			}
			var m Metrics
			for range 100 {
				if m, err = a.Update(tensor.Dict{}); err != nil {
					t.Fatal(err)
				}
			}
			checkGoal(t, s.Policy, 0.1)
			if v := metric(t, m, "critic/value"); v > 0.05 || v < -0.5 { // where episodes end after a step all that follows counts, though none shows it
				t.Errorf("mean value %v, want a little below 0", v)
			}
		})
	}
}

func TestIQLRefuses(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"no demonstrations":       func(s *Setup, _ *policy.Config) { s.Demos = tensor.Dict{} },
		"no critics of actions":   func(_ *Setup, m *policy.Config) { m.AddQHead = false },
		"an expectile of all":     func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.Expectile = 1 },
		"critics that normalise":  func(_ *Setup, m *policy.Config) { m.QHeadType = policy.QHeadCrossQ },
		"a negative temperature":  func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.Temperature = -1 },
		"batches that do not fit": func(s *Setup, _ *policy.Config) { s.MicroBatch = 48 },
	} {
		if _, err := NewIQL(iqlSetup(t, change)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
