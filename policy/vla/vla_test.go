package vla_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/tensor"
)

func box(dtype tensor.DType, low, high float32, shape ...int) env.Space {
	s := env.Space{Kind: env.Box, DType: dtype, Shape: shape}
	for range s.Dim() {
		s.Low, s.High = append(s.Low, low), append(s.High, high)
	}
	return s
}

// spec has two cameras, an instruction, numbers and an action of two dimensions and a gripper.
func spec() env.Spec {
	return env.Spec{
		Name: "Fake-v0",
		Obs: []env.Field{
			{Name: "image", Space: box(tensor.U8, 0, 255, 13, 12, 3)},
			{Name: "wrist", Space: box(tensor.U8, 0, 255, 8, 8, 3)},
			{Name: "text", Space: box(tensor.U8, 0, 255, 32), Text: true},
			{Name: "proprio", Space: box(tensor.F32, -9, 9, 3)},
		},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}, Low: []float32{-1, -2, -1},
			High: []float32{1, 2, 1}},
	}
}

// small is a narrow policy with two actions in a chunk.
func small() (policy.Config, vla.Config) {
	cfg, own := policy.DefaultConfig(), vla.Defaults()
	cfg.ModelType, cfg.NumActionChunks, cfg.HiddenSizes = "vla_policy", 2, []int{8}
	cfg.LogProbType, cfg.ActionValues = "token_level", true
	own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads = 16, 24, 2, 2
	own.VisionGrid, own.VisionWidth, own.ActionBins, own.Keypoints = 2, 4, 5, 2
	return cfg, own
}

func newPolicy(t testing.TB, cfg policy.Config, own vla.Config) *vla.Policy {
	t.Helper()
	p, err := vla.New(cfg, own, spec(), 1, tensor.Heap)
	test.OK(t, err)
	rng := rand.New(rand.NewPCG(1, 2)) // no parameter is left at 0
	for i := range p.Params().Fields {
		for k := range p.Params().Of(i) {
			p.Params().Of(i)[k] += float32(0.1 * rng.NormFloat64())
		}
	}
	return p.(*vla.Policy)
}

var sentences = []string{"reach the red cube", "push the blue ball to the left.", "", "stack it"}

func observe(n int, seed uint64) tensor.Dict {
	rng := rand.New(rand.NewPCG(seed, 5))
	var obs tensor.Dict
	for _, f := range spec().Obs {
		t := tensor.New(f.DType, append([]int{n}, f.Shape...)...)
		switch {
		case f.Name == "text":
			for i := range n {
				copy(t.U8()[32*i:], sentences[(i+int(seed))%len(sentences)])
			}
		case f.DType == tensor.U8:
			for i := range t.U8() {
				t.U8()[i] = uint8(rng.IntN(256))
			}
		default:
			for i := range t.F32() {
				t.F32()[i] = float32(rng.NormFloat64())
			}
		}
		obs.Set(f.Name, t)
	}
	return obs
}

// goals are targets of the auxiliary prediction: the numbers some steps ahead, and those at the end.
func goals(n int) tensor.Tensor {
	t := tensor.New(tensor.F32, n, 2*3)
	for i := range t.F32() {
		t.F32()[i] = float32(i%7) - 2.5
	}
	return t
}

func noise(n int) policy.Noise {
	x := policy.Noise{Seed: 3}
	for i := range n {
		x.Env, x.Step = append(x.Env, uint64(i)), append(x.Step, uint64(7*i))
	}
	return x
}

// with adds the chains behind actions to their observations.
func with(obs tensor.Dict, act policy.Act) tensor.Dict {
	if !act.Latent.IsZero() {
		obs.Set(policy.Latent, act.Latent.Clone())
	}
	return obs
}

func f32(x ...float32) []float32 { return slices.Clone(x) }

// sample draws actions for n rows. It returns their observations, with the chains behind the
// actions.
func sample(t *testing.T, p *vla.Policy, n int, seed uint64) (obs tensor.Dict, act policy.Act) {
	t.Helper()
	obs = observe(n, seed)
	act, err := p.Forward(p.NewWork(n), obs, policy.Sample, noise(n))
	test.OK(t, err)
	return with(obs, act), act
}

