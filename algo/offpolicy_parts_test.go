package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

func TestFollow(t *testing.T) {
	target := []float32{0, 8}
	follow(new(nn.Params[float32]).Ops(), target, []float32{4, 0}, 0.25)
	if !slices.Equal(target, []float32{1, 6}) {
		t.Errorf("target %v, want [1 6]", target)
	}
}

// TestREDQSubset: each update draws two of five critics that count in targets, all equally often and none twice.
func TestREDQSubset(t *testing.T) {
	a := &SAC{offPolicy: &offPolicy{seed: 7, off: OffPolicyConfig{CriticSubsampleSize: 2}},
		critics: &critics{heads: make([]int, 5)}}
	counted := make([]int, 5)
	const updates = 10_000
	for a.number = range updates {
		a.drawSubset()
		for _, h := range a.critics.heads[:2] {
			counted[h]++
		}
		if a.critics.heads[0] == a.critics.heads[1] {
			t.Fatalf("update %d: critic %d twice", a.number, a.critics.heads[0])
		}
	}
	for h, n := range counted { // a standard deviation is 49
		if math.Abs(float64(n)-updates*2/5) > 250 {
			t.Errorf("critic %d counts in %d of %d updates, want about two of five", h, n, updates)
		}
	}
}

// TestTD3Smooths: targets take the target actor's action, near 0 here, with noise of at most target_noise_clip half
// widths, kept in the box. The deviation is far above the clip, so nearly all actions are at the clip, or at the box's
// bounds.
func TestTD3Smooths(t *testing.T) {
	const rows = 64
	unit := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.ExplorationNoise = true, false, 0.3
	spec := env.Spec{Obs: []env.Field{{Name: "state", Space: unit}}, Action: unit}
	pol := test.Must(policy.NewMLP(model, spec, 1, tensor.Heap))(t)
	var obs tensor.Dict
	obs.Set("state", tensor.FromF32(slices.Repeat([]float32{0.5}, rows), rows, 1))
	act := test.Must(pol.Forward(pol.NewWork(rows), obs, policy.Deterministic, policy.Noise{}))(t)
	from := float64(act.Action.F32()[0])
	for _, clip := range []float64{0.25, 1.5} {
		a := &TD3{offPolicy: &offPolicy{batchSizes: batchSizes{local: rows, micro: rows}},
			target: pol.(*policy.SoftActor), targetWork: pol.NewWork(rows), low: unit.Low, high: unit.High,
			half: halfWidths(pol), smoothed: tensor.New(tensor.F32, rows, 1, 1)}
		a.off.TargetNoise, a.off.TargetNoiseClip = 100, float32(clip)
		test.OK(t, a.smooth(obs))
		low, high, atClip := max(from-clip, -1), min(from+clip, 1), 0
		for _, x := range a.smoothed.F32() {
			if x := float64(x); x < low-1e-6 || x > high+1e-6 {
				t.Errorf("clip %v: action %v from %v", clip, x, from)
			} else if x < low+1e-6 || x > high-1e-6 {
				atClip++
			}
		}
		if atClip < rows*9/10 {
			t.Errorf("clip %v: %d of %d actions are at the clip", clip, atClip, rows)
		}
	}
}

// spaceless is a policy without observations.
type spaceless struct{ policy.Policy }

func (spaceless) Spaces() (obs []env.Field, action env.Space) { return nil, env.Space{} }

// TestHalfOfTheBatchIsDemonstrated: the first half of each micro-batch is experience, the second half demonstrations.
func TestHalfOfTheBatchIsDemonstrated(t *testing.T) {
	const demos = 50
	s := Setup{Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: 64, MicroBatch: 16, Steps: 4, Envs: 4,
		Rollout: transitions(1, 4, 4), Policy: spaceless{}}
	s.Optim.LR = 1
	s.CriticOptim = s.Optim
	s.Config.OffPolicy.ReplayBuffer.SampleWindowSize = 100
	s.Config.OffPolicy.EntropyTuning.AlphaType = AlphaFixed
	rollout, shown := counted(0, 4, 4, nil), counted(1000, demos, 1, nil)
	for i := range shown.Len() {
		name, x := shown.Entry(i)
		s.Demos.Set(name, x.Reshape(append([]int{demos}, x.Shape()[2:]...)...))
	}
	e := test.Must(newOffPolicy(&s, "test", false, 0))(t)
	test.OK(t, e.Prepare(&rollout))
	e.draw()
	seen := map[float32]bool{}
	for e.first = 0; e.first < e.local; e.first += e.micro {
		test.OK(t, e.gather())
		for i, r := range e.batch.Reward {
			if demonstrated := i >= 8; (r >= 1000) != demonstrated {
				t.Errorf("sample %d of a micro-batch of 16 has reward %v", i, r)
			}
			if i >= 8 {
				seen[r] = true
			}
		}
	}
	if len(seen) < 15 { // of 32 draws from 50
		t.Errorf("%d demonstrations in a batch", len(seen))
	}
}
