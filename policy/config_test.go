package policy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestConfigDecodesOverDefaults(t *testing.T) {
	cfg := DefaultConfig()
	text := "{hidden_sizes: [256, 256, 256], add_value_head: false, init_log_std: 0, use_sde: true}"
	test.OK(t, yaml.Unmarshal([]byte(text), &cfg))
	if !slices.Equal(cfg.HiddenSizes, []int{256, 256, 256}) || cfg.AddValueHead || cfg.InitLogStd != 0 || !cfg.UseSDE {
		t.Errorf("what was given is not there: %+v", cfg)
	}
	if cfg.ModelType != "mlp_policy" || cfg.ObsClip != 10 || cfg.SDESampleFreq != 4 || cfg.Activation != "tanh" {
		t.Errorf("defaults are gone: %+v", cfg)
	}
}

func TestConfigCheck(t *testing.T) {
	broken := func(c Config) (keys []string) {
		c.Check(func(ok bool, key string, _ any, want string) {
			if !ok {
				keys = append(keys, key)
			}
			if want == "" {
				t.Errorf("%s: nothing said of what is valid", key)
			}
		})
		return keys
	}
	if keys := broken(DefaultConfig()); keys != nil {
		t.Errorf("the defaults break %v", keys)
	}
	bad := Config{
		ObsDim: -1, ActionDim: -1, HiddenSizes: []int{64, 0}, Activation: "swish", SDESampleFreq: 0, ObsClip: -1,
		LogProbType:    "word_level",
		IndependentStd: true, ActionBound: "none",
	}
	want := []string{"obs_dim", "action_dim", "num_action_chunks", "hidden_sizes", "activation", "rnn_type",
		"rnn_hidden_size", "q_head_type", "num_q_heads", "action_bound", "sde_sample_freq", "obs_clip", "logprob_type"}
	vast := DefaultConfig()
	vast.HiddenSizes, vast.RNNHiddenSize, vast.NumQHeads = []int{64, 1e6}, 1e6, 1e6
	if keys := broken(vast); !slices.Equal(keys, []string{"hidden_sizes", "rnn_hidden_size", "num_q_heads"}) {
		t.Errorf("networks that are too large break %v", keys)
	}
	if keys := broken(bad); !slices.Equal(keys, want) {
		t.Errorf("found %v, want %v", keys, want)
	}
}

// Deviations that depend on the state start within their bounds, and exclude SDE.
func TestDeviationByStateCheck(t *testing.T) {
	for key, set := range map[string]func(*Config){
		"":                func(c *Config) {},
		"init_log_std":    func(c *Config) { c.InitLogStd = -5 },
		"independent_std": func(c *Config) { c.UseSDE = true },
	} {
		c, got := DefaultConfig(), ""
		c.IndependentStd = false
		set(&c)
		c.Check(func(ok bool, key string, _ any, _ string) {
			if !ok {
				got += key
			}
		})
		test.Equal(t, got, key, "found")
	}
}