func evaluate(t *testing.T, p *vla.Policy, w policy.Work, obs tensor.Dict, action tensor.Tensor) policy.Eval {
	t.Helper()
	e, err := p.Evaluate(w, obs, action)
	test.OK(t, err)
	return e
}

// logProbs returns a copy of the log-probs of action.
func logProbs(t *testing.T, p *vla.Policy, w policy.Work, obs tensor.Dict, action tensor.Tensor) []float32 {
	t.Helper()
	return slices.Clone(evaluate(t, p, w, obs, action).LogProb.F32())
}

type change func(*policy.Config, *vla.Config)

// onVariants runs test for every kind of policy; with -short, under the race detector, for two.
func onVariants(t *testing.T, test func(t *testing.T, cfg policy.Config, own vla.Config)) {
	for name, c := range map[string]change{
		"tokens":         func(*policy.Config, *vla.Config) {},
		"flow":           func(_ *policy.Config, o *vla.Config) { o.ActionHead, o.NumSteps = vla.Flow, 3 },
		"autoregressive": func(_ *policy.Config, o *vla.Config) { o.ActionHead = vla.TokensAutoregressive },
		"l1":             func(_ *policy.Config, o *vla.Config) { o.ActionHead = vla.L1 },
		"chunk level": func(c *policy.Config, _ *vla.Config) {
			c.LogProbType, c.ActionValues = "chunk_level", false
		},
		"temperature": func(c *policy.Config, _ *vla.Config) { c.Temperature = 1.6 },
		"no gripper":  func(_ *policy.Config, o *vla.Config) { o.Gripper = false },
		"film":        func(_ *policy.Config, o *vla.Config) { o.VisionFiLM, o.VisionGrid = true, 0 },
		"words":       func(_ *policy.Config, o *vla.Config) { o.VisionWords, o.VisionGrid = true, 0 },
		"film and words": func(_ *policy.Config, o *vla.Config) {
			o.VisionFiLM, o.VisionWords, o.VisionGrid, o.Keypoints = true, true, 0, 2
		},
		"auxiliary":     func(_ *policy.Config, o *vla.Config) { o.Foresight = 0.5 },
		"patches":       func(_ *policy.Config, o *vla.Config) { o.Vision = vla.Patches },
		"lora":          func(_ *policy.Config, o *vla.Config) { o.IsLoRA, o.LoRARank = true, 3 },
		"frozen":        func(_ *policy.Config, o *vla.Config) { o.FreezeTrunk, o.FreezeVision = true, true },
		"crop":          func(_ *policy.Config, o *vla.Config) { o.ImageCrop, o.Keypoints = 0.8, 0 },
		"linear critic": func(c *policy.Config, _ *vla.Config) { c.HiddenSizes = nil },
		"no critic":     func(c *policy.Config, _ *vla.Config) { c.AddValueHead = false },
	} {
		if testing.Short() && name != "tokens" && name != "flow" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg, own := small()
			c(&cfg, &own)
			test(t, cfg, own)
		})
	}
}

// Evaluate and Value return bit for bit what Forward returned, in any batch.
func TestForwardIsEvaluate(t *testing.T) {
	onVariants(t, func(t *testing.T, cfg policy.Config, own vla.Config) {
		p := newPolicy(t, cfg, own)
		const n = 37 // more than are computed at a time
		obs, act := sample(t, p, n, 0)
		for _, size := range []int{1, 5, n} {
			w := p.NewWork(size)
			for lo := 0; lo < n; lo += size {
				hi := min(lo+size, n)
				e := evaluate(t, p, w, obs.Slice(lo, hi), act.Action.Slice(lo, hi))
				equal(t, "log-probs", e.LogProb, act.LogProb.Slice(lo, hi))
				if !cfg.AddValueHead {
					continue
				}
				equal(t, "values of Evaluate", e.Value, act.Value.Slice(lo, hi))
				v, err := p.Value(w, obs.Slice(lo, hi))
				test.OK(t, err)
				equal(t, "values", v, act.Value.Slice(lo, hi))
			}
		}
	})
}

