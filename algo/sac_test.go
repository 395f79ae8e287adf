package algo

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A track is a world of one number x in [-1, 1]. An action moves it by 0.4a, and pays -(x - ½)² of where that leads; after 10 steps the episode is cut
// off, and x is drawn anew. The best is to go to ½ and stay there, where all that follows is worth 0.
type track struct {
	x     []float32
	age   []int
	drawn uint64
}

func newTrack(n int) *track {
	w := &track{x: make([]float32, n), age: make([]int, n)}
	for e := range w.x {
		w.begin(e)
	}
	return w
}

func (w *track) begin(e int) {
	s := philox.New(3, philox.Reset, uint64(e), w.drawn)
	w.drawn++
	w.x[e], w.age[e] = float32(s.Uniform(-1, 1)), 0
}

func trackSpec() env.Spec {
	return env.Spec{
		Name:   "track",
		Obs:    []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}}},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}},
	}
}

// moved returns where action e of a leads from x: -1, 0 and 1 are the choices 0, 1 and 2 of discrete ones.
func moved(x float32, a tensor.Tensor, e int) float32 {
	if a.DType() == tensor.I32 {
		return min(max(x+0.4*float32(a.I32()[e]-1), -1), 1)
	}
	return min(max(x+0.4*a.F32()[e], -1), 1)
}

// play fills a rollout with what act does.
func (w *track) play(r tensor.Dict, act func(obs tensor.Dict) tensor.Tensor) {
	n := len(w.x)
	for t := range r.Must("reward").Dim(0) {
		copy(r.Must("observation.state").At(t).F32(), w.x)
		var obs tensor.Dict
		obs.Set("state", r.Must("observation.state").At(t))
		a := act(obs)
		r.Must("action").At(t).CopyFrom(a)
		for e := range n {
			w.x[e] = moved(w.x[e], a, e)
			d := w.x[e] - 0.5
			i := t*n + e
			r.Must("next_observation.state").F32()[i], r.Must("reward").F32()[i] = w.x[e], -d*d
			r.Must("truncated").U8()[i] = 0
			if w.age[e]++; w.age[e] == 10 {
				r.Must("truncated").U8()[i] = 1
				w.begin(e)
			}
		}
	}
}

func sacSetup(t testing.TB, change ...func(*Setup, *policy.Config)) Setup {
	t.Helper()
	const T, N = 4, 4
	model := policy.DefaultConfig()
	model.AddQHead, model.AddValueHead, model.HiddenSizes, model.Activation = true, false, []int{32, 32}, "relu"
	s := Setup{
		Config: DefaultConfig(), Optim: DefaultOptimConfig(), GlobalBatch: 64, Seed: 7, Steps: T, Envs: N, Rollout: transitions(1, T, N),
	}
	s.Config.Gamma, s.Config.UpdateEpoch = 0.9, 8
	s.Config.OffPolicy.ReplayBuffer = ReplayConfig{SampleWindowSize: 100, MinBufferSize: 4}
	s.Config.OffPolicy.Tau, s.Config.OffPolicy.EntropyTuning.TargetEntropy = 0.02, -2
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 3e-3, 0, 0
	for _, c := range change {
		c(&s, &model)
	}
	s.CriticOptim, s.Config.OffPolicy.EntropyTuning.Optim = s.Optim, s.Optim
	var err error
	if s.Policy, err = policy.NewMLP(model, trackSpec(), 1, tensor.Heap); err != nil {
		t.Fatal(err)
	}
	return s
}

