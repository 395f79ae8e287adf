package vla_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
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
			{Name: "image", Space: box(tensor.U8, 0, 255, 13, 12, 3)}, {Name: "wrist", Space: box(tensor.U8, 0, 255, 8, 8, 3)},
			{Name: "text", Space: box(tensor.U8, 0, 255, 32), Text: true}, {Name: "proprio", Space: box(tensor.F32, -9, 9, 3)},
		},
		Action: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{3}, Low: []float32{-1, -2, -1}, High: []float32{1, 2, 1}},
	}
}

// small is a policy of little width with two actions in a chunk.
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
	if err != nil {
		t.Fatal(err)
	}
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

// goals are numbers for a policy with foresight to guess, those of soon and of the end.
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

// variants are what the properties below hold for.
func variants() map[string]func(*policy.Config, *vla.Config) {
	return map[string]func(*policy.Config, *vla.Config){
		"tokens":        func(*policy.Config, *vla.Config) {},
		"chunk level":   func(c *policy.Config, _ *vla.Config) { c.LogProbType, c.ActionValues = "chunk_level", false },
		"temperature":   func(c *policy.Config, _ *vla.Config) { c.Temperature = 1.6 },
		"no gripper":    func(_ *policy.Config, o *vla.Config) { o.Gripper = false },
		"one by one":    func(_ *policy.Config, o *vla.Config) { o.ActionHead = vla.TokensAutoregressive },
		"flow":          func(_ *policy.Config, o *vla.Config) { o.ActionHead, o.NumSteps = vla.Flow, 3 },
		"imitated flow": func(_ *policy.Config, o *vla.Config) { o.ActionHead = vla.Flow },
		"l1":            func(_ *policy.Config, o *vla.Config) { o.ActionHead = vla.L1 },
		"film":          func(_ *policy.Config, o *vla.Config) { o.VisionFiLM, o.VisionGrid = true, 0 },
		"words":         func(_ *policy.Config, o *vla.Config) { o.VisionWords, o.VisionGrid = true, 0 },
		"film and words": func(_ *policy.Config, o *vla.Config) {
			o.VisionFiLM, o.VisionWords, o.VisionGrid, o.Keypoints = true, true, 0, 2
		},
		"foresight":     func(_ *policy.Config, o *vla.Config) { o.Foresight = 0.5 },
		"patches":       func(_ *policy.Config, o *vla.Config) { o.Vision = vla.Patches },
		"lora":          func(_ *policy.Config, o *vla.Config) { o.IsLoRA, o.LoRARank = true, 3 },
		"frozen":        func(_ *policy.Config, o *vla.Config) { o.FreezeTrunk, o.FreezeVision = true, true },
		"crop":          func(_ *policy.Config, o *vla.Config) { o.ImageCrop, o.Keypoints = 0.8, 0 },
		"linear critic": func(c *policy.Config, _ *vla.Config) { c.HiddenSizes = nil },
		"no critic":     func(c *policy.Config, _ *vla.Config) { c.AddValueHead = false },
	}
}

// Evaluate says of actions bit for bit what Forward said of them, in any batch, and so does Value.
func TestForwardIsEvaluate(t *testing.T) {
	for name, change := range variants() {
		if testing.Short() && name != "tokens" && name != "flow" {
			continue // the race detector looks on
		}
		cfg, own := small()
		change(&cfg, &own)
		p := newPolicy(t, cfg, own)
		const n = 37 // more than are computed at a time
		obs := observe(n, 0)
		act, err := p.Forward(p.NewWork(n), obs, policy.Sample, noise(n))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		obs = with(obs, act)
		for _, size := range []int{1, 5, n} {
			w := p.NewWork(size)
			for lo := 0; lo < n; lo += size {
				hi := min(lo+size, n)
				e, err := p.Evaluate(w, obs.Slice(lo, hi), act.Action.Slice(lo, hi))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if !slices.Equal(e.LogProb.F32(), act.LogProb.Slice(lo, hi).F32()) {
					t.Fatalf("%s: rows %d to %d: log-probs %v, Forward said %v", name, lo, hi, e.LogProb.F32(),
						act.LogProb.Slice(lo, hi).F32())
				}
				if !cfg.AddValueHead {
					continue
				}
				want := f32(act.Value.Slice(lo, hi).F32()...)
				v, err := p.Value(w, obs.Slice(lo, hi))
				if err != nil || !slices.Equal(e.Value.F32(), want) || !slices.Equal(v.F32(), want) {
					t.Fatalf("%s: rows %d to %d: values %v and %v, Forward said %v (%v)", name, lo, hi, e.Value.F32(), v.F32(), want,
						err)
				}
			}
		}
	}
}

