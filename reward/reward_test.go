package reward

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// spec is the Spec of a task with two observed numbers and the figure of a success.
var spec = env.Spec{
	Name:   "Reach",
	Obs:    []env.Field{{Name: "state", Space: env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{2}}}},
	Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}},
	Info:   []string{"effort", "success"},
}

// three transitions: one within an episode, one that terminates, one that is cut off.
func three() *Batch {
	b := &Batch{
		Action: tensor.FromI32([]int32{0, 1, 0}, 3, 1, 1), Reward: []float32{1, 2, 3},
		Terminated: []uint8{0, 1, 0}, Truncated: []uint8{0, 0, 1},
		Info: tensor.FromF32([]float32{7, 0, 7, 0, 7, 0}, 3, 2),
		// the second succeeds in the first step of its chunk alone
		Infos: tensor.FromF32([]float32{7, 0, 7, 0, 7, 1, 7, 0, 7, 0, 7, 0}, 3, 2, 2),
	}
	b.Obs.Set("state", tensor.FromF32([]float32{3, 4, 0, 2, 1, 1}, 3, 2))
	b.Next.Set("state", tensor.FromF32([]float32{0, 2, 1, 0, 1, 3}, 3, 2))
	return b
}

func setup(change func(*Config)) Setup {
	s := Setup{Config: DefaultConfig(), Spec: spec, Gamma: 0.5, Rows: 3}
	change(&s.Config)
	return s
}

func TestRules(t *testing.T) {
	potential := func(c *Config) {
		c.RewardType, c.Potential.Indices, c.Potential.Target = "potential", []int{0, 1}, []float32{0, 0}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   []float32
	}{
		{"env, scaled", func(c *Config) { c.RewardWeight = 10 }, []float32{10, 20, 30}},
		{"success", func(c *Config) { c.RewardType = "success" }, []float32{0, 1, 0}},
		{"success beside the environment's", func(c *Config) {
			c.RewardType, c.RewardWeight, c.EnvRewardWeight = "success", 5, 0.5
		}, []float32{0.5, 6, 1.5}},
		// |s| is 5, 2, √2 before and 2, 1, √10 after; a terminated episode has no potential after it
		{"potential", potential, []float32{5 - 0.5*2, 2, float32(math.Sqrt2 - 0.5*math.Sqrt(10))}},
		{"potential of one element", func(c *Config) {
			potential(c)
			c.Potential.Indices, c.Potential.Target = []int{1}, []float32{1}
		}, []float32{3 - 0.5*1, 1, 0 - 0.5*2}},
		{"terminal", func(c *Config) { c.RewardMode = Terminal }, []float32{0, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := test.Must(Builtin().New(setup(c.change)))(t)
			got := make([]float32, 3)
			if err := rule(got, three()); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v (%v), want %v", got, err, c.want)
			}
		})
	}
}

// With bootstrap_type always, returns include the value after a terminated episode, so the potential there counts, too.
func TestPotentialWithBootstrapAlways(t *testing.T) {
	s := setup(func(c *Config) {
		c.RewardType, c.Potential.Indices, c.Potential.Target = "potential", []int{0, 1}, []float32{0, 0}
	})
	s.BootstrapAlways = true
	rule := test.Must(Builtin().New(s))(t)
	got, want := make([]float32, 3), []float32{5 - 0.5*2, 2 - 0.5*1, float32(math.Sqrt2 - 0.5*math.Sqrt(10))}
	if err := rule(got, three()); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
}

// A network scores the observation after a step, the same in every batch.
func TestModel(t *testing.T) {
	s := setup(func(c *Config) { c.UseRewardModel, c.RewardWeight = true, 2 })
	net := test.Must(policy.NewMLP(s.Config.Model.Config, spec, 1, tensor.Heap))(t)
	s.Network = net
	rule := test.Must(Builtin().New(s))(t)
	b := three()
	b.Next = b.Obs // none of which is 0
	got := make([]float32, 3)
	test.OK(t, rule(got, b))
	for i := range got {
		v, err := net.Value(net.NewWork(1), b.Next.Slice(i, i+1))
		if err != nil || got[i] != 2*v.F32()[0] || got[i] == 0 {
			t.Errorf("row %d: %v (%v), want twice the value %v", i, got[i], err, v.F32())
		}
	}
}

func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"reward_type: sucess: expected one of env, success, potential": func(c *Config) { c.RewardType = "sucess" },
		"success_info: solved: expected a figure of Reach: effort, success": func(c *Config) {
			c.RewardType, c.SuccessInfo = "success", "solved"
		},
		"potential.observation: image": func(c *Config) {
			c.RewardType, c.Potential.Observation = "potential", "image"
		},
		"potential.indices: 2: expected elements of state, 0 to 1": func(c *Config) {
			c.RewardType, c.Potential.Indices, c.Potential.Target = "potential", []int{2}, []float32{0}
		},
	} {
		if _, err := Builtin().New(setup(change)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"reward_mode":      func(c *Config) { c.RewardMode = "history_buffer" },
		"reward_weight":    func(c *Config) { c.RewardWeight = 0 },
		"model.model_path": func(c *Config) { c.UseRewardModel = true },
		"model.add_value_head": func(c *Config) {
			c.UseRewardModel, c.Model.ModelPath, c.Model.AddValueHead = true, "model.safetensors", false
		},
		"model.model_type": func(c *Config) {
			c.UseRewardModel, c.Model.ModelPath = true, "model.safetensors"
			c.Model.ModelType, c.Model.ShareTrunk = "rnn_policy", true
		},
		"potential.indices": func(c *Config) { c.RewardType = "potential" },
		"potential.target":  func(c *Config) { c.RewardType, c.Potential.Indices = "potential", []int{0} },
	} {
		c := DefaultConfig()
		c.Check(func(ok bool, key string, _ any, _ string) {
			if !ok {
				t.Errorf("the defaults break the rule of %s", key)
			}
		})
		change(&c)
		var wrong []string
		c.Check(func(ok bool, key string, _ any, _ string) {
			if !ok {
				wrong = append(wrong, key)
			}
		})
		if !slices.Equal(wrong, []string{key}) {
			t.Errorf("%v reported, want %s", wrong, key)
		}
	}
}