// runTrack plays and learns for so many iterations, from the first-th on, and returns the last metrics.
func runTrack(t testing.TB, a Algorithm, s Setup, w *track, first, iterations int) (m Metrics) {
	t.Helper()
	layout := tensor.NewLayout(s.Rollout...)
	r := layout.Bind(tensor.New(tensor.U8, layout.Size()).Bytes())
	work := s.Policy.NewWork(s.Envs)
	noise := policy.Noise{Seed: 5, Env: make([]uint64, s.Envs), Step: make([]uint64, s.Envs)}
	for i := range iterations {
		step := uint64(first+i) * uint64(s.Steps)
		w.play(r, func(obs tensor.Dict) tensor.Tensor {
			for e := range noise.Env {
				noise.Env[e], noise.Step[e] = uint64(e), step
			}
			step++
			act, err := s.Policy.Forward(work, obs, policy.Sample, noise)
			if err != nil {
				t.Fatal(err)
			}
			return act.Action
		})
		if err := a.Prepare(&r); err != nil {
			t.Fatal(err)
		}
		var err error
		if m, err = a.Update(r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestSACLearns: after 150 iterations the most likely actions lead from anywhere to ½ and stay there, and the entropy is what was asked for. Were the
// time limit taken for an end, values would be too near 0; with the sign of the temperature's loss wrong, the entropy would run away.
func TestSACLearns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Setup, *policy.Config)
	}{
		{"twin critics", func(*Setup, *policy.Config) {}},
		{"micro-batches, n-step, exp, slow actor", func(s *Setup, _ *policy.Config) {
			s.MicroBatch, s.Config.OffPolicy.NStep, s.Config.OffPolicy.EntropyTuning.AlphaType = 16, 3, AlphaExp
			s.Config.OffPolicy.CriticActorRatio, s.Config.OffPolicy.TargetUpdateFreq = 2, 2
		}},
		{"five critics, two of which count", func(s *Setup, m *policy.Config) {
			m.NumQHeads, s.Config.OffPolicy.CriticSubsampleSize, s.Config.OffPolicy.ActorAggQ = 5, 2, AggMean
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sacSetup(t, c.change)
			a, err := NewSAC(s)
			if err != nil {
				t.Fatal(err)
			}
			m := runTrack(t, a, s, newTrack(s.Envs), 0, 150)
			if h := metric(t, m, "actor/entropy"); math.Abs(h+2) > 0.8 {
				t.Errorf("entropy %v, want about the target -2", h)
			}
			if n := metric(t, m, "replay_buffer/size"); n != 100*4*4 {
				t.Errorf("%v transitions held, want %d", n, 100*4*4)
			}
			checkGoal(t, s.Policy, 0.1)
		})
	}
}

