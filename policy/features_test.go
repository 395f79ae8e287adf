package policy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// seeingActor returns a SoftActor that sees two images, a vector and words.
func seeingActor(t testing.TB, change func(*Config)) *SoftActor {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ModelType, cfg.Encoder, cfg.HiddenSizes = "cnn_policy", ImpalaCNN, []int{8}
	cfg.AddQHead, cfg.AddValueHead, cfg.LayerNorm = true, false, true
	change(&cfg)
	spec := env.Spec{Name: "Test-v0", Action: boxSpec().Action, Obs: []env.Field{vector("state", 4),
		image("front", 2, 9, 8, 1), words("text", 3), image("top", 8, 8, 3)}}
	if cfg.Encoder == NatureCNN {
		spec.Obs[1], spec.Obs[3] = image("front", 2, 36, 38, 1), image("top", 36, 36, 3)
	}
	p := must[Policy](t)(Builtin().New(cfg, spec, 9, tensor.Heap)).(*SoftActor)
	randomizeParams(p.Params())
	return p
}

// randomizeParams adds noise to all parameters, so that no output is small by initialisation.
func randomizeParams(params *nn.Params[float32]) {
	for i, f := range params.Fields {
		noise := random(f.Len(), uint64(i))
		for j, v := range noise {
			params.Of(i)[j] += float32(0.1 * v / math.Sqrt(float64(max(1, f.Len()/256))))
		}
	}
}

// TestFeatures: actions from observations are those from the features of these observations, in any batch.
func TestFeatures(t *testing.T) {
	const rows = 5
	for _, encoder := range []string{NatureCNN, ImpalaCNN, Keypoints} {
		p := seeingActor(t, func(c *Config) { c.Encoder = encoder })
		obs := fieldsOf(p.obs.fields, rows)
		work := p.NewWork(rows)
		act := must[Act](t)(p.Forward(work, obs, Sample, testNoise(rows)))
		e := p.Encoder()
		f := make([]float32, rows*e.Width())
		if n := test.Must(e.Encode(e.NewWork(rows, 2), f, obs))(t); n != rows {
			t.Errorf("%d rows of features, want %d", n, rows)
		}
		var features tensor.Dict
		features.Set(Features, tensor.FromF32(f, rows, e.Width()))
		again := must[Act](t)(p.Forward(p.NewFeatureWork(rows), features, Sample, testNoise(rows)))
		test.EqualSlices(t, again.Action.F32(), act.Action.F32())
		noise := testNoise(rows)
		test.NoAllocs(t, 3, func() { p.Forward(work, obs, Sample, noise) }, encoder)
		if _, err := p.Forward(p.NewFeatureWork(rows), obs, Deterministic, Noise{}); err == nil {
			t.Error("a work for features takes observations")
		}
	}
}

// TestFeatureGradients: the gradient of a loss of actions, of log-probs and of critics' estimates, by the parameters of
// the network and of its encoder, by differences in float32.
func TestFeatureGradients(t *testing.T) {
	t.Parallel()
	const rows = 3
	p := seeingActor(t, func(c *Config) { c.Encoder = Keypoints })
	obs, noise := fieldsOf(p.obs.fields, rows), testNoise(rows)
	w := p.NewWork(rows)
	critic := must[*Critic](t)(p.NewCritic(3, tensor.Heap))
	randomizeParams(critic.Params())
	criticWork := critic.NewWork(rows)
	e := p.Encoder()
	encoderWork := e.NewWork(rows, rows)
	f := make([]float32, rows*e.Width())
	var features tensor.Dict
	features.Set(Features, tensor.FromF32(f, rows, e.Width()))
	actions := must[Act](t)(p.Forward(w, obs, Sample, noise)).Action.Clone()
	d := func(shape ...int) tensor.Tensor {
		x := tensor.New(tensor.F32, shape...)
		for i, v := range random(x.Len(), 7) {
			x.F32()[i] = float32(v)
		}
		return x
	}
	weighted := func(x, d tensor.Tensor) (sum float64) {
		for i, v := range x.F32() {
			sum += float64(v) * float64(d.F32()[i])
		}
		return sum
	}
	dAction, dLogProb, dQ := d(rows, 1, 2), d(rows, 1), d(2, rows)
	dFeatures := make([]float32, len(f))
	for _, c := range []struct {
		name     string
		params   []*nn.Params[float32]
		loss     func() float64
		backward func(ready func(lo, hi int))
	}{
		{"actions", []*nn.Params[float32]{p.Params()}, func() float64 {
			act := must[Act](t)(p.Forward(w, obs, Sample, noise))
			return weighted(act.Action, dAction) + weighted(act.LogProb, dLogProb)
		}, func(ready func(lo, hi int)) {
			test.OK(t, p.Backward(w, Grad{Action: dAction, LogProb: dLogProb}, ready))
		}},
		{"log-probs", []*nn.Params[float32]{p.Params()}, func() float64 {
			return weighted(must[Eval](t)(p.Evaluate(w, obs, actions)).LogProb, dLogProb)
		}, func(ready func(lo, hi int)) { test.OK(t, p.Backward(w, Grad{LogProb: dLogProb}, ready)) }},
		{"estimates", []*nn.Params[float32]{critic.Params(), p.Params()}, func() float64 {
			test.Must(e.Encode(encoderWork, f, obs))(t)
			return weighted(must[tensor.Tensor](t)(critic.Q(criticWork, features, actions)), dQ)
		}, func(ready func(lo, hi int)) {
			critic.Backward(criticWork, dQ, dFeatures, nil)
			e.Backward(encoderWork, dFeatures, nil)
		}},
	} {
		for _, params := range c.params {
			clear(params.Grad)
		}
		c.loss()
		end := len(p.Params().Grad)
		c.backward(func(lo, hi int) {
			if hi != end {
				t.Errorf("%s: ready [%d,%d), want one that ends at %d", c.name, lo, hi, end)
			}
			end = lo
		})
		if end != 0 && c.name != "estimates" {
			t.Errorf("%s: ready ranges end at %d, want 0", c.name, end)
		}
		for k, params := range c.params {
			for i, field := range params.Fields {
				if k == 1 && strings.HasPrefix(field.Name, "actor.") {
					continue
				}
				checkSlope(t, c.name+": "+field.Name, params.Of(i), params.GradOf(i), c.loss)
			}
		}
	}
}

