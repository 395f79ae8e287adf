package algo

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func td3Setup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	t.Helper()
	return sacSetup(t, append([]func(*Setup, *policy.Config){func(s *Setup, m *policy.Config) {
		m.ExplorationNoise, s.Config.OffPolicy.CriticActorRatio = 0.3, 2
	}}, change...)...)
}

// TestTD3Learns: as TestSACLearns; values are at most 0, and no less than what the way costs.
func TestTD3Learns(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"one step":              func(*Setup, *policy.Config) {},
		"micro-batches, n-step": func(s *Setup, _ *policy.Config) { s.MicroBatch, s.Config.OffPolicy.NStep = 16, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s := td3Setup(t, change)
			a, err := NewTD3(s)
			if err != nil {
				t.Fatal(err)
			}
			m := runTrack(t, a, s, newTrack(s.Envs), 0, 150)
			checkGoal(t, s.Policy, 0.1)
			if q := metric(t, m, "critic/q_data"); q < -3 || q > 0.2 {
				t.Errorf("estimates %v on average, want between -3 and 0", q)
			}
		})
	}
}

// TestTD3Smooths: targets take the target actor's action with noise of at most target_noise_clip half widths, kept in the box; with the deviation far
// above the clip nearly all of it is at the clip.
func TestTD3Smooths(t *testing.T) {
	s := td3Setup(t, func(s *Setup, _ *policy.Config) {
		s.Config.OffPolicy.TargetNoise, s.Config.OffPolicy.TargetNoiseClip = 100, 0.25
	})
	a, err := NewTD3(s)
	if err != nil {
		t.Fatal(err)
	}
	var obs tensor.Dict
	obs.Set("state", tensor.New(tensor.F32, a.micro, 1))
	for i := range a.targetActor.F32() {
		a.targetActor.F32()[i] += 0.05 // not the actor's
	}
	if err := a.smooth(obs, 0); err != nil {
		t.Fatal(err)
	}
	target := td3Setup(t).Policy
	copy(target.Params().Data, a.targetActor.F32())
	act, err := target.Forward(target.NewWork(a.micro), obs, policy.Deterministic, policy.Noise{})
	if err != nil {
		t.Fatal(err)
	}
	atClip := 0
	for i, x := range a.smoothed.F32() {
		d := math.Abs(float64(x - act.Action.F32()[i]))
		if d > 0.25+1e-6 || x < -1 || x > 1 {
			t.Errorf("action %v from %v", x, act.Action.F32()[i])
		}
		if d > 0.25-1e-6 {
			atClip++
		}
	}
	if atClip < a.micro*9/10 {
		t.Errorf("%d of %d actions are at the clip", atClip, a.micro)
	}
}

func TestTD3Resumes(t *testing.T) {
	checkResumes(t, func() Setup { return td3Setup(t) }, func(s Setup) (Algorithm, error) { return NewTD3(s) })
}

func TestTD3Refuses(t *testing.T) {
	if _, err := NewTD3(sacSetup(t)); err == nil {
		t.Error("a policy without exploration_noise: no error")
	}
	if _, err := NewSAC(td3Setup(t)); err == nil {
		t.Error("SAC with exploration_noise: no error")
	}
}
