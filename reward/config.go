package reward

import (
	"embed"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward/answer"
)

// Source has the files of this package that declare keys of the configuration. The comments of the fields are the
// manual of these keys.
//
//go:embed config.go
var Source embed.FS

// Config is the section reward of the configuration. Start from DefaultConfig.
type Config struct {
	// UseRewardModel takes scores from the network Model. With false, the default, they are from
	// the rule RewardType.
	UseRewardModel bool `yaml:"use_reward_model"`
	// RewardType names a rule: env (default), the environment's own reward; success, 1 where the task was solved, else
	// 0; potential, the gain of a potential in the step; or one of your own. The task reasoning has other rules. exact
	// (its default) gives 1 for the right answer, token for token, else 0. math gives 1 for a boxed answer that is
	// right as mathematics, else -1. countdown gives 1 for steps that reach the target, else 0. program asks a program
	// of the user.
	RewardType string `yaml:"reward_type"`
	// RewardMode is per_step (default), or terminal: only the step that ends an episode is scored, other steps get 0.
	RewardMode string `yaml:"reward_mode"`
	// RewardWeight and EnvRewardWeight weigh the two parts of a reward, RewardWeight·score +
	// EnvRewardWeight·(the environment's own). Defaults 1 and 0.
	RewardWeight    float32 `yaml:"reward_weight"`
	EnvRewardWeight float32 `yaml:"env_reward_weight"`
	// SuccessInfo names the figure by which the environment reports success. Any value of it except 0 is a success.
	// Default success. (+)
	SuccessInfo string `yaml:"success_info"`
	// Potential has the keys of the rule potential. (+)
	Potential PotentialConfig `yaml:"potential"`
	// Model is the network of UseRewardModel. Its value of the observation after the step is the
	// score.
	Model ModelConfig `yaml:"model"`

	// Answers are the keys of the task reasoning alone.
	Answers answer.Config `yaml:",inline"`

	// Own are the keys of a user-defined rule.
	Own params.Own `yaml:",inline"`
}

// PotentialConfig is the section reward.potential: Φ(s) = -|x - Target|, minus the distance of some
// elements x of an observation from the values that they should have.
type PotentialConfig struct {
	// Observation names the observation with the elements x. Default: state.
	Observation string `yaml:"observation"`
	// Indices are the elements of the observation that count. No default.
	Indices []int `yaml:"indices"`
	// Target has the wanted value of each of these elements. No default.
	Target []float32 `yaml:"target"`
}

// ModelConfig is the section reward.model: a network with a value head, described like that of
// actor.model.
type ModelConfig struct {
	// ModelPath is a file of the network's parameters (safetensors), such as model.safetensors of a
	// checkpoint. No default.
	ModelPath string `yaml:"model_path"`

	policy.Config `yaml:",inline"`
}

// Values of Config.RewardMode.
const (
	PerStep  = "per_step"
	Terminal = "terminal"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		RewardType: "env", RewardMode: PerStep, RewardWeight: 1, SuccessInfo: "success",
		Potential: PotentialConfig{Observation: "state"},
		Model:     ModelConfig{Config: policy.DefaultConfig()},
		Answers:   answer.DefaultConfig(),
	}
}

// Check checks the values by themselves. For each check it calls want with the key below reward, the key's value and a
// description of valid values. New checks what depends on the environment.
func (c *Config) Check(want func(ok bool, key string, value any, want string)) {
	want(c.RewardMode == PerStep || c.RewardMode == Terminal, "reward_mode", c.RewardMode, "per_step or terminal")
	want(c.RewardWeight != 0 || c.EnvRewardWeight != 0, "reward_weight", c.RewardWeight,
		"a number other than 0, or an env_reward_weight")
	if c.UseRewardModel {
		want(c.Model.ModelPath != "", "model.model_path", c.Model.ModelPath, "a file of parameters (use_reward_model)")
		want(c.Model.AddValueHead && !c.Model.AddQHead, "model.add_value_head", c.Model.AddValueHead,
			"true, and add_q_head false: the value is the score")
		want(c.Model.ModelType != "rnn_policy", "model.model_type", c.Model.ModelType,
			"a model without memory: it sees single steps")
		c.Model.Check(func(ok bool, key string, value any, what string) { want(ok, "model."+key, value, what) })
		return
	}
	c.Own.Check(want)
	if p := &c.Potential; c.RewardType == "potential" {
		want(len(p.Indices) > 0, "potential.indices", p.Indices, "elements of the observation "+p.Observation)
		want(len(p.Target) == len(p.Indices), "potential.target", p.Target, "a number for each of potential.indices")
	}
}
