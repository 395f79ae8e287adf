package env

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/params"
)

// A Config is the section env.train or env.eval. Start from DefaultConfig: not every default is
// zero.
type Config struct {
	// EnvType is the environment's name in the registry, such as CartPole-v1. If InitParams has a
	// name, EnvType is RLinf's name of the family, and is ignored.
	EnvType string `yaml:"env_type"`
	// InitParams are the arguments of the environment.
	InitParams InitParams `yaml:"init_params"`
	// ModelPath is the file of your own model, for the environments that take one (mujoco: MJCF).
	// Every rank with environments reads it. (+)
	ModelPath string `yaml:"model_path,omitempty"`
	// Task is the task of the model at ModelPath. (+)
	Task *Task `yaml:"task,omitempty"`
	// External configures the simulators of env_type external. (+)
	External External `yaml:"external,omitempty"`
	// Observations selects the observations, for environments that have several. Their
	// documentation lists them. Default: the environment's own choice. (+)
	Observations []string `yaml:"observations,omitempty"`
	// Instructions selects and weighs the instructions of a suite: a list of names, or a map from
	// name to weight. Default: all, with equal weights. (+)
	Instructions Mix `yaml:"instructions,omitempty"`
	// InstructionMix success adapts the weights of instructions to the success of each environment.
	// The weight of an instruction is multiplied by 0.2 + 4p(1-p), where p is the share of success
	// among the environment's last episodes with it. Default: weights stay. (+)
	InstructionMix string `yaml:"instruction_mix,omitempty"`
	// Split is the part of a suite's scenes that episodes are drawn from, such as seen or new_role.
	// The suite's documentation lists them. Default: the suite's own choice. (+)
	Split string `yaml:"split,omitempty"`
	// Perturb changes an input on purpose, to measure how much a policy depends on it; the suite's
	// documentation lists the changes. Default: nothing. (+)
	Perturb string `yaml:"perturb,omitempty"`
	// RewardMode is raw (default) or only_success. raw keeps the environment's own rewards. With
	// only_success, a step that is a success has reward 1 and every other step 0. The environment
	// must report success.
	RewardMode string `yaml:"reward_mode,omitempty"`
	// TotalNumEnvs is the number of environments of the whole job. Must be positive; no default.
	TotalNumEnvs int `yaml:"total_num_envs"`
	// RolloutEpoch is the number of rollouts of MaxStepsPerRolloutEpoch steps that are collected
	// for one update. In an evaluation it is the number of episodes that each environment plays,
	// one after the other. Default 1, also in evaluations, which do not inherit it.
	RolloutEpoch int `yaml:"rollout_epoch"`
	// MaxStepsPerRolloutEpoch is the number of steps of each environment in one rollout. Must be
	// positive; no default.
	MaxStepsPerRolloutEpoch int `yaml:"max_steps_per_rollout_epoch"`
	// AutoReset lets an environment start a new episode in the step that ended the last one. If it
	// is false, the environment idles until the next rollout, and all environments start afresh
	// there. Default true. Evaluations play whole episodes, and do not inherit it.
	AutoReset bool `yaml:"auto_reset"`
	// IgnoreTerminations ignores the task's own reasons to end an episode, so that every episode
	// goes on to the time limit. Default false.
	IgnoreTerminations bool `yaml:"ignore_terminations"`
	// MaxEpisodeSteps truncates episodes after that many steps of the simulator. 0, the default,
	// means the task's own limit.
	MaxEpisodeSteps int `yaml:"max_episode_steps"`
	// GroupSize is the number of consecutive environments that share their initial states, which
	// GRPO needs. Default 1.
	GroupSize int `yaml:"group_size"`
	// UseFixedResetStateIDs gives each group the same initial state in every episode. Default
	// false.
	UseFixedResetStateIDs bool `yaml:"use_fixed_reset_state_ids"`
	// Seed determines the initial states. Default 0.
	Seed uint64 `yaml:"seed"`
	// UseRelReward replaces the reward of a step by its change since the step before. The first
	// step of an episode keeps its reward. If rewards measure how near the goal is, the change is
	// the progress towards it. Default false. This key, RewardCoef and RewardClip are for training
	// alone: evaluations do not inherit them.
	UseRelReward bool `yaml:"use_rel_reward"`
	// RewardCoef multiplies every reward. Episode metrics report the task's own rewards. Must not
	// be 0; default 1.
	RewardCoef float32 `yaml:"reward_coef"`
	// RewardClip keeps every reward, after RewardCoef, within ±RewardClip. 0, the default, means no
	// clipping. (+)
	RewardClip float32 `yaml:"reward_clip"`
	// ActionRepeat takes every action that many times, or until the episode ends, and adds up the
	// rewards. Default 1. (+)
	ActionRepeat int `yaml:"action_repeat"`
	// StateElements are the elements of the observation "state" that policies see, in that order,
	// counted from 0: [0, 2] of CartPole-v1 hides its velocities. Default: all. (+)
	StateElements []int `yaml:"state_elements,omitempty"`
	// FrameStack is the number of last observations that policies see together, oldest first, in a
	// new leading dimension. Default 1: the last one alone, without a new dimension. (+)
	FrameStack int `yaml:"frame_stack"`
	// StepDelay makes each step of the batch last at least that long, in place of a slow simulator.
	// Default 0. (+)
	StepDelay time.Duration `yaml:"step_delay"`
	// StepDelayMax makes the durations of steps random, from StepDelay to StepDelayMax. Most are
	// short and few are long: a duration twice as long is half as frequent. It has an effect only
	// together with StepDelay. Default 0: all steps last StepDelay. (+)
	StepDelayMax time.Duration `yaml:"step_delay_max"`
	// VideoCfg configures the films of evaluations; env.train has no films.
	VideoCfg Video `yaml:"video_cfg"`
}