// An action depends on its own observation and noise, in any batch.
func TestForwardRowByRow(t *testing.T) {
	onVariants(t, func(t *testing.T, cfg policy.Config, own vla.Config) {
		p := newPolicy(t, cfg, own)
		const n = 37
		obs, act := sample(t, p, n, 0)
		w, x := p.NewWork(1), noise(n)
		for i := range n {
			one, err := p.Forward(w, obs.Slice(i, i+1), policy.Sample, policy.Noise{Seed: x.Seed, Env: x.Env[i : i+1],
				Step: x.Step[i : i+1]})
			test.OK(t, err)
			equal(t, "actions of one row", one.Action, act.Action.Slice(i, i+1))
		}
	})
}

func equal(t *testing.T, what string, got, want tensor.Tensor) {
	t.Helper()
	if !slices.Equal(got.F32(), want.F32()) {
		t.Fatalf("%s %v, Forward said %v", what, got.F32(), want.F32())
	}
}

// TestBlank: a blank policy has no initial weights, and computes like the policy whose parameters it gets.
func TestBlank(t *testing.T) {
	cfg, own := small()
	p := newPolicy(t, cfg, own)
	cfg.Blank = true
	blank, err := vla.New(cfg, own, spec(), 1, tensor.Heap)
	test.OK(t, err)
	if slices.ContainsFunc(blank.Params().Data, func(x float32) bool { return x != 0 }) {
		t.Error("there are weights")
	}
	copy(blank.Params().State(), p.Params().State())
	obs := observe(3, 1)
	want, err := p.Value(p.NewWork(3), obs)
	got, err2 := blank.Value(blank.NewWork(3), obs)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	equal(t, "values of the blank policy", got, want)
}

func TestFit(t *testing.T) {
	cfg, own := small()
	cfg.NumActionChunks = 1
	for _, scale := range []float32{0.01, 0.37, 2} {
		p := newPolicy(t, cfg, own)
		low, high := fitActions(t, p, scale)
		within := 1e-6 * float64(scale)
		if math.Abs(low[0]+0.98*float64(scale)) > within || math.Abs(high[0]-0.98*float64(scale)) > within {
			t.Errorf("range [%v, %v]: want ± the 99 %% quantile, %v", low[0], high[0], 0.98*scale)
		}
		if !(low[1] < 0.5 && high[1] > 0.5 && high[1]-low[1] < 0.01) {
			t.Errorf("range of a dimension that is always 0.5: [%v, %v]", low[1], high[1])
		}
		if low[2] != -1 || high[2] != 1 {
			t.Errorf("range of the gripper: [%v, %v]", low[2], high[2])
		}
	}
}

// fitActions lets p learn the ranges of demonstrations in which the first dimension goes from -scale to scale.
func fitActions(t *testing.T, p *vla.Policy, scale float32) (low, high []float64) {
	t.Helper()
	demos := tensor.New(tensor.F32, 1001, 1, 3)
	for i := range 1001 {
		copy(demos.F32()[3*i:], []float32{scale * (float32(i)/500 - 1), 0.5, 1})
	}
	test.OK(t, p.Fit(observe(1001, 0), demos))
	return p.Params().Buffers.Must("action.low").F64(), p.Params().Buffers.Must("action.high").F64()
}

// All numbers of a bin have the log-prob of its middle, in whatever units; the next bin has another.
func TestEncodeDecode(t *testing.T) {
	cfg, own := small()
	own.ActionBins = 64
	cfg.NumActionChunks = 1
	for _, scale := range []float32{0.01, 0.37, 2} {
		p := newPolicy(t, cfg, own)
		low, high := fitActions(t, p, scale)
		half := (high[0] - low[0]) / 128
		w, obs, moved := p.NewWork(1), observe(1, 3), tensor.New(tensor.F32, 1, 1, 3)
		for i := range 500 {
			x := policy.Noise{Seed: 8, Env: []uint64{0}, Step: []uint64{uint64(i)}}
			act, err := p.Forward(w, obs, policy.Sample, x)
			test.OK(t, err)
			action, chosen := f32(act.Action.F32()...), f32(act.LogProb.F32()...)
			at := func(by float64) []float32 {
				copy(moved.F32(), action)
				moved.F32()[0] += float32(by * half)
				return logProbs(t, p, w, obs, moved)
			}
			for _, by := range []float64{-0.98, 0.98} {
				if got := at(by); !slices.Equal(got, chosen) {
					t.Fatalf("scale %v: action %v, moved by %v of half a bin: log-probs %v, want %v", scale, action, by,
						got, chosen)
				}
			}
			if got := at(1.1); got[0] == chosen[0] && float64(moved.F32()[0]) < high[0] {
				t.Fatalf("scale %v: action %v lies in the bin of %v", scale, moved.F32(), action)
			}
		}
	}
}

