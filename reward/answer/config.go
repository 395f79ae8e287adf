package answer

import (
	"embed"
	"math"
	"time"

	"github.com/rlinf/rlinf/env"
)

// Source embeds the files of this package that declare keys of the configuration. The comments of the fields document
// these keys.
//
//go:embed config.go
var Source embed.FS

// Config holds the keys of the section reward that are only for answers of language models. Start
// from DefaultConfig.
type Config struct {
	// RewardScale multiplies the reward of the rule. Default 1. For the reasoning task.
	RewardScale float32 `yaml:"reward_scale"`
	// FormatReward is added to the reward of every answer that can be parsed, right or wrong. With reward_type math, an
	// answer can be parsed if it has a complete \boxed{} that is not empty. Default 0. For the reasoning task. (+)
	FormatReward float32 `yaml:"format_reward"`
	// RandomReward replaces all rewards by 0 or 1 at random, with equal probability, for control
	// experiments. Metrics of right and parsable answers stay the same. Default false. For the task
	// reasoning. (+)
	RandomReward bool `yaml:"random_reward"`
	// Program configures reward_type "program". (+)
	Program ProgramConfig `yaml:"program"`
}

// ProgramConfig is the section reward.program: a program of the user that grades answers.
type ProgramConfig struct {
	// Command is the program and its arguments: a list, or a text that is split at white space. A
	// rank starts the program once, for all its workers. (+)
	Command env.Command `yaml:"command"`
	// Timeout is the maximum time that the program may take to start, and to grade the answers of
	// one call. Default 1m. (+)
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{RewardScale: 1, Program: ProgramConfig{Timeout: time.Minute}}
}

// Check validates c, and calls the given function for each rule. Keys are relative to the section reward.
func (c *Config) Check(want func(ok bool, key string, value any, want string)) {
	finite := func(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
	want(finite(c.RewardScale) && c.RewardScale > 0, "reward_scale", c.RewardScale, "a number > 0")
	want(c.Program.Timeout > 0, "program.timeout", c.Program.Timeout, "a duration > 0, as 30s")
	want(finite(c.FormatReward) && c.FormatReward >= 0, "format_reward", c.FormatReward, "a number ≥ 0")
}
