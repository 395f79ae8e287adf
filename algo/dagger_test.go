package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A taught DAgger gets rollouts in which the expert's actions, which lead to ½ at once, replace the actions taken.
type taught struct{ *algo.DAgger }

func (d taught) Prepare(rollout *tensor.Dict) error {
	action := rollout.Must("action").F32()
	for i, x := range rollout.Must("observation.state").F32() {
		action[i] = min(max((0.5-x)/0.4, -1), 1)
	}
	return d.DAgger.Prepare(rollout)
}

func newTaught(s algo.Setup) (algo.Algorithm, error) {
	d, err := algo.NewDAgger(s)
	return taught{d}, err
}

// daggerSetup is of a policy of log-probs, with 8 updates after each rollout of 16 samples.
func daggerSetup(t testing.TB, changes ...change) algo.Setup {
	return trackSetup(t, append([]change{func(s *algo.Setup, m *policy.Config) {
		m.AddQHead, m.AddValueHead, m.LearnStd = false, true, false
		s.Config.OffPolicy.ReplayBuffer = algo.ReplayConfig{SampleWindowSize: 20, MinBufferSize: 2}
	}}, changes...)...)
}

// TestBetaByHand: β decays by a factor per iteration, and stops at the least.
func TestBetaByHand(t *testing.T) {
	c := algo.DaggerConfig{InitBeta: 0.8, BetaDecay: 0.5, BetaMin: 0.15}
	for i, want := range []float64{0.8, 0.4, 0.2, 0.15, 0.15} {
		within(t, "β", c.Beta(uint64(i)), want, 1e-15)
	}
	if got := (&algo.DaggerConfig{InitBeta: 1}).Beta(0); got != 1 {
		t.Errorf("with a decay of 0: %v in the first iteration, want 1", got)
	}
	want := algo.DaggerConfig{InitBeta: 0.5, BetaSchedule: "exponential", BetaDecay: 0.99, BetaMin: 0.05} // RLinf's
	test.Equal(t, algo.DefaultConfig().OffPolicy.Dagger, want, "defaults")
}

// TestDAggerLearns: the policy learns the labels, not the actions taken, once the buffer has its least size.
func TestDAggerLearns(t *testing.T) {
	s := daggerSetup(t)
	d, w := made(t, s, newTaught), newTrack(s.Envs)
	if m := runTrack(t, d, s, w, 0, 1); !math.IsNaN(metric(t, m, "dagger/loss")) || metric(t, m, "dagger/beta") != 0.5 {
		t.Errorf("metrics %v: want no loss in the first iteration of min_buffer_size 2, and β ½", m)
	}
	m := runTrack(t, d, s, w, 1, 59)
	checkGoal(t, s.Policy, 0.1)
	within(t, "β in iteration 59", metric(t, m, "dagger/beta"), 0.5*math.Pow(0.99, 59), 1e-12)
	within(t, "transitions held", metric(t, m, "replay_buffer/size"), 20*16, 0)
	within(t, "transitions ever", metric(t, m, "replay_buffer/total_samples"), 60*16, 0)
}

// TestDAggerStatistics: observation statistics are those of all rollouts.
func TestDAggerStatistics(t *testing.T) {
	s := daggerSetup(t, func(_ *algo.Setup, m *policy.Config) { m.NormalizeObservations = true })
	d := made(t, s, algo.NewDAgger)
	layout := tensor.NewLayout(s.Rollout...)
	var sum float64
	for i := range 3 {
		r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
		for k := range r.Must("observation.state").F32() {
			r.Must("observation.state").F32()[k] = float32(i + k)
			sum += float64(i + k)
		}
		test.OK(t, d.Prepare(&r))
		update(t, d, 1)
	}
	b := s.Policy.Params().Buffers
	within(t, "observations", b.Must("obs.count").F64()[0], 48, 0)
	within(t, "their mean", b.Must("obs.mean").F64()[0], sum/48, 1e-9)
}

func TestDAggerResumes(t *testing.T) { checkResumes(t, daggerSetup, newTaught) }
