package env

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/params"
)

// A Config is the section env.train or env.eval of the configuration. Start from DefaultConfig,
// because some defaults are not zero.
type Config struct {
	// EnvType is the environment's name in the registry, such as CartPole-v1. If InitParams has an
	// ID, EnvType is ignored. (In RLinf, EnvType then names a family of environments.)
	EnvType string `yaml:"env_type"`
	// InitParams are the arguments of the environment.
	InitParams InitParams `yaml:"init_params"`
	// ModelPath is the file of your own model, for environments that load a model: mujoco reads
	// MJCF. Every rank with environments reads the file. (+)
	ModelPath string `yaml:"model_path,omitempty"`
	// Task is the task of the model at ModelPath. (+)
	Task *Task `yaml:"task,omitempty"`
	// External configures the simulators of env_type external. (+)
	External External `yaml:"external,omitempty"`
	// Observations selects observations by name, for environments that offer several. The
	// environment's documentation lists them. Default: the environment's own choice. (+)
	Observations []string `yaml:"observations,omitempty"`
	// Instructions selects and weighs the instructions of a suite: a list of names, or a map from
	// name to weight. Default: all, with equal weights. (+)
	Instructions Mix `yaml:"instructions,omitempty"`
	// InstructionMix adapts the weights of the instructions. With "success", each environment
	// multiplies the weight of an instruction by 0.2 + 4p(1-p). Here p is the share of successes
	// among the environment's last episodes with that instruction. Default: the weights stay. (+)
	InstructionMix string `yaml:"instruction_mix,omitempty"`
	// Split is the name of a subset of the suite's scenes, such as seen or new_role. Episodes are
	// drawn from this subset. The suite's documentation lists the names. Default: the suite's own
	// choice. (+)
	Split string `yaml:"split,omitempty"`
	// Perturb changes one input of the policy on purpose, to measure how much the policy depends on
	// that input. The suite's documentation lists the changes. Default: no change. (+)
	Perturb string `yaml:"perturb,omitempty"`
	// RewardMode is "raw" (default) or "only_success". With "raw", the environment's own rewards
	// stay. With "only_success", the reward is 1 for a successful step and 0 for every other step.
	// The environment must report success.
	RewardMode string `yaml:"reward_mode,omitempty"`
	// TotalNumEnvs is the number of environments of the whole job. It must be positive and has no default.
	TotalNumEnvs int `yaml:"total_num_envs"`
	// RolloutEpoch is the number of rollouts collected for one update. Each rollout has
	// MaxStepsPerRolloutEpoch steps. In an evaluation, RolloutEpoch is the number of episodes that
	// each environment plays, one after the other. Default 1; evaluations do not inherit the value
	// of training.
	RolloutEpoch int `yaml:"rollout_epoch"`
	// MaxStepsPerRolloutEpoch is the number of steps of each environment in one rollout. It must be
	// positive and has no default.
	MaxStepsPerRolloutEpoch int `yaml:"max_steps_per_rollout_epoch"`
	// AutoReset makes an environment start a new episode in the same step that ended the previous
	// one. If it is false, the environment idles until the next rollout, where all environments
	// start new episodes. Default true. Evaluations play whole episodes, and do not inherit the
	// value of training.
	AutoReset bool `yaml:"auto_reset"`
	// IgnoreTerminations makes every episode run until the time limit, even if the task would end
	// it earlier. Default false.
	IgnoreTerminations bool `yaml:"ignore_terminations"`
	// MaxEpisodeSteps is the number of simulator steps after which an episode is truncated. 0, the
	// default, means the task's own limit.
	MaxEpisodeSteps int `yaml:"max_episode_steps"`
	// GroupSize is the number of consecutive environments that share their initial states. GRPO
	// needs such groups. Default 1. Evaluations do not inherit GroupSize and UseFixedResetStateIDs.
	GroupSize int `yaml:"group_size"`
	// UseFixedResetStateIDs gives each group the same initial state in every episode. Default
	// false.
	UseFixedResetStateIDs bool `yaml:"use_fixed_reset_state_ids"`
	// Seed determines the initial states. Default 0.
	Seed uint64 `yaml:"seed"`
	// UseRelReward replaces the reward of each step by the difference from the previous step's
	// reward. The first step of an episode keeps its reward. If rewards measure how near the goal
	// is, the difference is the progress towards the goal. Default false. Evaluations do not
	// inherit UseRelReward, RewardCoef and RewardClip.
	UseRelReward bool `yaml:"use_rel_reward"`
	// RewardCoef multiplies every reward. Episode metrics report the task's own rewards. It must
	// not be 0. Default 1.
	RewardCoef float32 `yaml:"reward_coef"`
	// RewardClip clips every reward to ±RewardClip, after RewardCoef was applied. 0, the default,
	// means no clipping. (+)
	RewardClip float32 `yaml:"reward_clip"`
	// ActionRepeat is the number of times that every action is taken, unless the episode ends
	// earlier. The rewards are added up. Default 1. (+)
	ActionRepeat int `yaml:"action_repeat"`
	// StateElements lists the elements of the observation "state" that policies see, counted from
	// 0. The policies see them in the order of the list. For example, [0, 2] hides the velocities
	// of CartPole-v1. Default: all elements. (+)
	StateElements []int `yaml:"state_elements,omitempty"`
	// FrameStack is the number of most recent observations that policies see together, oldest
	// first, in a new leading dimension. Default 1: only the current observation, without a new
	// dimension. (+)
	FrameStack int `yaml:"frame_stack"`
	// StepDelay is the minimum duration of each step of the batch, to imitate a slow simulator.
	// Default 0. (+)
	StepDelay time.Duration `yaml:"step_delay"`
	// StepDelayMax makes the durations of steps random, from StepDelay to StepDelayMax. Most steps
	// are short and few are long (a Pareto distribution). StepDelayMax needs StepDelay. Default 0:
	// all steps last StepDelay. (+)
	StepDelayMax time.Duration `yaml:"step_delay_max"`
	// Person is a scripted person, who takes over from the policy in some steps. The environment must have an expert.
	// Evaluations do not inherit it. (+)
	Person PersonConfig `yaml:"person"`
	// VideoCfg configures the videos of evaluations. Training makes no videos.
	VideoCfg Video `yaml:"video_cfg"`
	// DataCollection records episodes as demonstrations. Evaluations do not inherit it.
	DataCollection DataCollection `yaml:"data_collection"`
}