// Gradients are central differences, along a random direction of each tensor.
func TestGradients(t *testing.T) {
	for name, change := range variants() {
		if testing.Short() && name != "tokens" && name != "flow" {
			continue // the race detector looks on
		}
		cfg, own := small()
		change(&cfg, &own)
		p := newPolicy(t, cfg, own)
		const n = 5
		obs, w := observe(n, 2), p.NewWork(n)
		act, err := p.Forward(w, obs, policy.Sample, noise(n))
		if err != nil {
			t.Fatal(err)
		}
		action := act.Action.Clone()
		if name != "imitated flow" {
			obs = with(obs, act)
		}
		if own.Foresight > 0 {
			obs.Set(policy.Goal, goals(n))
		}
		if own.ActionHead == vla.L1 { // away from the mean, where the error has a corner
			for i := range action.F32() {
				action.F32()[i] = 0.9 - 1.8*float32(i%2)
			}
		}
		eval := func() policy.Eval {
			e, err := p.Evaluate(w, obs, action)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		rng := rand.New(rand.NewPCG(4, 9))
		like := func(x tensor.Tensor) tensor.Tensor {
			if x.IsZero() {
				return x
			}
			d := tensor.New(tensor.F32, x.Shape()...)
			for i := range d.F32() {
				d.F32()[i] = float32(rng.NormFloat64())
			}
			return d
		}
		e := eval()
		g := policy.Grad{LogProb: like(e.LogProb), Entropy: like(e.Entropy), Value: like(e.Value)}
		loss := func() (sum float64) {
			e := eval()
			for _, x := range [][2]tensor.Tensor{{e.LogProb, g.LogProb}, {e.Entropy, g.Entropy}, {e.Value, g.Value}} {
				for i := range x[0].F32() {
					sum += float64(x[0].F32()[i]) * float64(x[1].F32()[i])
				}
			}
			return sum
		}
		params, end := p.Params(), len(p.Params().Data)
		if err := p.Backward(w, g, func(lo, hi int) {
			if hi != end {
				t.Errorf("%s: [%d,%d) is ready before what ends at %d", name, lo, hi, end)
			}
			end = lo
		}); err != nil {
			t.Fatal(err)
		}
		if end != 0 {
			t.Errorf("%s: [0,%d) is never ready", name, end)
		}
		checked := 0
		for i, f := range params.Fields {
			frozen := own.FreezeVision && strings.HasPrefix(f.Name, "vision")
			checked += f.Len()
			x, dx := params.Of(i), params.GradOf(i)
			if frozen {
				if !slices.Equal(dx, make([]float32, len(dx))) {
					t.Errorf("%s: %s is frozen and has a gradient", name, f.Name)
				}
				continue
			}
			at := slices.Clone(x)
			difference := func(direction []float32, h float32) float64 {
				move := func(by float32) float64 {
					for k := range x {
						x[k] = at[k] + by*direction[k]
					}
					return loss()
				}
				defer copy(x, at)
				return (move(h) - move(-h)) / float64(2*h)
			}
			direction, want, norm := make([]float32, len(x)), 0.0, 0.0
			for k := range x {
				direction[k] = float32(rng.NormFloat64())
				want += float64(direction[k]) * float64(dx[k])
				norm += float64(dx[k]) * float64(dx[k])
			}
			agree := func() (got float64, ok bool) {
				for _, h := range []float32{2e-3, 5e-4} {
					got = difference(direction, h)
					ok = ok || math.Abs(got-want) < 0.02*math.Abs(want)+0.01*math.Sqrt(norm)+0.02
				}
				return got, ok
			}
			got, ok := 0.0, false
			if strings.HasPrefix(f.Name, "vision") || own.ActionHead == vla.L1 {
				// Rectifiers have corners. A step along one element meets few: those with the largest derivatives, one after the other.
				order := make([]int, len(x))
				for k := range order {
					order[k] = k
				}
				slices.SortFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(float64(dx[b])), math.Abs(float64(dx[a]))) })
				for _, k := range order[:min(3, len(order))] {
					if !ok {
						clear(direction)
						direction[k], want = 1, float64(dx[k])
						got, ok = agree()
					}
				}
			} else {
				got, ok = agree()
			}
			if !ok {
				t.Errorf("%s: %s: derivative %g, by differences %g (norm %g)", name, f.Name, want, got, math.Sqrt(norm))
			}
		}
		if checked != params.Len() {
			t.Errorf("%s: %d parameters checked of %d", name, checked, params.Len())
		}
	}
}