// InitParams are the arguments of an environment.
type InitParams struct {
	// ID is the environment's name in the registry. Default: EnvType.
	ID string `yaml:"id"`

	// Own holds the keys that a user's environment defines itself.
	Own params.Own `yaml:",inline"`
}

// DefaultConfig returns the defaults; TotalNumEnvs, MaxStepsPerRolloutEpoch and the environment's
// name have none.
func DefaultConfig() Config {
	return Config{RolloutEpoch: 1, AutoReset: true, GroupSize: 1, RewardCoef: 1, ActionRepeat: 1, FrameStack: 1,
		VideoCfg: DefaultVideo(), External: DefaultExternal()}
}

// ID returns the environment's name in the registry.
func (c Config) ID() string {
	if c.InitParams.ID != "" {
		return c.InitParams.ID
	}
	return c.EnvType
}

// ExternalID is the name of the environment whose simulators are separate programs.
const ExternalID = "external"

// Values of Config.RewardMode.
const (
	RewardRaw         = "raw"
	RewardOnlySuccess = "only_success"
)

// MixBySuccess is a value of Config.InstructionMix.
const MixBySuccess = "success"

// Plain returns an error if c has a key that only some environments take: a model, a choice of
// observations, or a key of suites.
func (c Config) Plain() error {
	if err := c.NoSuite(); err != nil {
		return err
	}
	switch {
	case c.ModelPath != "":
		return fmt.Errorf("%s has a model of its own and does not take model_path %s", c.ID(), c.ModelPath)
	case len(c.Observations) > 0:
		return fmt.Errorf("%s has fixed observations and does not take observations %v", c.ID(), c.Observations)
	}
	return nil
}

// NoSuite returns an error if c has a key that only suites of instructions take.
func (c Config) NoSuite() error {
	for _, k := range []struct {
		name  string
		given bool
	}{{"instructions", len(c.Instructions) > 0}, {"instruction_mix", c.InstructionMix != ""},
		{"split", c.Split != ""}, {"perturb", c.Perturb != ""}} {
		if k.given {
			return fmt.Errorf("%s is no suite of instructions and does not take %s", c.ID(), k.name)
		}
	}
	return nil
}

