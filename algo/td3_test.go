package algo

import (
	"math"
	"slices"
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

// TestTD3Loss holds updates against what is worked out from the values of all four networks: critics learn from the least estimate of the target critics
// at the target actor's action, the actor from the first critic alone, and the targets follow at the actor's updates, every second, not between them.
func TestTD3Loss(t *testing.T) {
	for _, noise := range []float32{0, 0.2} {
		s := td3Setup(t, func(s *Setup, m *policy.Config) {
			m.Activation, s.Config.UpdateEpoch, s.Config.OffPolicy.TargetNoise = "tanh", 1, noise
		})
		a, err := NewTD3(s)
		if err != nil {
			t.Fatal(err)
		}
		w := newTrack(s.Envs)
		runTrack(t, a, s, w, 0, 3) // nothing is learnt yet
		for _, params := range [][]float32{a.critics.target.Params().Data, a.target.Params().Data} {
			for i := range params {
				params[i] *= float32(math.Cos(float64(i)))
			}
		}
		now := func() [4][]float32 {
			return [4][]float32{
				slices.Clone(s.Policy.Params().Data), slices.Clone(a.critics.net.Params().Data), slices.Clone(a.target.Params().Data), slices.Clone(a.critics.target.Params().Data),
			}
		}
		before := now()
		m := runTrack(t, a, s, w, 3, 1)
		after := now()

		b := a.batch
		next := acts(t, s.Policy, before[2], b.Next, policy.Deterministic, policy.Noise{}).Action
		if slices.Equal(next.F32(), a.smoothed.F32()) != (noise == 0) {
			t.Errorf("noise %v: targets take action %v, the target actor's is %v", noise, a.smoothed.F32()[0], next.F32()[0])
		}
		worth := estimates(t, a.critics.target, before[3], b.Next, a.smoothed)
		y := make([]float32, a.local)
		for i := range y {
			y[i] = b.Reward[i] + b.Discount[i]*min(worth[i], worth[a.local+i])
		}
		criticLoss := func(critic []float32) float64 {
			return meanSquare(estimates(t, a.critics.net, critic, b.Obs, b.Action), y)
		}
		near(t, "critic loss", metric(t, m, "td3/critic_loss"), criticLoss(before[1]), 1e-5)
		checkSlope(t, "critics", a.critics.net.Params().Grad, before[1], criticLoss) // of two heads ½ Σ is the mean
		actorLoss := func(actor []float32) (mean float64) {
			act := acts(t, s.Policy, actor, b.Obs, policy.Deterministic, policy.Noise{})
			for _, q := range estimates(t, a.critics.net, after[1], b.Obs, act.Action)[:a.local] {
				mean -= float64(q) / float64(a.local)
			}
			return mean
		}
		near(t, "actor loss", metric(t, m, "td3/actor_loss"), actorLoss(before[0]), 1e-5)
		checkSlope(t, "actor", s.Policy.Params().Grad, before[0], actorLoss)
		for k := range 2 {
			for i, x := range before[2+k] {
				near(t, "target", float64(after[2+k][i]), 0.98*float64(x)+0.02*float64(after[k][i]), 1e-6)
			}
		}

		m = runTrack(t, a, s, w, 4, 1)
		last := now()
		if !math.IsNaN(metric(t, m, "td3/actor_loss")) || slices.Equal(last[1], after[1]) {
			t.Error("the second update is not of the critics alone")
		}
		for k, what := range map[int]string{0: "the actor", 2: "the target actor", 3: "the target critics"} {
			if !slices.Equal(last[k], after[k]) {
				t.Errorf("%s moved in the second update, between the actor's", what)
			}
		}
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
	for i := range a.target.Params().Data {
		a.target.Params().Data[i] += 0.05 // not the actor's
	}
	if err := a.smooth(obs); err != nil {
		t.Fatal(err)
	}
	target := td3Setup(t).Policy
	copy(target.Params().Data, a.target.Params().Data)
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