// TestSACLoss holds the losses of an update against those that are worked out from the values of critics, target critics and policy. Where two of five
// critics count in targets, there are two that explain the loss, the same for all samples, and others at another update.
func TestSACLoss(t *testing.T) {
	pairs := map[string]bool{}
	for _, c := range []struct {
		name            string
		heads, counting int
		change          func(o *OffPolicyConfig)
	}{
		{"least", 2, 2, func(*OffPolicyConfig) {}},
		{"mean", 2, 2, func(o *OffPolicyConfig) { o.AggQ = AggMean }},
		{"no entropy in targets", 2, 2, func(o *OffPolicyConfig) { o.BackupEntropy = false }},
		{"two of five critics", 5, 2, func(o *OffPolicyConfig) { o.CriticSubsampleSize, o.ActorAggQ = 2, AggMean }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sacSetup(t, func(s *Setup, m *policy.Config) {
				m.NumQHeads, m.Activation, s.Config.UpdateEpoch, s.Config.OffPolicy.EntropyTuning.InitialAlpha = c.heads, "tanh", 1, 0.3
				c.change(&s.Config.OffPolicy)
			})
			o := s.Config.OffPolicy
			a, err := NewSAC(s)
			if err != nil {
				t.Fatal(err)
			}
			w := newTrack(s.Envs)
			runTrack(t, a, s, w, 0, 3) // nothing is learnt yet
			for i := range a.critics.target.Params().Data {
				a.critics.target.Params().Data[i] *= float32(math.Cos(float64(i)))
			}
			for update := range 4 {
				actor, critic, target := slices.Clone(s.Policy.Params().Data), slices.Clone(a.critics.net.Params().Data), slices.Clone(a.critics.target.Params().Data)
				alpha, slope := a.temperature.alpha(), alphaSlope(AlphaSoftplus, a.temperature.raw())
				m := runTrack(t, a, s, w, 3+update, 1)

				a.first = 0 // the batch again
				b, n := a.batch, a.local
				next := acts(t, s.Policy, actor, b.Next, policy.Sample, a.noiseOf(2*uint64(update)))
				worth := estimates(t, a.critics.target, target, b.Next, next.Action)
				loss := func(critic []float32, heads ...int) float64 {
					y := make([]float32, n)
					for i := range y {
						agg := float64(worth[heads[0]*n+i])
						for _, h := range heads[1:] {
							if x := float64(worth[h*n+i]); o.AggQ == AggMean {
								agg += x
							} else {
								agg = min(agg, x)
							}
						}
						if o.AggQ == AggMean {
							agg /= float64(len(heads))
						}
						if o.BackupEntropy {
							agg -= alpha * float64(next.LogProb.F32()[i])
						}
						y[i] = b.Reward[i] + b.Discount[i]*float32(agg)
					}
					return meanSquare(estimates(t, a.critics.net, critic, b.Obs, b.Action), y) * float64(c.heads) / 2
				}
				found := 0
				for h := range c.heads {
					for k := range h {
						if got := metric(t, m, "sac/critic_loss") * float64(c.heads) / 2; math.Abs(got-loss(critic, h, k)) < 1e-6*got {
							found++
							pairs[fmt.Sprint(c.heads, h, k)] = true
							checkSlope(t, "critics", a.critics.net.Params().Grad, critic, func(critic []float32) float64 { return loss(critic, h, k) })
						}
					}
				}
				if found != 1 {
					t.Errorf("%d pairs of critics explain the loss %v", found, metric(t, m, "sac/critic_loss"))
				}
				var excess float64 // of the mean log-prob above minus the target entropy
				actorLoss := func(actor []float32) (mean float64) {
					act := acts(t, s.Policy, actor, b.Obs, policy.Sample, a.noiseOf(2*uint64(update)+1))
					q := estimates(t, a.critics.net, a.critics.net.Params().Data, b.Obs, act.Action)
					excess = -2
					for i, lp := range act.LogProb.F32() {
						least, sum := q[i], 0.0
						for h := range c.heads {
							least, sum = min(least, q[h*n+i]), sum+float64(q[h*n+i])
						}
						agg := float64(least)
						if o.AggQ == AggMean || o.ActorAggQ == AggMean {
							agg = sum / float64(c.heads)
						}
						mean += (alpha*float64(lp) - agg) / float64(n)
						excess += float64(lp) / float64(n)
					}
					return mean
				}
				near(t, "actor loss", metric(t, m, "sac/actor_loss"), actorLoss(actor), 1e-5)
				near(t, "slope of the temperature's loss", float64(a.temperature.train.params.Grad[0]), -slope*excess, 1e-5)
				near(t, "temperature's loss", metric(t, m, "sac/alpha_loss"), -a.temperature.alpha()*excess, 1e-5)
				checkSlope(t, "actor", s.Policy.Params().Grad, actor, actorLoss)
			}
		})
	}
	if len(pairs) < 1+3 {
		t.Errorf("the pairs of critics that count are %v", pairs)
	}
}