// Once every instruction was read, nothing is allocated.
func TestNoAllocation(t *testing.T) {
	for _, head := range []string{vla.Tokens, vla.TokensAutoregressive, vla.L1, vla.Flow} {
		t.Run(head, func(t *testing.T) { noAllocation(t, head, func(*vla.Config) {}) })
	}
	t.Run("word-conditioned attention", func(t *testing.T) {
		noAllocation(t, vla.Tokens, func(o *vla.Config) { o.VisionWords, o.VisionFiLM, o.Foresight = true, true, 10 })
	})
}

func noAllocation(t *testing.T, head string, change func(*vla.Config)) {
	cfg, own := small()
	own.ImageCrop, own.ActionHead = 0.8, head
	change(&own)
	p := newPolicy(t, cfg, own)
	obs, x := observe(6, 0), noise(6)
	if own.Foresight > 0 {
		obs.Set(policy.Goal, goals(6))
	}
	w, train := p.NewWork(6), p.NewWork(6)
	action := tensor.New(tensor.F32, 6, 2, 3)
	var g policy.Grad
	step := func() {
		if _, err := p.Forward(w, obs, policy.Sample, x); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Value(w, obs); err != nil {
			t.Fatal(err)
		}
		p.Augment(train, x)
		e := evaluate(t, p, train, obs, action)
		if g.LogProb.IsZero() {
			g.LogProb = tensor.New(tensor.F32, e.LogProb.Shape()...)
			g.Value = tensor.New(tensor.F32, e.Value.Shape()...)
		}
		test.OK(t, p.Backward(train, g, nil))
	}
	step()
	test.NoAllocs(t, 20, step)
}

// Each input matters: another image, wrist image, instruction or number gives other log-probs.
func TestSenses(t *testing.T) {
	cfg, own := small()
	p := newPolicy(t, cfg, own)
	w, action := p.NewWork(4), tensor.New(tensor.F32, 4, 2, 3)
	say := func(obs tensor.Dict) []float32 { return logProbs(t, p, w, obs, action) }
	want := say(observe(4, 0))
	for _, f := range spec().Obs {
		obs := observe(4, 0)
		other, _ := observe(4, 1).Get(f.Name)
		obs.Set(f.Name, other)
		if slices.Equal(say(obs), want) {
			t.Errorf("another %s changes nothing", f.Name)
		}
	}
	obs := observe(4, 0)
	obs.Must("text").U8()[31] = 'x' // behind the end of the sentence
	if !slices.Equal(say(obs), want) {
		t.Error("bytes behind the end of a sentence count")
	}
}

// Evaluation crops the middle, imitation any part: the same for the same noise.
func TestCrop(t *testing.T) {
	cfg, own := small()
	own.ImageCrop = 0.6
	p := newPolicy(t, cfg, own)
	w, action, obs := p.NewWork(4), tensor.New(tensor.F32, 4, 2, 3), observe(4, 0)
	say := func(noise policy.Noise) []float32 {
		p.Augment(w, noise)
		return logProbs(t, p, w, obs, action)
	}
	middle, one := say(policy.Noise{}), say(noise(4))
	if slices.Equal(middle, one) || !slices.Equal(one, say(noise(4))) || !slices.Equal(middle, say(policy.Noise{})) {
		t.Error("random parts are not named by their noise, or are the middle")
	}
	image := obs.Must("image").U8() // 13 rows, of which 10 are seen from the second on
	for i := range 4 {
		clear(image[i*13*12*3 : i*13*12*3+12*3])
	}
	if !slices.Equal(middle, say(policy.Noise{})) {
		t.Error("the edge of the image is seen in evaluation")
	}
}

