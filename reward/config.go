package reward

import (
	"embed"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward/answer"
)

// Source embeds the files of this package that declare keys of the configuration. The comments of the fields document
// these keys.
//
//go:embed config.go
var Source embed.FS

// Config is the section reward of the configuration. Start from DefaultConfig.
type Config struct {
	// If UseRewardModel is true, the network Model computes the scores. Otherwise the rule
	// RewardType computes them. Default false.
	UseRewardModel bool `yaml:"use_reward_model"`
	// RewardType names a rule. "env", the default, gives the environment's own reward. "success" gives 1 if the task
	// was solved, otherwise 0. "potential" gives the increase of a potential in the step. Your own program can add
	// rules. The reasoning task has other rules. "exact", its default, gives 1 for exactly the tokens or the text of a
	// right answer, otherwise 0. "math" gives 1 for a boxed answer that is mathematically right, otherwise -1.
	// "countdown" gives 1 for steps that reach the target, otherwise 0. "program" calls a program of the user.
	RewardType string `yaml:"reward_type"`
	// RewardMode is "per_step" (default) or "terminal". With "terminal", only the last step of an episode has a score,
	// and all other scores are 0.
	RewardMode string `yaml:"reward_mode"`
	// RewardWeight and EnvRewardWeight are the weights in the reward: RewardWeight·score +
	// EnvRewardWeight·(the environment's own reward). Defaults 1 and 0.
	RewardWeight    float32 `yaml:"reward_weight"`
	EnvRewardWeight float32 `yaml:"env_reward_weight"`
	// StandaloneRealworld scores the images of training where the environments are (model_type resnet), before anybody
	// sees the step. No reward worker is needed. Default false.
	StandaloneRealworld bool `yaml:"standalone_realworld"`
	// SuccessHoldSteps, with StandaloneRealworld, is the number of successive scores above
	// reward.model.reward_threshold that end an episode as terminated. Without that threshold, 0.5 counts. Default 1.
	// (+)
	SuccessHoldSteps int `yaml:"success_hold_steps"`
	// SuccessInfo is the name of the figure that reports success. Any value except 0 is a success. Default success. (+)
	SuccessInfo string `yaml:"success_info"`
	// Potential configures the rule "potential", whose score is γ·Φ(s') - Φ(s) in a step from s to s'. If s' ends the
	// episode by termination, γ·Φ(s') counts only with algorithm.bootstrap_type always. (+)
	Potential PotentialConfig `yaml:"potential"`
	// Model is the network for UseRewardModel. The score is the network's value of the observation after the step. With
	// model_type resnet it is the probability that the image after the step shows success.
	Model ModelConfig `yaml:"model"`

	// Answers are the keys that are only for the reasoning task.
	Answers answer.Config `yaml:",inline"`

	// Own are the keys of a user-defined rule.
	Own params.Own `yaml:",inline"`
}

// PotentialConfig is the section reward.potential, which defines the potential Φ(s) = -|x -
// Target|. Here x are selected elements of an observation.
type PotentialConfig struct {
	// Observation is the name of the observation with the elements x. Default: state.
	Observation string `yaml:"observation"`
	// Indices are the indices of the elements x, counted from 0. There is no default.
	Indices []int `yaml:"indices"`
	// Target has the desired value of each element in Indices. There is no default.
	Target []float32 `yaml:"target"`
}

// ModelConfig is the section reward.model: a network with a value head. The section also has the
// keys of actor.model.
type ModelConfig struct {
	// ModelPath is a file with the network's parameters (safetensors), such as model.safetensors of a checkpoint. With
	// model_type resnet, a file of RLinf may have torchvision's names. There is no default.
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
		SuccessHoldSteps: 1,
		Potential:        PotentialConfig{Observation: "state"},
		Model:            ModelConfig{Config: policy.DefaultConfig()},
		Answers:          answer.DefaultConfig(),
	}
}

// Check validates the values that it can check without the environment. It calls the given function once per rule. The
// arguments are: whether the rule holds, the key below reward, the value, and a description of valid values.
func (c *Config) Check(want func(ok bool, key string, value any, want string)) {
	want(c.RewardMode == PerStep || c.RewardMode == Terminal, "reward_mode", c.RewardMode, "per_step or terminal")
	want(c.RewardWeight != 0 || c.EnvRewardWeight != 0, "reward_weight", c.RewardWeight,
		"a number other than 0, or an env_reward_weight")
	if c.UseRewardModel {
		want(c.Model.ModelPath != "", "model.model_path", c.Model.ModelPath, "a file of parameters (use_reward_model)")
		want(c.SuccessHoldSteps >= 1, "success_hold_steps", c.SuccessHoldSteps, "a number ≥ 1")
		if c.Model.ModelType == ResNet {
			below := func(ok bool, key string, value any, what string) { want(ok, "model."+key, value, what) }
			c.Model.Own.Check(below)
			images, _ := c.Images()
			images.CheckSize(below)
			return
		}
		want(!c.StandaloneRealworld, "standalone_realworld", true, "false, or model.model_type: resnet")
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