// An action that is decoded from a bin is encoded as that bin, and any action is decoded within half a bin of where it was, in whatever
// units.
func TestEncodeDecode(t *testing.T) {
	cfg, own := small()
	own.ActionBins = 64
	cfg.NumActionChunks = 1
	for _, scale := range []float32{0.01, 0.37, 2} {
		p := newPolicy(t, cfg, own)
		demos := tensor.New(tensor.F32, 1001, 1, 3)
		for i := range 1001 {
			copy(demos.F32()[3*i:], []float32{scale * (float32(i)/500 - 1), 0.5, 1})
		}
		if err := p.Fit(observe(1001, 0), demos); err != nil {
			t.Fatal(err)
		}
		low, high := p.Params().Buffers.Must("action.low").F64(), p.Params().Buffers.Must("action.high").F64()
		if math.Abs(low[0]+0.98*float64(scale)) > 1e-6*float64(scale) || math.Abs(high[0]-0.98*float64(scale)) > 1e-6*float64(scale) {
			t.Errorf("range [%v, %v]: want ± the 99 %% quantile, %v", low[0], high[0], 0.98*scale)
		}
		if !(low[1] < 0.5 && high[1] > 0.5 && high[1]-low[1] < 0.01) || low[2] != -1 || high[2] != 1 {
			t.Errorf("ranges of what never moves, [%v, %v], and of the gripper, [%v, %v]", low[1], high[1], low[2], high[2])
		}
		w := p.NewWork(1)
		for i := range 500 { // what a policy says of a number is what it says of the middle of its bin
			obs := observe(1, 3)
			act, err := p.Forward(w, obs, policy.Sample, policy.Noise{Seed: 8, Env: []uint64{0}, Step: []uint64{uint64(i)}})
			if err != nil {
				t.Fatal(err)
			}
			chosen := f32(act.LogProb.F32()...)
			half := (high[0] - low[0]) / 128
			moved := tensor.New(tensor.F32, 1, 1, 3)
			for _, by := range []float64{-0.98, 0.98} {
				copy(moved.F32(), act.Action.F32())
				moved.F32()[0] += float32(by * half)
				e, err := p.Evaluate(w, obs, moved)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(e.LogProb.F32(), chosen) {
					t.Fatalf("scale %v: action %v, moved by %v of half a bin: log-probs %v, want %v", scale, act.Action.F32(), by,
						e.LogProb.F32(), chosen)
				}
			}
			moved.F32()[0] += float32(1.1 * half)
			if e, _ := p.Evaluate(w, obs, moved); e.LogProb.F32()[0] == chosen[0] && float64(moved.F32()[0]) < high[0] {
				t.Fatalf("scale %v: action %v lies in the bin of %v", scale, moved.F32(), act.Action.F32())
			}
		}
	}
}