// TestSACAlpha: by hand, of 64 samples with a mean log π of -1.5 or 2.5 the loss -α (log π + target) of the target -2 has the slope 3.5 or -0.5 by α.
func TestSACAlpha(t *testing.T) {
	for _, c := range []struct {
		alphaType      string
		alpha, logProb float64
		slope          float64 // by the parameter
	}{
		{AlphaSoftplus, 1, -1.5, 3.5 * (1 - 1/math.E)}, // log(1 + eˣ) = 1 where eˣ = e - 1
		{AlphaSoftplus, 1, 2.5, -0.5 * (1 - 1/math.E)},
		{AlphaExp, 0.2, -1.5, 3.5 * 0.2},
		{AlphaExp, 0.2, 2.5, -0.5 * 0.2},
		{AlphaFixed, 0.2, 2.5, 0},
	} {
		s := sacSetup(t, func(s *Setup, _ *policy.Config) {
			s.Config.OffPolicy.EntropyTuning.AlphaType, s.Config.OffPolicy.EntropyTuning.InitialAlpha = c.alphaType, float32(c.alpha)
		})
		a, err := NewSAC(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.temperature.update(0, 64*c.logProb, 64, 1.0/64); err != nil {
			t.Fatal(err)
		}
		near(t, c.alphaType+": slope", float64(a.temperature.train.params.Grad[0]), c.slope, 1e-6)
		if moved := a.temperature.alpha() - c.alpha; math.Abs(moved) < 1e-7 != (c.slope == 0) || moved*c.slope > 0 {
			t.Errorf("%s: α moved by %v against a slope of %v", c.alphaType, moved, c.slope)
		}
	}
}

// checkGoal checks that the most likely actions lead from anywhere to ½, and stay within so much of it.
func checkGoal(t *testing.T, pol policy.Policy, within float64) {
	t.Helper()
	work := pol.NewWork(1)
	var obs tensor.Dict
	for _, from := range []float32{-1, -0.4, 0.2, 1} {
		x := from
		for range 8 {
			obs.Set("state", tensor.FromF32([]float32{x}, 1, 1))
			act, err := pol.Forward(work, obs, policy.Deterministic, policy.Noise{})
			if err != nil {
				t.Fatal(err)
			}
			x = moved(x, act.Action, 0)
		}
		if math.Abs(float64(x)-0.5) > within {
			t.Errorf("from %v the policy goes to %v, want ½", from, x)
		}
	}
}

// checkResumes checks that what was saved and loaded into another algorithm goes on with the same numbers; each makes one from the same setup.
func checkResumes(t *testing.T, setup func() Setup, each func(Setup) (Algorithm, error)) {
	t.Helper()
	s, again := setup(), setup()
	w := newTrack(s.Envs)
	a, err := each(s)
	if err != nil {
		t.Fatal(err)
	}
	runTrack(t, a, s, w, 0, 12)
	saved, err := a.Save()
	if err != nil {
		t.Fatal(err)
	}
	if saved, err = tensor.Decode(tensor.Encode(nil, saved)); err != nil {
		t.Fatal(err)
	}
	copy(again.Policy.Params().Data, s.Policy.Params().Data)
	again.Policy.Params().Buffers.CopyFrom(s.Policy.Params().Buffers)
	b, err := each(again)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Load(saved); err != nil {
		t.Fatal(err)
	}
	twin := &track{x: append([]float32(nil), w.x...), age: append([]int(nil), w.age...), drawn: w.drawn}
	want, got := runTrack(t, a, s, w, 12, 5), runTrack(t, b, again, twin, 12, 5)
	for i, name := range want.Names {
		if got.Values[i] != want.Values[i] {
			t.Errorf("%s: %v, undisturbed %v", name, got.Values[i], want.Values[i])
		}
	}
	if want.Values[0] == 0 {
		t.Error("nothing was learnt")
	}
}

// TestSACResumes: what was saved and loaded into another SAC goes on with the same numbers.
func TestSACResumes(t *testing.T) {
	checkResumes(t, func() Setup { return sacSetup(t) }, func(s Setup) (Algorithm, error) { return NewSAC(s) })
}

// TestSACWaits: before min_buffer_size iterations nothing is learnt.
func TestSACWaits(t *testing.T) {
	s := sacSetup(t)
	a, err := NewSAC(s)
	if err != nil {
		t.Fatal(err)
	}
	before := append([]float32(nil), s.Policy.Params().Data...)
	w := newTrack(s.Envs)
	if m := runTrack(t, a, s, w, 0, 3); !math.IsNaN(metric(t, m, "sac/critic_loss")) {
		t.Error("a loss before anything is learnt")
	}
	for i, x := range s.Policy.Params().Data {
		if x != before[i] {
			t.Fatal("the policy moved before min_buffer_size")
		}
	}
	if m := runTrack(t, a, s, w, 3, 1); math.IsNaN(metric(t, m, "sac/critic_loss")) {
		t.Error("no loss after min_buffer_size iterations")
	}
}

// TestActorWaits: before train_actor_steps iterations only the critics learn: neither the actor nor SAC's temperature.
func TestActorWaits(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(testing.TB, ...func(*Setup, *policy.Config)) Setup
		make  func(Setup) (Algorithm, error)
		loss  string
	}{
		"sac": {sacSetup, func(s Setup) (Algorithm, error) { return NewSAC(s) }, "sac/actor_loss"},
		"td3": {td3Setup, func(s Setup) (Algorithm, error) { return NewTD3(s) }, "td3/actor_loss"},
	} {
		s := c.setup(t, func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.TrainActorSteps = 7 })
		a, err := c.make(s)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(s.Policy.Params().Data)
		w := newTrack(s.Envs)
		for i := range 8 {
			m := runTrack(t, a, s, w, i, 1)
			if critic := !math.IsNaN(metric(t, m, "critic/q_data")); critic != (i >= 3) {
				t.Errorf("%s, iteration %d: the critics learn: %v", name, i+1, critic)
			}
			if actor, moved := !math.IsNaN(metric(t, m, c.loss)), !slices.Equal(s.Policy.Params().Data, before); actor != (i >= 6) || moved != actor {
				t.Errorf("%s, iteration %d: the actor learns: %v, its parameters moved: %v", name, i+1, actor, moved)
			}
			if saved, err := a.Save(); err != nil {
				t.Fatal(err)
			} else if x, ok := saved.Get("alpha.alpha"); ok && (x.F32()[0] != rawAlpha(s.Config.OffPolicy.EntropyTuning)) != (i >= 6) {
				t.Errorf("%s, iteration %d: the temperature's parameter is %v", name, i+1, x.F32()[0])
			}
		}
	}
}

