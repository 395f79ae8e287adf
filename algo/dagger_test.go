package algo

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A taught DAgger is shown rollouts with the actions that lead to ½ at once, in place of those taken.
type taught struct{ *DAgger }

func (d taught) Prepare(rollout *tensor.Dict) error {
	action := rollout.Must("action").F32()
	for i, x := range rollout.Must("observation.state").F32() {
		action[i] = min(max((0.5-x)/0.4, -1), 1)
	}
	return d.DAgger.Prepare(rollout)
}

func newTaught(s Setup) (Algorithm, error) {
	d, err := NewDAgger(s)
	return taught{d}, err
}

// daggerSetup is of a policy that normalises, with 8 updates after each rollout of 16 samples.
func daggerSetup(t testing.TB) Setup {
	return sacSetup(t, func(s *Setup, m *policy.Config) {
		m.AddQHead, m.AddValueHead, m.LearnStd = false, true, false
		s.Config.OffPolicy.ReplayBuffer = ReplayConfig{SampleWindowSize: 20, MinBufferSize: 2}
	})
}

// TestBetaByHand: β decays by a factor per iteration, and stops at the least.
func TestBetaByHand(t *testing.T) {
	c := DaggerConfig{InitBeta: 0.8, BetaDecay: 0.5, BetaMin: 0.15}
	for i, want := range []float64{0.8, 0.4, 0.2, 0.15, 0.15} {
		if got := c.Beta(uint64(i)); math.Abs(got-want) > 1e-15 {
			t.Errorf("iteration %d: %v, want %v", i, got, want)
		}
	}
	if got := (&DaggerConfig{InitBeta: 1}).Beta(0); got != 1 {
		t.Errorf("with a decay of 0: %v in the first iteration, want 1", got)
	}
	want := DaggerConfig{InitBeta: 0.5, BetaSchedule: "exponential", BetaDecay: 0.99, BetaMin: 0.05} // RLinf's
	if got := DefaultConfig().OffPolicy.Dagger; got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
}

// TestDAggerLearns: what the labels say, whatever was done; not before the buffer has its least size.
func TestDAggerLearns(t *testing.T) {
	s := daggerSetup(t)
	d, err := newTaught(s)
	if err != nil {
		t.Fatal(err)
	}
	w := newTrack(s.Envs)
	if m := runTrack(t, d, s, w, 0, 1); !math.IsNaN(m.Values[0]) || metric(t, m, "dagger/beta") != 0.5 {
		t.Errorf("metrics %v: want no loss in the first iteration of min_buffer_size 2, and β ½", m)
	}
	m := runTrack(t, d, s, w, 1, 59)
	checkGoal(t, s.Policy, 0.1)
	if got, want := metric(t, m, "dagger/beta"), 0.5*math.Pow(0.99, 59); math.Abs(got-want) > 1e-12 {
		t.Errorf("β %v in iteration 59, want %v", got, want)
	}
	if size, total := metric(t, m, "replay_buffer/size"), metric(t, m, "replay_buffer/total_samples"); size != 20*16 || total != 60*16 {
		t.Errorf("%v transitions held of %v, want 320 of 960", size, total)
	}
}

// TestDAggerStatistics: observation statistics are those of all rollouts.
func TestDAggerStatistics(t *testing.T) {
	s := sacSetup(t, func(s *Setup, m *policy.Config) {
		m.AddQHead, m.AddValueHead, m.NormalizeObservations = false, true, true
	})
	d, err := NewDAgger(s)
	if err != nil {
		t.Fatal(err)
	}
	layout := tensor.NewLayout(s.Rollout...)
	var sum float64
	for i := range 3 {
		r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
		for k := range r.Must("observation.state").F32() {
			r.Must("observation.state").F32()[k] = float32(i + k)
			sum += float64(i + k)
		}
		if err := d.Prepare(&r); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Update(r); err != nil {
			t.Fatal(err)
		}
	}
	b := s.Policy.Params().Buffers
	if count, mean := b.Must("obs.count").F64()[0], b.Must("obs.mean").F64()[0]; count != 48 || math.Abs(mean-sum/48) > 1e-9 {
		t.Errorf("statistics of %v observations with mean %v, want 48 with %v", count, mean, sum/48)
	}
}

func TestDAggerResumes(t *testing.T) {
	checkResumes(t, func() Setup { return daggerSetup(t) }, newTaught)
}
