package algo

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func TestImitationLossesByHand(t *testing.T) {
	d := make([]float32, 4)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("likelihood", LikelihoodLoss(d, []float32{-1, -2, -3, 0.5}, 0.5), 5.5)
	for i, x := range d {
		near("its derivative", float64(x), []float64{-0.5, -0.5, -0.5, -0.5}[i])
	}
	// errors of 1 and -2 half widths, then of 0.25 and 0
	near("action", ActionLoss(d, []float32{3, 0, 1, 1}, []float32{1, 1, 0.5, 1}, []float32{2, 0.5}, nil, 10), 0.5+2+0.03125)
	for i, x := range d {
		near("its derivative", float64(x), []float64{5, -40, 1.25, 0}[i])
	}
	near("weighted action", ActionLoss(d, []float32{3, 0, 1, 1}, []float32{1, 1, 0.5, 1}, []float32{2, 0.5}, []float32{2, 4}, 10), 5+0.125)
	for i, x := range d {
		near("its derivative", float64(x), []float64{10, -80, 5, 0}[i])
	}
	// values 1 below, 2 above and at the estimate
	near("expectile", ExpectileLoss(d[:3], []float32{0, 3, 1}, []float32{1, 1, 1}, 0.7, 10), 0.7+0.3*4)
	for i, x := range d[:3] {
		near("its derivative", float64(x), []float64{-14, 12, 0}[i])
	}
	near("weights", AdvantageWeights(d[:3], []float32{1, 1, 9}, []float32{1, 2, 1}, 3), 1+math.Exp(-3)+100)
}

// trackDemos are n steps of going to ½ at once, from all over the track.
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

// bcSetup is of 100 demonstrations, one step each.
func bcSetup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	return sacSetup(t, append([]func(*Setup, *policy.Config){func(s *Setup, m *policy.Config) {
		s.Demos = trackDemos(100)
	}}, change...)...)
}

// TestBCLearns: the policy goes where the demonstrations do; what was set aside is predicted too, and counts alike in micro-batches of any size.
func TestBCLearns(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"squashed":      func(*Setup, *policy.Config) {},
		"deterministic": func(_ *Setup, m *policy.Config) { m.ExplorationNoise = 0.1 },
		"normal, micro-batches": func(s *Setup, m *policy.Config) {
			m.AddQHead, m.AddValueHead, m.LearnStd, m.ShareTrunk, s.MicroBatch = false, true, false, true, 16
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := bcSetup(t, change)
			s.Config.OffPolicy.Demos.ValidationShare = 0.21
			b, err := NewBC(s)
			if err != nil {
				t.Fatal(err)
			}
			if b.replay.Size() != 79 || len(b.all) != 21 {
				t.Errorf("%d transitions to learn from and %d aside, want 79 and 21", b.replay.Size(), len(b.all))
			}
			var first, last Metrics
			for i := range 30 {
				if last, err = b.Update(tensor.Dict{}); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = Metrics{last.Names, append([]float64(nil), last.Values...)}
				}
			}
			checkGoal(t, s.Policy, 0.1)
			if a, z := metric(t, first, "bc/val_loss"), metric(t, last, "bc/val_loss"); !(z < a) {
				t.Errorf("validation: %v at first, %v in the end", a, z)
			}
		})
	}
}

// TestOfflineResumes: what was saved and loaded goes on with the same numbers.
func TestOfflineResumes(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t testing.TB, change ...func(*Setup, *policy.Config)) Setup
		make  func(Setup) (Algorithm, error)
	}{
		{"cloning", bcSetup, func(s Setup) (Algorithm, error) { return NewBC(s) }},
		{"iql", iqlSetup, func(s Setup) (Algorithm, error) { return NewIQL(s) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, again := c.setup(t), c.setup(t)
			update := func(a Algorithm, n int) (m Metrics) {
				for range n {
					var err error
					if m, err = a.Update(tensor.Dict{}); err != nil {
						t.Fatal(err)
					}
				}
				return m
			}
			a, err := c.make(s)
			if err != nil {
				t.Fatal(err)
			}
			update(a, 3)
			saved, err := a.Save()
			if err != nil {
				t.Fatal(err)
			}
			copy(again.Policy.Params().Data, s.Policy.Params().Data)
			b, err := c.make(again)
			if err != nil {
				t.Fatal(err)
			}
			if saved, err = tensor.Decode(tensor.Encode(nil, saved)); err == nil {
				err = b.Load(saved)
			}
			if err != nil {
				t.Fatal(err)
			}
			want, got := update(a, 2), update(b, 2)
			for i, name := range want.Names {
				if math.Float64bits(got.Values[i]) != math.Float64bits(want.Values[i]) {
					t.Errorf("%s is %v, undisturbed %v", name, got.Values[i], want.Values[i])
				}
			}
		})
	}
}

func TestBCRefuses(t *testing.T) {
	for name, change := range map[string]func(*Setup, *policy.Config){
		"no demonstrations":       func(s *Setup, _ *policy.Config) { s.Demos = tensor.Dict{} },
		"a share of all":          func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.Demos.ValidationShare = 1 },
		"actions squashed behind": func(_ *Setup, m *policy.Config) { m.AddQHead, m.ActionBound = false, policy.BoundTanh },
	} {
		if _, err := NewBC(bcSetup(t, change)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHalfOfTheBatchIsDemonstrated: with demonstrations the second half of every micro-batch are such, the first is what was experienced.
func TestHalfOfTheBatchIsDemonstrated(t *testing.T) {
	s := sacSetup(t, func(s *Setup, _ *policy.Config) {
		s.Demos, s.MicroBatch = trackDemos(50), 16
		for i := range s.Demos.Must("reward").F32() {
			s.Demos.Must("reward").F32()[i] = 7
		}
	})
	a, err := NewSAC(s)
	if err != nil {
		t.Fatal(err)
	}
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	seen := map[float32]bool{}
	err = a.descend(a.critics.train, func(b *Transitions, _ func(lo, hi int)) error {
		for i, r := range b.Reward {
			if demonstrated := i >= 8; (r == 7) != demonstrated {
				t.Errorf("sample %d of a micro-batch of 16 has reward %v", i, r)
			}
			if i >= 8 {
				seen[b.Obs.Must("state").F32()[i]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 15 { // of 32 draws from 50
		t.Errorf("%d demonstrations in a batch", len(seen))
	}
	s.MicroBatch = 1
	if _, err := NewSAC(s); err == nil {
		t.Error("micro-batches of one with demonstrations: no error")
	}
}
