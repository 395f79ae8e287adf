package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
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

// TestIQLLoss holds a whole update against what is worked out from the demonstrations and the values of all four networks. Each step uses what the one
// before has made of the values: V goes towards the least of Q', actions weigh by how far that is above the new V, and Q goes to r + γ V(s').
func TestIQLLoss(t *testing.T) {
	const tau, beta, gamma = 0.7, 3, 0.9
	s := iqlSetup(t, func(s *Setup, m *policy.Config) {
		m.ExplorationNoise, m.Activation, s.Config.UpdateEpoch, s.Config.OffPolicy.TargetUpdateFreq = 0.1, "tanh", 1, 2
		s.Config.OffPolicy.Expectile, s.Config.OffPolicy.Temperature, s.Config.Gamma = tau, beta, gamma
		for i := range s.Demos.Must("terminated").U8() {
			s.Demos.Must("terminated").U8()[i] = uint8(i % 3 / 2)
		}
	})
	a, err := NewIQL(s)
	if err != nil {
		t.Fatal(err)
	}
	target := a.critics.target.Params().Data
	for i := range target {
		target[i] *= float32(math.Cos(float64(i)))
	}
	networks := [][]float32{a.values.net.Params().Data, s.Policy.Params().Data, a.critics.net.Params().Data, target}
	now := func() (params [][]float32) {
		for _, p := range networks {
			params = append(params, slices.Clone(p))
		}
		return params
	}
	before := now()
	m, err := a.Update(tensor.Dict{})
	if err != nil {
		t.Fatal(err)
	}
	after := now()

	n := a.local
	drawn := func(name string) tensor.Tensor {
		x := make([]float32, n)
		for i, k := range a.rows {
			x[i] = s.Demos.Must(name).F32()[k]
		}
		return tensor.FromF32(x, n, 1)
	}
	var obs, next tensor.Dict
	obs.Set("state", drawn("observation.state"))
	next.Set("state", drawn("next_observation.state"))
	action, reward := drawn("action"), drawn("reward").F32()
	worth := estimates(t, a.critics.target, before[3], obs, action)
	least, y, weight := make([]float32, n), make([]float32, n), make([]float64, n)
	values, follows := estimates(t, a.values.net, after[0], obs, tensor.Tensor{}), estimates(t, a.values.net, after[0], next, tensor.Tensor{})
	var weights, value float64
	for i, k := range a.rows {
		least[i] = min(worth[i], worth[n+i])
		weight[i] = math.Exp(beta * float64(least[i]-values[i]))
		if y[i] = reward[i]; s.Demos.Must("terminated").U8()[k] == 0 {
			y[i] += gamma * follows[i]
		}
		weights, value = weights+weight[i]/float64(n), value+float64(follows[i])/float64(n)
	}
	above := 0
	for k, c := range []struct {
		name   string
		params *nn.Params[float32]
		loss   func(params []float32) float64
	}{
		{"iql/value_loss", a.values.net.Params(), func(params []float32) (mean float64) {
			above = 0
			for i, v := range estimates(t, a.values.net, params, obs, tensor.Tensor{}) {
				e, w := float64(least[i]-v), tau
				if e < 0 {
					w = 1 - tau
				} else {
					above++
				}
				mean += w * e * e / float64(n)
			}
			return mean
		}},
		{"iql/actor_loss", s.Policy.Params(), func(params []float32) (mean float64) {
			for i, x := range acts(t, s.Policy, params, obs, policy.Deterministic, policy.Noise{}).Action.F32() {
				e := float64(x - action.F32()[i])
				mean += weight[i] * e * e / 2 / float64(n)
			}
			return mean
		}},
		{"iql/critic_loss", a.critics.net.Params(), func(params []float32) float64 { // of two heads ½ Σ is the mean
			return meanSquare(estimates(t, a.critics.net, params, obs, action), y)
		}},
	} {
		near(t, c.name, metric(t, m, c.name), c.loss(before[k]), 1e-5)
		checkSlope(t, c.name, c.params.Grad, before[k], c.loss)
	}
	near(t, "weight", metric(t, m, "actor/weight"), weights, 1e-5)
	near(t, "value", metric(t, m, "critic/value"), value, 1e-5)
	if above == 0 || above == n {
		t.Errorf("of %d values %d are below the least estimate: the test sees one side", n, above)
	}
	for i, x := range before[3] {
		near(t, "target", float64(after[3][i]), 0.98*float64(x)+0.02*float64(after[2][i]), 1e-6)
	}
	if _, err := a.Update(tensor.Dict{}); err != nil {
		t.Fatal(err)
	}
	if last := now(); !slices.Equal(last[3], after[3]) || slices.Equal(last[2], after[2]) {
		t.Error("the second update is not of the critics without their targets")
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