func TestNewErrors(t *testing.T) {
	spec := func(obs env.Field, action env.Space) env.Spec {
		return env.Spec{Name: "Test-v0", Obs: []env.Field{obs}, Action: action}
	}
	state := vector("state", 4)
	image := env.Field{Name: "image", Space: env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{8, 8, 3}}}
	for _, c := range []struct {
		name string
		set  func(*Config)
		spec env.Spec
		want string
	}{
		{"model", func(c *Config) { c.ModelType = "openvla" }, spec(state, discrete),
			`model_type: "openvla": expected one of mlp_policy`},
		{"value", func(c *Config) { c.Activation = "swish" }, spec(state, discrete),
			"activation: swish: expected tanh or relu"},
		{"image", nil, spec(image, discrete), `observation "image": images (U8[8 8 3]): ` +
			"mlp_policy wants numbers and choices; cnn_policy takes images"},
		{"doubles", nil, spec(env.Field{Name: "x", Space: env.Space{Kind: env.Box, DType: tensor.F64, Shape: []int{1}}},
			discrete), `observation "x": kind 1 of F64: expected a box of F32 or U8`},
		{"bytes without bounds", nil, spec(env.Field{Name: "keys", Space: env.Space{Kind: env.Box, DType: tensor.U8,
			Shape: []int{2}}}, discrete), `observation "keys": 0 and 0 bounds of bytes: expected 2`},
		{"endless choices", nil, spec(env.Field{Name: "cell", Space: env.Space{Kind: env.Discrete, DType: tensor.I32,
			Shape: []int{1}, Nvec: []int{1 << 20}}}, discrete),
			"choices with 1048576 options together: expected at most 65536"},
		{"bytes without an end", nil, spec(env.Field{Name: "keys", Space: env.Space{Kind: env.Box, DType: tensor.U8,
			Shape: []int{1}, Low: []float32{0}, High: []float32{float32(math.Inf(1))}}}, discrete),
			`observation "keys": element 0 is in [0, +Inf]: expected bounds of bytes in [0, 255]`},
		{"choices at a time to value", func(c *Config) { c.AddQHead, c.AddValueHead = true, false }, spec(state, multi),
			"action: 2 choices at a time: expected one (add_q_head)"},
		{"obs_dim", func(c *Config) { c.ObsDim = 42 }, spec(state, discrete),
			"obs_dim: 42, but the observations have 4 elements"},
		{"action_dim", func(c *Config) { c.ActionDim = 8 }, spec(state, discrete),
			"action_dim: 8, but an action has 3"},
		{"sde", func(c *Config) { c.UseSDE = true }, spec(state, discrete),
			"use_sde: true: expected false for discrete actions"},
		{"deviation by state", func(c *Config) { c.IndependentStd = false }, spec(state, discrete),
			"independent_std: false: expected true for discrete actions"},
		{"tanh of choices", func(c *Config) { c.ActionBound = "tanh" }, spec(state, discrete),
			"action_bound: tanh: discrete choices: expected a box"},
		{"tanh without bounds", func(c *Config) { c.ActionBound = "tanh" },
			spec(state, env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{0},
				High: []float32{float32(math.Inf(1))}}),
			"action_bound: tanh: dimension 0 is in [0, +Inf]: expected bounds"},
		{"mask of numbers", nil, spec(mask(4), box),
			"action_mask: its actions are continuous: expected discrete or multi-discrete ones, or no mask"},
		{"mask of another width", nil, spec(mask(4), discrete), "action_mask: U8[4]: expected a box of U8[3]"},
		{"mask alone", nil, spec(mask(3), discrete), "observations: none"},
		{"no action", nil, spec(state, env.Space{}), "for Test-v0: action: kind 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			if c.set != nil {
				c.set(&cfg)
			}
			if _, err := Builtin().New(cfg, c.spec, 1, tensor.Heap); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// The environment gets the action clipped or squashed into the bounds; the stored action stays the same.
func TestFeed(t *testing.T) {
	space := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}, Low: []float32{-2, 0}, High: []float32{2, 1}}
	spec := env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)}, Action: space}
	fed := map[string][]float32{}
	var chosen []float32
	for _, bound := range []string{BoundClip, BoundTanh} {
		cfg := DefaultConfig()
		cfg.ActionBound, cfg.InitLogStd = bound, 1
		p := newPolicy(t, cfg, spec)
		obs, noise := observe(p, 20)
		act := test.Must(p.Forward(p.NewWork(20), obs, Sample, noise))(t)
		dst := tensor.New(tensor.F32, 20, 1, 2)
		act.Feed(space, dst)
		if fed[bound] = dst.F32(); chosen != nil && !slices.Equal(chosen, act.Action.F32()) {
			t.Error("what is stored depends on the bounds")
		}
		chosen = slices.Clone(act.Action.F32())
	}
	outside := 0
	for i, a := range chosen {
		low, high := space.Low[i%2], space.High[i%2]
		if a < low || a > high {
			outside++
		}
		if want := min(max(a, low), high); fed[BoundClip][i] != want {
			t.Errorf("%v is fed as %v, want %v", a, fed[BoundClip][i], want)
		}
		want := float64(low) + float64(high-low)*(math.Tanh(float64(a))+1)/2
		if !near(float64(fed[BoundTanh][i]), want, 1e-6) {
			t.Errorf("%v is fed as %v, want %v", a, fed[BoundTanh][i], want)
		}
	}
	if outside == 0 {
		t.Error("nothing was out of bounds: the test sees too little")
	}
}

func TestClipAction(t *testing.T) {
	src := tensor.FromF32([]float32{-3, -3, 0.5, 0.5, 7, 7}, 3, 1, 2)
	dst := tensor.New(tensor.F32, 3, 1, 2)
	ClipAction(box, dst, src)
	if want := []float32{-1, -2, 0.5, 0.5, 1, 7}; !slices.Equal(dst.F32(), want) {
		t.Errorf("got %v, want %v", dst.F32(), want)
	}
	ints := tensor.New(tensor.I32, 2, 1, 1)
	ClipAction(discrete, ints, tensor.FromI32([]int32{2, 1}, 2, 1, 1))
	if !slices.Equal(ints.I32(), []int32{2, 1}) {
		t.Errorf("got %v", ints.I32())
	}
}
