package policy

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// ownLayers look at an image, a vector and words.
func ownLayers() nn.Layer {
	relu := nn.Activate(nn.ReLU)
	return nn.Sequence(
		nn.Concat(
			nn.Sequence(nn.Input("front"), nn.Conv(3, 3, 2, 1), relu, nn.Conv(2, 3, 1, 1), nn.Norm(), nn.Dense(4)),
			nn.Embed("text", 2),
			nn.Input("state"),
		),
		nn.Dense(7), nn.Activate(nn.Tanh),
	)
}

// ownEncoding makes ownLayers the encoder.
func ownEncoding(c *Config) { c.Encoder = ownEncoder }

// newOwn returns a policy with these layers, and parameters that are random everywhere.
func newOwn(t testing.TB, layers nn.Layer, set func(*Config)) *ActorCritic {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ModelType, cfg.HiddenSizes = "own_policy", []int{6}
	set(&cfg)
	spec := env.Spec{Name: "Test-v0", Action: box, Obs: []env.Field{vector("state", 4), image("front", 9, 7, 3),
		words("text", 3)}}
	return perturbed(must[Policy](t)(NewWithEncoder(cfg, spec, layers, 9, tensor.Heap)).(*ActorCritic))
}

func TestSources(t *testing.T) {
	spec := env.Spec{Name: "Test-v0", Action: discrete, Obs: []env.Field{words("text", 2), vector("state", 4),
		image("front", 2, 9, 7, 3), words("more", 1),
		vector("goal", 1), mask(discrete.Nvec[0])}}
	got := must[[]nn.Source](t)(Sources(spec))
	want := []string{"state", "goal", "front", "text", "more"}
	for i, s := range got {
		if i >= len(want) || s.Name != want[i] {
			t.Fatalf("%+v, want %v", got, want)
		}
	}
	front, text := got[2], got[3]
	if len(got) != 5 || got[0].Width != 4 || front.Frames != 2 || front.Image != (nn.Image{H: 9, W: 7, C: 3}) ||
		len(text.Choices.Low) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestOwnEncoderRefuses(t *testing.T) {
	state := nn.Sequence(nn.Input("state"), nn.Dense(3))
	for _, c := range []struct {
		name   string
		layers nn.Layer
		set    func(*Config)
		action env.Space
		want   string
	}{
		{"a name that is none", nn.Input("stat"), nil, discrete,
			`for Test-v0: network encoder: Input("stat"): no such input: expected one of state, memory`},
		{"encoder", state, func(c *Config) { c.Encoder = ImpalaCNN }, discrete, "encoder: impala: expected none"},
		{"SAC with a cell", nn.Sequence(nn.Input("state"), nn.LSTM(3)),
			func(c *Config) { c.AddQHead, c.AddValueHead = true, false }, bounded,
			"expected an encoder without recurrent cells"},
		{"DQN with a cell", nn.Sequence(nn.Input("state"), nn.GRU(3)),
			func(c *Config) { c.AddQHead, c.AddValueHead = true, false }, discrete,
			"expected an encoder without recurrent cells"},
		{"a cell, and an observation memory", nn.Sequence(nn.Input("state"), nn.GRU(3)), nil, discrete,
			`observation "memory"`},
	} {
		cfg := DefaultConfig()
		cfg.ModelType = "own_policy"
		if c.set != nil {
			c.set(&cfg)
		}
		spec := env.Spec{Name: "Test-v0", Action: c.action, Obs: []env.Field{vector("state", 4), vector("memory", 2)}}
		if _, err := NewWithEncoder(cfg, spec, c.layers, 1, tensor.Heap); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestGreedyOwnEncoder: a Greedy with the user's own encoder values actions, and its gradient reaches the encoder.
func TestGreedyOwnEncoder(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ModelType, cfg.AddQHead, cfg.AddValueHead = "own_policy", true, false
	spec := env.Spec{Name: "Test-v0", Action: discrete, Obs: []env.Field{vector("state", 4)}}
	p := must[Policy](t)(NewWithEncoder(cfg, spec, nn.Sequence(nn.Input("state"), nn.Dense(5), nn.Activate(nn.Tanh)), 1,
		tensor.Heap)).(*Greedy)
	var obs tensor.Dict
	obs.Set("state", tensor.FromF32([]float32{1, 2, 3, 4}, 1, 4))
	w := p.NewWork(1)
	q := must[tensor.Tensor](t)(p.Values(w, obs))
	d := tensor.New(tensor.F32, q.Shape()...)
	d.F32()[0] = 1
	test.OK(t, p.BackwardValues(w, d, nil))
	for i, f := range p.Params().Fields {
		zero := true
		for _, g := range p.Params().GradOf(i) {
			zero = zero && g == 0
		}
		if zero {
			t.Errorf("%s has no gradient", f.Name)
		}
	}
}