// Nothing is allocated once every instruction has been read.
func TestNoAllocation(t *testing.T) {
	for _, head := range []string{vla.Tokens, vla.TokensAutoregressive, vla.L1, vla.Flow} {
		t.Run(head, func(t *testing.T) { noAllocation(t, head, func(*vla.Config) {}) })
	}
	t.Run("words that point", func(t *testing.T) {
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
		e, err := p.Evaluate(train, obs, action)
		if err != nil {
			t.Fatal(err)
		}
		if g.LogProb.IsZero() {
			g = policy.Grad{LogProb: tensor.New(tensor.F32, e.LogProb.Shape()...), Value: tensor.New(tensor.F32, e.Value.Shape()...)}
		}
		if err := p.Backward(train, g, nil); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(20, step); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Each input matters: another image, wrist image, instruction or number gives other log-probs.
func TestSenses(t *testing.T) {
	cfg, own := small()
	p := newPolicy(t, cfg, own)
	w, action := p.NewWork(4), tensor.New(tensor.F32, 4, 2, 3)
	say := func(obs tensor.Dict) []float32 {
		e, err := p.Evaluate(w, obs, action)
		if err != nil {
			t.Fatal(err)
		}
		return f32(e.LogProb.F32()...)
	}
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
		e, err := p.Evaluate(w, obs, action)
		if err != nil {
			t.Fatal(err)
		}
		return f32(e.LogProb.F32()...)
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
		if err != nil {
			t.Fatal(err)
		}
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

// A policy that makes no sense is refused, with the key or the observation.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*policy.Config, *vla.Config, *env.Spec){
		"action_head: flower: expected one of": func(_ *policy.Config, o *vla.Config, _ *env.Spec) { o.ActionHead = "flower" },
		"action_dim: 7: expected 3":            func(c *policy.Config, _ *vla.Config, _ *env.Spec) { c.ActionDim = 7 },
		"encoder: impala: expected none":       func(c *policy.Config, _ *vla.Config, _ *env.Spec) { c.Encoder = "impala" },
		"add_q_head: true":                     func(c *policy.Config, _ *vla.Config, _ *env.Spec) { c.AddQHead, c.AddValueHead = true, false },
		"num_attention_heads":                  func(_ *policy.Config, o *vla.Config, _ *env.Spec) { o.NumHeads = 3 },
		"expected more than vision_grid, 16":   func(_ *policy.Config, o *vla.Config, _ *env.Spec) { o.VisionGrid = 16 },
		"model_path: model configuration":      func(_ *policy.Config, o *vla.Config, _ *env.Spec) { *o = vla.Defaults(); o.ModelPath = "nowhere" },
		"dimension 1 is in": func(_ *policy.Config, _ *vla.Config, s *env.Spec) {
			s.Action.High = []float32{1, float32(math.Inf(1)), 1}
		},
		"no text is observed":  func(_ *policy.Config, o *vla.Config, s *env.Spec) { o.VisionWords, s.Obs = true, s.Obs[:2] },
		"no image is observed": func(_ *policy.Config, o *vla.Config, s *env.Spec) { o.VisionWords, s.Obs = true, s.Obs[2:] },
		"expected false, or vision_keypoints > 0": func(_ *policy.Config, o *vla.Config, _ *env.Spec) {
			o.VisionWords, o.VisionFiLM, o.Keypoints = true, true, 0
		},
		"vision_film: there are no features": func(_ *policy.Config, o *vla.Config, _ *env.Spec) {
			o.Vision, o.VisionFiLM, o.Keypoints = vla.Patches, true, 0
		},
		`observation "image": not used by the policy`:                func(_ *policy.Config, o *vla.Config, _ *env.Spec) { o.VisionGrid, o.Keypoints = 0, 0 },
		"rollout.sampling_params.temperature_train: 0.5: expected 1": func(c *policy.Config, o *vla.Config, _ *env.Spec) { c.Temperature, o.ActionHead = 0.5, vla.Flow },
		"rollout.sampling_params.temperature_eval: 1: expected 0":    func(c *policy.Config, o *vla.Config, _ *env.Spec) { c.EvalTemperature, o.ActionHead = 1, vla.L1 },
		"no image and no numbers":                                    func(_ *policy.Config, _ *vla.Config, s *env.Spec) { s.Obs = s.Obs[2:3] },
	} {
		cfg, own := small()
		s := spec()
		change(&cfg, &own, &s)
		r := policy.Registry{}
		policy.Register(&r, "vla_policy", own, vla.New)
		_, err := r.New(cfg, s, 1, tensor.Heap)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q", err, want)
		}
	}
	cfg, own := small()
	own.MaxPrompt = 3
	p := newPolicy(t, cfg, own)
	_, err := p.Forward(p.NewWork(1), observe(1, 0), policy.Sample, noise(1))
	if err == nil || !strings.Contains(err.Error(), `row 0: "reach the red cube" has 4 tokens: expected at most 3`) {
		t.Errorf("a long instruction: %v", err)
	}
}

// The list of policies has this one, with its keys.
func TestRegistry(t *testing.T) {
	if !all.Registry().Own("vla_policy").Has("action_head") {
		t.Error("no key action_head of vla_policy")
	}
}