// MaxEnvs is the largest number of environments of a job.
const MaxEnvs = 1 << 20

// Check calls the function want once for each rule. The arguments of want are whether the rule holds, the key below
// env.train or env.eval, the key's value, and a description of valid values.
func (c Config) Check(want func(ok bool, key string, value any, want string)) {
	want(c.ID() != "", "env_type", c.EnvType, "the name of an environment")
	want((c.ModelPath == "") == (c.Task == nil), "model_path", c.ModelPath, "a model and a task, or neither")
	if c.Task != nil {
		c.Task.check(below("task", want))
	}
	want(slices.Contains([]string{"", RewardRaw, RewardOnlySuccess}, c.RewardMode), "reward_mode", c.RewardMode,
		"raw or only_success")
	want(slices.Contains([]string{"", MixBySuccess}, c.InstructionMix), "instruction_mix", c.InstructionMix,
		"success, or nothing")
	want(c.InstructionMix == "" || c.GroupSize == 1 && c.AutoReset, "instruction_mix", c.InstructionMix,
		"no mix with group_size > 1 or auto_reset false: the environments of a group start from the same state")
	want(c.TotalNumEnvs > 0 && c.TotalNumEnvs <= MaxEnvs, "total_num_envs", c.TotalNumEnvs,
		fmt.Sprintf("a number from 1 to %d", MaxEnvs))
	want(c.RolloutEpoch > 0, "rollout_epoch", c.RolloutEpoch, "a positive number")
	want(c.MaxStepsPerRolloutEpoch > 0, "max_steps_per_rollout_epoch", c.MaxStepsPerRolloutEpoch, "a positive number")
	want(c.MaxEpisodeSteps >= 0 && c.MaxEpisodeSteps < 1<<31, "max_episode_steps", c.MaxEpisodeSteps,
		"a number of steps, or 0 for the task's own limit")
	want(c.GroupSize > 0, "group_size", c.GroupSize, "a positive number")
	if c.GroupSize > 0 {
		want(c.TotalNumEnvs%c.GroupSize == 0, "total_num_envs", c.TotalNumEnvs,
			fmt.Sprintf("a multiple of group_size %d", c.GroupSize))
	}
	want(finite(c.RewardCoef) && c.RewardCoef != 0, "reward_coef", c.RewardCoef, "a number other than 0")
	want(finite(c.RewardClip) && c.RewardClip >= 0, "reward_clip", c.RewardClip, "a positive number, or 0 for none")
	want(c.ActionRepeat > 0 && c.ActionRepeat <= 1000, "action_repeat", c.ActionRepeat, "a number from 1 to 1000")
	want(c.FrameStack > 0 && c.FrameStack <= 1000, "frame_stack", c.FrameStack, "a number from 1 to 1000")
	want(c.StepDelay >= 0, "step_delay", c.StepDelay, "a duration, as 2ms")
	want(c.StepDelayMax == 0 || c.StepDelayMax >= c.StepDelay, "step_delay_max", c.StepDelayMax,
		fmt.Sprintf("at least %v (step_delay), or 0", c.StepDelay))
	c.External.check(below("external", want))
	want((c.ID() == ExternalID) == !c.External.IsZero(), "env_type", c.EnvType,
		"external, with external.command or external.listen; or neither")
	c.InitParams.Own.Check(below("init_params", want))
	c.VideoCfg.check(below("video_cfg", want))
}

// below returns a want for the keys of a section. It puts the name of the section before each key.
func below(section string, want func(ok bool, key string, value any, want string)) func(bool, string, any, string) {
	return func(ok bool, key string, value any, need string) { want(ok, section+"."+key, value, need) }
}

func finite(x float32) bool { return x-x == 0 }