// InitParams are the arguments of an environment.
type InitParams struct {
	// ID is the environment's name in the registry. Default: EnvType.
	ID string `yaml:"id"`

	// Own holds the keys that a user's own environment defines.
	Own params.Own `yaml:",inline"`
}

// DefaultConfig returns the defaults. TotalNumEnvs, MaxStepsPerRolloutEpoch and the environment's
// name have no default.
func DefaultConfig() Config {
	return Config{RolloutEpoch: 1, AutoReset: true, GroupSize: 1, RewardCoef: 1, ActionRepeat: 1, FrameStack: 1,
		VideoCfg: DefaultVideo(), External: DefaultExternal(),
		DataCollection: DataCollection{ExportFormat: ExportPickle, FPS: 10}}
}

// ID returns the environment's name in the registry: InitParams.ID, or EnvType if that is empty.
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

// MixBySuccess is the only value of Config.InstructionMix besides "".
const MixBySuccess = "success"

// Plain returns an error if c has a key that is only valid for some environments: a model, a
// selection of observations, or a key that only suites have.
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

// NoSuite returns an error if c has a key that is only valid for suites of instructions.
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

// MaxEnvs is the maximum number of environments of a job.
const MaxEnvs = 1 << 20

// Check validates the values of c. It calls the given function once per rule. The arguments are: whether the rule
// holds, the key below env.train or env.eval, the key's value, and a description of valid values.
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
	c.Person.check(below("person", want))
	want(c.Person.Share <= 0 || c.ID() != ExternalID, "person.share", c.Person.Share,
		"0: the program of the simulator has its own person")
	c.External.check(below("external", want))
	want((c.ID() == ExternalID) == !c.External.IsZero(), "env_type", c.EnvType,
		"external, with external.command or external.listen; or neither")
	c.InitParams.Own.Check(below("init_params", want))
	c.VideoCfg.check(below("video_cfg", want))
	c.DataCollection.check(below("data_collection", want))
}

// below returns a function for Check. The function puts the section and a dot before the key, and then calls want.
func below(section string, want func(ok bool, key string, value any, want string)) func(bool, string, any, string) {
	return func(ok bool, key string, value any, need string) { want(ok, section+"."+key, value, need) }
}

func finite(x float32) bool { return x-x == 0 }