// checkSlope checks that the loss grows along its gradient by the gradient's square.
func checkSlope(t *testing.T, name string, x, grad []float32, loss func() float64) {
	t.Helper()
	var square float64
	for _, g := range grad {
		square += float64(g) * float64(g)
	}
	if square == 0 {
		t.Errorf("%s: no gradient", name)
		return
	}
	norm := math.Sqrt(square)
	h, before := min(5e-3, 5e-3/norm)/norm, slices.Clone(x)
	at := func(by float64) float64 {
		for k, g := range grad {
			x[k] = before[k] + float32(by*float64(g))
		}
		return loss()
	}
	slope := (at(h) - at(-h)) / (2 * h)
	copy(x, before)
	if square < 1e-10 && math.Abs(slope) < 1e-6 { // a bias that a softmax over places takes away
		return
	}
	if !(math.Abs(slope-square) < 0.05*square) {
		t.Errorf("%s: slope %v along a gradient of square %v", name, slope, square)
	}
}

// TestImageNum: two of three extra views beside the main image give the features of three images, also stacked.
func TestImageNum(t *testing.T) {
	t.Parallel()
	const rows, pixels = 3, 6 * 5 * 3
	cfg := DefaultConfig()
	cfg.ModelType, cfg.Encoder, cfg.AddQHead, cfg.AddValueHead = "cnn_policy", Keypoints, true, false
	for _, frames := range []int{1, 2} {
		stack := func(shape ...int) []int {
			if frames > 1 {
				return append([]int{frames}, shape...)
			}
			return shape
		}
		apart := env.Spec{Action: boxSpec().Action, Obs: []env.Field{image("main_images", stack(6, 5, 3)...),
			image("a", stack(6, 5, 3)...), image("b", stack(6, 5, 3)...)}}
		joint := env.Spec{Action: apart.Action, Obs: []env.Field{image("extra_view_images", stack(3, 6, 5, 3)...),
			apart.Obs[0]}}
		obs := fieldsOf(apart.Obs, rows)
		views := tensor.New(tensor.U8, append([]int{rows}, joint.Obs[0].Shape...)...)
		for i := range rows * frames {
			for v, name := range []string{"a", "b"} {
				copy(views.U8()[(3*i+v)*pixels:], obs.Must(name).U8()[i*pixels:(i+1)*pixels])
			}
		}
		obs.Set("extra_view_images", views)
		var want []float32
		for num, spec := range map[int]env.Spec{0: apart, 3: joint} {
			cfg.ImageNum = num
			e := must[Policy](t)(Builtin().New(cfg, spec, 9, tensor.Heap)).(*SoftActor).Encoder()
			f := make([]float32, rows*e.Width())
			test.Must(e.Encode(e.NewWork(rows, 2), f, obs))(t)
			if want == nil {
				want = f
			}
			test.EqualSlices(t, f, want)
		}
	}
}

// TestImageKeys: the keys of images are checked against the observations.
func TestImageKeys(t *testing.T) {
	t.Parallel()
	spec := env.Spec{Name: "Test-v0", Action: boxSpec().Action, Obs: []env.Field{image("main_images", 36, 40, 3),
		image("extra_view_images", 2, 36, 40, 3), vector("states", 7)}}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.ImageNum = 4 }, "image_num: 4, but the observations have 3 images to count"},
		{func(c *Config) { c.ImageSize = []int{3, 40, 36} }, `image_size: [3 40 36], but observation "main_images" ` +
			"has images of [3 36 40]"},
		{func(c *Config) { c.ImageSize = []int{3, 40} }, "image_size: [3 40]: expected [channels, height, width]"},
		{func(c *Config) { c.StateDim = 8 }, "state_dim: 8, but the observations have 7 numbers"},
		{func(c *Config) { c.LayerNorm, c.QHeadType = true, QHeadCrossQ }, "layer_norm: true: expected false"},
	} {
		cfg := DefaultConfig()
		cfg.ModelType, cfg.AddQHead, cfg.AddValueHead, cfg.ImageNum = "cnn_policy", true, false, 3
		c.change(&cfg)
		_, err := Builtin().New(cfg, spec, 1, tensor.Heap)
		test.Fails(t, err, c.want)
	}
	cfg := DefaultConfig()
	cfg.ModelType, cfg.AddQHead, cfg.AddValueHead, cfg.LayerNorm = "cnn_policy", true, false, true
	spec.Action = discrete
	_, err := Builtin().New(cfg, spec, 1, tensor.Heap)
	test.Fails(t, err, "layer_norm: true, but actions are discrete")
}
