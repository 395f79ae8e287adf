package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// iqlSetup has demonstrations of one step each: half of them go to ½ at once, the others go anywhere.
func iqlSetup(t testing.TB, changes ...change) algo.Setup {
	return trackSetup(t, append([]change{func(s *algo.Setup, _ *policy.Config) {
		s.Demos, s.Config.OffPolicy.Temperature, s.Config.OffPolicy.Expectile = trackDemos(400), 30, 0.9
		action := s.Demos.Must("action")
		next, reward := s.Demos.Must("next_observation.state").F32(), s.Demos.Must("reward").F32()
		for i, x := range s.Demos.Must("observation.state").F32() {
			if i%2 == 0 {
				action.F32()[i] = float32(i*31%400)/200 - 1
				next[i] = moved(x, action, i)
				reward[i] = -(next[i] - 0.5) * (next[i] - 0.5)
			}
		}
	}}, changes...)...)
}

// TestIQLLearns: the policy goes to ½ though half of the demonstrations do not; without weights, at temperature 0, it
// does not.
func TestIQLLearns(t *testing.T) {
	for name, c := range map[string]change{
		"squashed": asIs,
		"deterministic, micro-batches": func(s *algo.Setup, m *policy.Config) {
			m.ExplorationNoise, s.MicroBatch = 0.1, 16
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := iqlSetup(t, c)
			m := update(t, made(t, s, algo.NewIQL), 100)
			checkGoal(t, s.Policy, 0.1)
			// episodes end by a time limit after a step, so values include what would follow
			if v := metric(t, m, "critic/value"); v > 0.05 || v < -0.7 {
				t.Errorf("mean value %v, want a little below 0", v)
			}
		})
	}
}

// The settings of TestIQLLoss.
const iqlTau, iqlBeta, iqlGamma = 0.7, 3, 0.9

// TestIQLLoss compares an update with a computation from the demonstrations and the values of all four networks. V goes
// towards the least of Q'. The weight of an action depends on how far this least is above the new V. Q goes to r + γ
// V(s').
func TestIQLLoss(t *testing.T) {
	s := iqlSetup(t, func(s *algo.Setup, m *policy.Config) {
		m.ExplorationNoise, m.Activation, s.Config.UpdateEpoch, s.Config.OffPolicy.TargetUpdateFreq = 0.1, "tanh", 1, 2
		s.Config.OffPolicy.Expectile, s.Config.OffPolicy.Temperature, s.Config.Gamma = iqlTau, iqlBeta, iqlGamma
		for i := range s.Demos.Must("terminated").U8() {
			s.Demos.Must("terminated").U8()[i] = uint8(i % 3 / 2)
		}
	})
	a := made(t, s, algo.NewIQL)
	disturb(stateOf(t, a), "target")
	u := newIQLUpdate(t, s)
	before, actor := stateOf(t, a).Clone(), slices.Clone(s.Policy.Params().Data)
	m := update(t, a, 1)
	after := stateOf(t, a).Clone()
	u.judge(before, after)
	gradient := func(network string) []float32 {
		return gradientOf(before, after, network, s.CriticOptim.AdamBeta1)
	}

	for _, c := range []struct {
		name         string
		params, grad []float32
		loss         func(params []float32) float64
	}{
		{"iql/value_loss", paramsIn(before, "value", u.value.Params()), gradient("value"), u.valueLoss},
		{"iql/actor_loss", actor, s.Policy.Params().Grad, u.actorLoss},
		{"iql/critic_loss", paramsIn(before, "critic", u.critic.Params()), gradient("critic"), u.criticLoss},
	} {
		within(t, c.name, metric(t, m, c.name), c.loss(c.params), 1e-5)
		checkSlope(t, c.name, c.grad, c.params, c.loss)
	}
	within(t, "weight", metric(t, m, "actor/weight"), u.meanWeight, 1e-5)
	within(t, "value", metric(t, m, "critic/value"), u.meanValue, 1e-5)
	networks := func(d tensor.Dict) (critic, target []float32) {
		return paramsIn(d, "critic", u.critic.Params()), paramsIn(d, "target", u.critic.Params())
	}
	_, first := networks(before)
	critic, second := networks(after)
	checkFollows(t, "target", first, second, critic)
	update(t, a, 1)
	if last, third := networks(stateOf(t, a)); !slices.Equal(third, second) || slices.Equal(last, critic) {
		t.Error("the second update is not of the critics without their targets")
	}
}