// TestREDQSubset: each update draws anew which critics count in targets, each of five as often as the others, and no critic twice.
func TestREDQSubset(t *testing.T) {
	s := sacSetup(t, func(s *Setup, m *policy.Config) { m.NumQHeads, s.Config.OffPolicy.CriticSubsampleSize = 5, 2 })
	a, err := NewSAC(s)
	if err != nil {
		t.Fatal(err)
	}
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

func TestSACAllocatesLittle(t *testing.T) {
	s := sacSetup(t)
	a, err := NewSAC(s)
	if err != nil {
		t.Fatal(err)
	}
	runTrack(t, a, s, newTrack(s.Envs), 0, 5)
	if n := testing.AllocsPerRun(5, func() {
		if _, err := a.Update(tensor.Dict{}); err != nil {
			t.Fatal(err)
		}
	}); n > 3*8 { // those of Single's sums
		t.Errorf("%v allocations in 8 updates", n)
	}
}

func TestSACRefuses(t *testing.T) {
	for name, change := range map[string]func(*Setup){
		"a policy without critics of actions": func(s *Setup) { s.Policy = newLinear(1, 2) },
		"no window":                           func(s *Setup) { s.Config.OffPolicy.ReplayBuffer.SampleWindowSize = 0 },
		"more critics than there are":         func(s *Setup) { s.Config.OffPolicy.CriticSubsampleSize = 3 },
		"micro-batches that do not fit":       func(s *Setup) { s.MicroBatch = 48 },
		"no learning rate of the critics":     func(s *Setup) { s.CriticOptim.LR = 0 },
	} {
		s := sacSetup(t)
		change(&s)
		if _, err := NewSAC(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
