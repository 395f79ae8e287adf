package policy

import (
	"math"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
	"github.com/rlinf/rlinf/tensor"
)

func image(name string, shape ...int) env.Field {
	return env.Field{Name: name, Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: shape}}
}

// words are some choices, each from 0 to 3.
func words(name string, places int) env.Field {
	f := env.Field{Name: name, Space: env.Space{Kind: env.Box, DType: tensor.I32, Shape: []int{places}}}
	for range places {
		f.Low, f.High = append(f.Low, 0), append(f.High, 3)
	}
	return f
}

// newCNN returns a policy that sees two images, a vector and words.
func newCNN(t testing.TB, encoder string, shared bool) *ActorCritic {
	cfg := DefaultConfig()
	cfg.ModelType, cfg.Encoder, cfg.ShareTrunk, cfg.NormalizeObservations = "cnn_policy", encoder, shared, true
	cfg.HiddenSizes = []int{16}
	spec := env.Spec{Name: "Test-v0", Action: box, Obs: []env.Field{vector("state", 4), image("front", 9, 7, 3),
		words("text", 3), image("top", 8, 8, 1), words("more", 1)}}
	if encoder == NatureCNN {
		spec.Obs[1], spec.Obs[3] = image("front", 2, 36, 36, 1), image("top", 36, 36, 3)
	}
	return newPolicy(t, cfg, spec)
}

// Derivatives by some elements of every parameter agree with central differences. The gradient of an encoder
// has the parts of all layers that share it.
func TestEncoderGradients(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
	}{
		{"own trunks", func(*Config) {}},
		{"shared trunk", func(c *Config) { c.ShareTrunk = true }},
		{"heads alone", func(c *Config) { c.HiddenSizes = nil }},
		{"no critic", func(c *Config) { c.AddValueHead = false }},
		{"no critic, head alone", func(c *Config) { c.AddValueHead, c.HiddenSizes = false, nil }},
		{"own encoder, own trunks", ownEncoding},
		{"own encoder, shared trunk", func(c *Config) { ownEncoding(c); c.ShareTrunk = true }},
		{"own encoder, heads alone", func(c *Config) { ownEncoding(c); c.HiddenSizes = nil }},
	} {
		if testing.Short() && c.name != "own encoder, own trunks" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Encoder, cfg.HiddenSizes = ImpalaCNN, []int{6}
			c.set(&cfg)
			encoderGradients(t, cfg)
		})
	}
}

func encoderGradients(t *testing.T, cfg Config) {
	const rows = 3
	obs := seenAndRead(cfg)
	act := actionShape{dims: 2, summed: 2}
	n := testNetwork(t, cfg, act, obs)
	w := n.newWork(rows + 1)
	x, a := testBatch(act, rows, 2)
	s := philox.New(1, philox.Init, 3000, 0)
	for _, source := range obs.sources {
		if source.Frames == 0 {
			continue
		}
		b := make([]uint8, rows*source.Frames*source.Image.Len())
		for k := range b {
			b[k] = uint8(s.IntN(256))
		}
		x.Images = append(x.Images, b)
	}
	x.Choices = []int32{0, 1, 4 /**/, 2, -1, 0 /**/, 1, 0, 4}
	d := random(rows, 11)
	var dValue []float64
	if cfg.AddValueHead {
		dValue = d
	}
	loss := func() float64 {
		n.evaluate(w, &x, a)
		var sum float64
		for i := range rows {
			sum += d[i] * w.logProb[i]
			if w.value != nil {
				sum += d[i] * w.value[i]
			}
		}
		return sum
	}
	computeGradients(t, n.params, loss, func(ready func(lo, hi int)) { n.backward(w, d, nil, dValue, ready) })
	each := 3 // elements of a parameter
	if testing.Short() {
		each = 1
	}
	checked := 0
	for i, f := range n.params.Fields {
		for range each {
			k := s.IntN(f.Len())
			r := nntest.Gradients(n.params.Of(i)[k:k+1], n.params.GradOf(i)[k:k+1], loss)
			checked += r.Checked
			if !(r.Worst < 1e-6) {
				t.Errorf("%s, element %d: %+v, want < 1e-6", f.Name, k, r)
			}
		}
	}
	test.Equal(t, checked, each*len(n.params.Fields), "derivatives checked")
}

// seenAndRead is an observation of two images, numbers and words.
func seenAndRead(cfg Config) obsShape {
	span := [2]float64{0, 1}
	images := []Camera{{Name: "front", Frames: 2, Views: 1, Image: nn.Image{H: 5, W: 4, C: 1}, span: span},
		{Name: "top", Frames: 1, Views: 1, Image: nn.Image{H: 4, W: 4, C: 3}, span: span}}
	choices := nn.Choices{Low: []int{0, -1, 0}, High: []int{2, 1, 4}}
	if cfg.Encoder != ownEncoder {
		encoder, sources := newEncoder(cfg.Encoder, 2, images, choices)
		return obsShape{encoder: &encoder, sources: sources}
	}
	layers := ownLayers()
	return obsShape{encoder: &layers, sources: []nn.Source{
		{Name: "state", Width: 2}, images[0].source(), images[1].source(), {Name: "text", Choices: choices},
	}}
}