// An iqlUpdate is the first update of IQL, made again from the state before it.
type iqlUpdate struct {
	t             *testing.T
	setup         algo.Setup
	critic, value network

	rows       []int32 // the demonstrations of the batch
	obs, next  tensor.Dict
	action     tensor.Tensor
	least, y   []float32 // the least of Q' of each action, and the targets of the critics
	weight     []float64
	meanWeight float64
	meanValue  float64 // of the states
}

func newIQLUpdate(t *testing.T, s algo.Setup) *iqlUpdate {
	n := s.GlobalBatch
	u := &iqlUpdate{t: t, setup: s, critic: criticLike(t, s.Policy), value: valueLike(t, s.Policy),
		rows: make([]int32, n), least: make([]float32, n), y: make([]float32, n), weight: make([]float64, n)}
	draws := philox.New(s.Seed, philox.Replay, 0, 0)
	for i := range u.rows {
		u.rows[i] = int32(draws.IntN(s.Demos.Must("reward").Len()))
	}
	u.obs.Set("state", u.drawn("observation.state"))
	u.next.Set("state", u.drawn("next_observation.state"))
	u.action = u.drawn("action")
	return u
}

// drawn returns a tensor of the demonstrations of the batch.
func (u *iqlUpdate) drawn(name string) tensor.Tensor {
	x := make([]float32, len(u.rows))
	for i, k := range u.rows {
		x[i] = u.setup.Demos.Must(name).F32()[k]
	}
	return tensor.FromF32(x, len(x), 1)
}

// judge computes Q' before and V after the update, for the batch.
func (u *iqlUpdate) judge(before, after tensor.Dict) {
	n := len(u.rows)
	worth := u.critic.estimates(paramsIn(before, "target", u.critic.Params()), u.obs, u.action)
	params := paramsIn(after, "value", u.value.Params())
	values := u.value.estimates(params, u.obs, tensor.Tensor{})
	follows := u.value.estimates(params, u.next, tensor.Tensor{})
	copy(u.y, u.drawn("reward").F32())
	for i, k := range u.rows {
		u.least[i] = min(worth[i], worth[n+i])
		u.weight[i] = math.Exp(iqlBeta * float64(u.least[i]-values[i]))
		if u.setup.Demos.Must("terminated").U8()[k] == 0 {
			u.y[i] += iqlGamma * follows[i]
		}
		u.meanWeight += u.weight[i] / float64(n)
		u.meanValue += float64(values[i]) / float64(n)
	}
}

// valueLoss is the expectile loss; values are both above and below the least estimates.
func (u *iqlUpdate) valueLoss(params []float32) (mean float64) {
	n, above := len(u.rows), 0
	for i, v := range u.value.estimates(params, u.obs, tensor.Tensor{}) {
		e, w := float64(u.least[i]-v), iqlTau
		if e < 0 {
			w = 1 - iqlTau
		} else {
			above++
		}
		mean += w * e * e / float64(n)
	}
	if above == 0 || above == n {
		u.t.Errorf("of %d values %d are below the least estimate: the test sees one side", n, above)
	}
	return mean
}

func (u *iqlUpdate) actorLoss(params []float32) (mean float64) {
	act := acts(u.t, u.setup.Policy, params, u.obs, policy.Deterministic, policy.Noise{})
	for i, x := range act.Action.F32() {
		e := float64(x - u.action.F32()[i])
		mean += u.weight[i] * e * e / 2 / float64(len(u.rows))
	}
	return mean
}

func (u *iqlUpdate) criticLoss(params []float32) float64 { // of two heads ½ Σ is the mean
	return meanSquare(u.critic.estimates(params, u.obs, u.action), u.y)
}

func TestIQLResumes(t *testing.T) { checkResumes(t, iqlSetup, algo.NewIQL) }

func TestIQLRefuses(t *testing.T) {
	checkRefuses(t, iqlSetup, algo.NewIQL, map[string]change{
		"no demonstrations":       func(s *algo.Setup, _ *policy.Config) { s.Demos = tensor.Dict{} },
		"no critics of actions":   func(_ *algo.Setup, m *policy.Config) { m.AddQHead = false },
		"an expectile of all":     keys(func(o *algo.OffPolicyConfig) { o.Expectile = 1 }),
		"critics that normalise":  func(_ *algo.Setup, m *policy.Config) { m.QHeadType = policy.QHeadCrossQ },
		"a negative temperature":  keys(func(o *algo.OffPolicyConfig) { o.Temperature = -1 }),
		"batches that do not fit": func(s *algo.Setup, _ *policy.Config) { s.MicroBatch = 48 },
	})
}
