package policy

import (
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

func TestConfigDecodesOverDefaults(t *testing.T) {
	cfg := DefaultConfig()
	text := "{hidden_sizes: [256, 256, 256], add_value_head: false, init_log_std: 0, use_sde: true}"
	if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
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
		ObsDim: -1, ActionDim: -1, HiddenSizes: []int{64, 0}, Activation: "swish", SDESampleFreq: 0, ObsClip: -1, LogProbType: "word_level",
	}
	want := []string{"obs_dim", "action_dim", "num_action_chunks", "hidden_sizes", "activation", "num_q_heads", "sde_sample_freq", "obs_clip", "logprob_type"}
	if keys := broken(bad); !slices.Equal(keys, want) {
		t.Errorf("found %v, want %v", keys, want)
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
		{"model", func(c *Config) { c.ModelType = "openvla" }, spec(state, discrete), `model_type: "openvla": want one of mlp_policy`},
		{"value", func(c *Config) { c.Activation = "swish" }, spec(state, discrete), "activation: swish: want tanh or relu"},
		{"image", nil, spec(image, discrete), `observation "image": images (U8[8 8 3]): mlp_policy wants vectors of F32`},
		{"discrete observation", nil, spec(env.Field{Name: "cell", Space: discrete}, discrete), `observation "cell"`},
		{"obs_dim", func(c *Config) { c.ObsDim = 42 }, spec(state, discrete), "obs_dim: 42: want 4"},
		{"action_dim", func(c *Config) { c.ActionDim = 8 }, spec(state, discrete), "action_dim: 8: want 3"},
		{"sde", func(c *Config) { c.UseSDE = true }, spec(state, discrete), "use_sde: true: want false for discrete actions"},
		{"no action", nil, spec(state, env.Space{}), "for Test-v0: action: kind 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			if c.set != nil {
				c.set(&cfg)
			}
			if _, err := Builtin().New(cfg, c.spec, 1, tensor.Heap); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
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