// TestSeesEverything: a change of a pixel in any image and frame, of a word or of a number changes the action.
func TestSeesEverything(t *testing.T) {
	for _, encoder := range []string{NatureCNN, ImpalaCNN} {
		p := newCNN(t, encoder, false)
		obs, _ := observe(p, 1)
		w := p.NewWork(1)
		before := must[Act](t)(p.Forward(w, obs, Deterministic, Noise{})).clone()
		for i := range obs.Len() {
			name, x := obs.Entry(i)
			last := len(x.Bytes()) - 1
			bit := byte(1)
			switch x.DType() {
			case tensor.F32:
				bit = 1 << 6 // of the exponent
			case tensor.I32:
				last -= 3
			}
			for _, at := range []int{last % x.DType().Size(), last} { // the first frame and the last
				old := x.Bytes()[at]
				x.Bytes()[at] ^= bit
				if act := must[Act](t)(p.Forward(w, obs, Deterministic, Noise{})); act.same(before) {
					t.Errorf("%s: the same action and value for another byte %d of %s", encoder, at, name)
				}
				x.Bytes()[at] = old
			}
		}
	}
}

// TestGreedyOnImages: the gradient of a Greedy through its encoder, by differences in float32.
func TestGreedyOnImages(t *testing.T) {
	for _, hidden := range [][]int{nil, {8}} {
		cfg := DefaultConfig()
		cfg.ModelType, cfg.Encoder, cfg.AddQHead, cfg.AddValueHead, cfg.HiddenSizes = "cnn_policy", ImpalaCNN, true,
			false, hidden
		spec := env.Spec{Name: "Test-v0", Action: discrete, Obs: []env.Field{image("image", 5, 6, 3)}}
		p := must[Policy](t)(Builtin().New(cfg, spec, 9, tensor.Heap)).(*Greedy)
		var obs tensor.Dict
		obs.Set("image", tensor.New(tensor.U8, 2, 5, 6, 3))
		for i := range obs.Must("image").U8() {
			obs.Must("image").U8()[i] = uint8(37 * i)
		}
		w := p.NewWork(2)
		d := tensor.FromF32([]float32{1, -2, 0.5, 0, 1, 1}, 2, 3)
		loss := func() (sum float64) {
			for i, q := range must[tensor.Tensor](t)(p.Values(w, obs)).F32() {
				sum += float64(q) * float64(d.F32()[i])
			}
			return sum
		}
		loss()
		end := len(p.Params().Grad)
		if err := p.BackwardValues(w, d, func(lo, hi int) {
			if hi != end {
				t.Errorf("ready [%d,%d), want one that ends at %d", lo, hi, end)
			}
			end = lo
		}); err != nil || end != 0 {
			t.Fatalf("ready ranges end at %d, want 0: %v", end, err)
		}
		for i, f := range p.Params().Fields {
			// along the gradient the loss grows by the gradient's square
			var square float64
			for _, g := range p.Params().GradOf(i) {
				square += float64(g) * float64(g)
			}
			h := 2e-3 / math.Sqrt(square)
			move := func(by float64) float64 {
				for k, g := range p.Params().GradOf(i) {
					p.Params().Of(i)[k] += float32(by * float64(g))
				}
				return loss()
			}
			slope := (move(h) - move(-2*h)) / (2 * h)
			move(h)
			if !(math.Abs(slope-square) < 0.05*square) {
				t.Errorf("hidden %v: %s: slope %v along a gradient of square %v", hidden, f.Name, slope, square)
			}
		}
	}
}

func TestCNNErrors(t *testing.T) {
	state, pixels := vector("state", 4), image("image", 40, 40, 3)
	unbounded := words("text", 2)
	unbounded.High[1] = float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		set    func(*Config)
		obs    []env.Field
		action env.Space
		want   string
	}{
		{"no image", nil, []env.Field{state}, discrete,
			"no image: cnn_policy wants one of U8; mlp_policy takes vectors"},
		{"encoder", func(c *Config) { c.Encoder = "vit" }, []env.Field{pixels}, discrete,
			"encoder: vit: expected nature_cnn, impala or keypoints"},
		{"encoder of vectors", func(c *Config) { c.ModelType, c.Encoder = "mlp_policy", ImpalaCNN }, []env.Field{state},
			discrete, "encoder: impala: expected none"},
		{"small", nil, []env.Field{image("image", 40, 35, 3)}, discrete,
			`"image": image of [40 35 3]: encoder nature_cnn wants at least 36×36 pixels`},
		{"flat", nil, []env.Field{image("image", 64, 64)}, discrete,
			`"image": image of [64 64]: expected [H W C], or [frames H W C]`},
		{"endless words", nil, []env.Field{pixels, unbounded}, discrete,
			`"text": element 1 is in [0, +Inf]: expected bounds in [-32768, 32767]`},
		{"cells of doubles", nil, []env.Field{pixels, {Name: "x",
			Space: env.Space{Kind: env.Box, DType: tensor.F64, Shape: []int{1}}}}, discrete,
			`observation "x": kind 1 of F64: expected a box of F32 or U8, or choices of I32`},
		{"soft actor", func(c *Config) { c.AddQHead, c.AddValueHead = true, false },
			[]env.Field{pixels, vector("features", 2)}, bounded,
			`observation "features": a policy with an encoder has an`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.ModelType = "cnn_policy"
			if c.set != nil {
				c.set(&cfg)
			}
			spec := env.Spec{Name: "Test-v0", Obs: c.obs, Action: c.action}
			if _, err := Builtin().New(cfg, spec, 1, tensor.Heap); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
	p := newCNN(t, ImpalaCNN, false)
	obs, noise := observe(p, 2)
	obs.Must("text").I32()[4] = 4
	if _, err := p.Forward(p.NewWork(2), obs, Sample, noise); err == nil ||
		!strings.Contains(err.Error(), `"text": row 1, element 1: 4: expected 0 to 3`) {
		t.Errorf("a word that is none: %v", err)
	}
}