// At temperature 0 evaluation takes the likeliest token; else it draws by numbered noise.
func TestTemperature(t *testing.T) {
	cfg, own := small()
	actions := func(cfg policy.Config, x policy.Noise) []float32 {
		p := newPolicy(t, cfg, own)
		act, err := p.Forward(p.NewWork(9), observe(9, 0), policy.Deterministic, x)
		test.OK(t, err)
		return f32(act.Action.F32()...)
	}
	greedy := actions(cfg, policy.Noise{})
	cfg.EvalTemperature = 1
	drawn := actions(cfg, noise(9))
	if slices.Equal(greedy, drawn) || !slices.Equal(drawn, actions(cfg, noise(9))) {
		t.Error("evaluation at temperature 1 is greedy, or is not named by its noise")
	}
	cfg.EvalTemperature = 1e-4
	if !slices.Equal(greedy, actions(cfg, noise(9))) {
		t.Error("evaluation at a temperature near 0 is not greedy")
	}
	p := newPolicy(t, cfg, own)
	if _, err := p.Forward(p.NewWork(9), observe(9, 0), policy.Deterministic, policy.Noise{}); err == nil {
		t.Error("actions were drawn without noise")
	}
}

// A wrong configuration gives an error that names the key or the observation.
func TestRefused(t *testing.T) {
	type config struct {
		policy.Config
		own  vla.Config
		spec env.Spec
	}
	for want, change := range map[string]func(c *config){
		"action_head: flower: expected one of": func(c *config) { c.own.ActionHead = "flower" },
		"action_dim: 7, but an action has 3":   func(c *config) { c.ActionDim = 7 },
		"encoder: impala: expected none":       func(c *config) { c.Encoder = "impala" },
		"add_q_head: true":                     func(c *config) { c.AddQHead, c.AddValueHead = true, false },
		"num_attention_heads":                  func(c *config) { c.own.NumHeads = 3 },
		"expected more than vision_grid, 16":   func(c *config) { c.own.VisionGrid = 16 },
		"model_path: model configuration":      func(c *config) { c.own = vla.Defaults(); c.own.ModelPath = "nowhere" },
		"dimension 1 is in": func(c *config) {
			c.spec.Action.High = []float32{1, float32(math.Inf(1)), 1}
		},
		"no text is observed":  func(c *config) { c.own.VisionWords, c.spec.Obs = true, c.spec.Obs[:2] },
		"no image is observed": func(c *config) { c.own.VisionWords, c.spec.Obs = true, c.spec.Obs[2:] },
		"expected false, or vision_keypoints > 0": func(c *config) {
			c.own.VisionWords, c.own.VisionFiLM, c.own.Keypoints = true, true, 0
		},
		"vision_film: there are no features": func(c *config) {
			c.own.Vision, c.own.VisionFiLM, c.own.Keypoints = vla.Patches, true, 0
		},
		`observation "image": not used by the policy`: func(c *config) { c.own.VisionGrid, c.own.Keypoints = 0, 0 },
		"rollout.sampling_params.temperature_train: 0.5: expected 1": func(c *config) {
			c.Temperature, c.own.ActionHead = 0.5, vla.Flow
		},
		"rollout.sampling_params.temperature_eval: 1: expected 0": func(c *config) {
			c.EvalTemperature, c.own.ActionHead = 1, vla.L1
		},
		"no image and no numbers": func(c *config) { c.spec.Obs = c.spec.Obs[2:3] },
	} {
		cfg, own := small()
		c := config{cfg, own, spec()}
		change(&c)
		r := policy.Registry{}
		policy.Register(&r, "vla_policy", c.own, vla.New)
		_, err := r.New(c.Config, c.spec, 1, tensor.Heap)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q", err, want)
		}
	}
}

func TestLongInstructionRefused(t *testing.T) {
	cfg, own := small()
	own.MaxPrompt = 3
	p := newPolicy(t, cfg, own)
	_, err := p.Forward(p.NewWork(1), observe(1, 0), policy.Sample, noise(1))
	if err == nil || !strings.Contains(err.Error(), `row 0: "reach the red cube" has 4 tokens: expected at most 3`) {
		t.Errorf("a long instruction: %v", err)
	}
}

// The list of policies has vla_policy, with its keys.
func TestRegistry(t *testing.T) {
	if !all.Registry().Own("vla_policy").Has("action_head") {
		t.Error("no key action_head of vla_policy")
	}
}
