package algo

import "fmt"

// Config is the section algorithm of the configuration. Start from DefaultConfig, so that a key which is left out has its default.
type Config struct {
	// AdvType says how advantages are computed: gae.
	AdvType string `yaml:"adv_type"`
	// LossType says what is minimised: actor_critic, or actor for the policy's loss alone.
	LossType string `yaml:"loss_type"`

	// Gamma is the discount γ per step, in [0, 1]. Default 1.
	Gamma float32 `yaml:"gamma"`
	// GAELambda is λ of generalised advantage estimation, in [0, 1]: 0 trusts the critic, 1 the rewards. Default 1.
	GAELambda float32 `yaml:"gae_lambda"`
	// BootstrapType is standard (default): an episode that was cut off goes on with the value of its last observation, one that
	// terminated is over; or always: both go on.
	BootstrapType string `yaml:"bootstrap_type"`
	// NormalizeAdvantages is batch (default; also true): mean 0 and deviation 1 over the rollouts of all actors, once; minibatch: over each
	// global batch; none (also false).
	NormalizeAdvantages Normalization `yaml:"normalize_advantages"`
	// NormalizeRewards divides rewards by the running deviation of the discounted return. Default false.
	NormalizeRewards bool `yaml:"normalize_rewards"`
	// RewardClip bounds normalised rewards to ±RewardClip. 0 is no bound. Default 10.
	RewardClip float32 `yaml:"reward_clip"`

	// UpdateEpoch is the number of passes over each rollout. Default 1.
	UpdateEpoch int `yaml:"update_epoch"`
	// ShuffleRollout draws the samples of each global batch at random, anew in each epoch. Default true.
	ShuffleRollout bool `yaml:"shuffle_rollout"`
	// TargetKL ends an update after the epoch whose mean approx_kl exceeds it, on all actors together. 0, the default, never does.
	TargetKL float32 `yaml:"target_kl"`

	// ClipRatioLow is ε⁻: for a negative advantage the ratio π_new/π_old counts down to 1-ε⁻. In (0, 1]. Default 0.2.
	ClipRatioLow float32 `yaml:"clip_ratio_low"`
	// ClipRatioHigh is ε⁺: for a positive advantage the ratio counts up to 1+ε⁺. Must be > 0. Default 0.2.
	ClipRatioHigh float32 `yaml:"clip_ratio_high"`
	// ClipRatioC bounds the loss of a sample with negative advantage to c·|A|. Must be > 1; 0 is no bound. Default 3.
	ClipRatioC float32 `yaml:"clip_ratio_c"`
	// ClipRatioSchedule is constant (default), or linear: both clip ratios go to 0 over optim.total_training_steps.
	ClipRatioSchedule string `yaml:"clip_ratio_schedule"`
	// ClipLogRatioMin and ClipLogRatioMax clamp log π_new/π_old. Both 0, the default, is no clamp.
	ClipLogRatioMin float32 `yaml:"clip_log_ratio_min"`
	ClipLogRatioMax float32 `yaml:"clip_log_ratio_max"`
	// LogProbType says over what the log-probs of a chunk of actions are summed, each sum having a ratio of its own: chunk_level, all;
	// action_level (default), the dimensions of each action; token_level, nothing. The policy is made with it.
	LogProbType string `yaml:"logprob_type"`
	// EntropyBonus weighs the policy's mean entropy, to be kept high. Default 0.
	EntropyBonus float32 `yaml:"entropy_bonus"`

	// ValueClip keeps a new value within ±ValueClip of the old one in the critic's loss. 0, the default, is no clipping.
	ValueClip float32 `yaml:"value_clip"`
	// HuberDelta is where the critic's loss turns from quadratic to linear. 0, the default, is nowhere.
	HuberDelta float32 `yaml:"huber_delta"`
	// ValueLossCoef weighs the critic's loss ½(ret-v)² against the policy's. Default 1.
	ValueLossCoef float32 `yaml:"value_loss_coef"`
}

// DefaultConfig returns the defaults: RLinf's, and a clip ratio of 0.2.
func DefaultConfig() Config {
	return Config{
		AdvType: "gae", LossType: "actor_critic",
		Gamma: 1, GAELambda: 1, BootstrapType: BootstrapStandard, NormalizeAdvantages: NormalizeBatch, RewardClip: 10,
		UpdateEpoch: 1, ShuffleRollout: true,
		ClipRatioLow: 0.2, ClipRatioHigh: 0.2, ClipRatioC: 3, ClipRatioSchedule: ScheduleConstant,
		LogProbType:   "action_level",
		ValueLossCoef: 1,
	}
}

// Values of Config.BootstrapType.
const (
	BootstrapStandard = "standard"
	BootstrapAlways   = "always"
)

// A Normalization says over what advantages are normalised.
type Normalization string

const (
	NormalizeBatch     Normalization = "batch"
	NormalizeMinibatch Normalization = "minibatch"
	NormalizeNone      Normalization = "none"
)

// UnmarshalText reads a Normalization; true and false, as RLinf has them, are batch and none. Anything else is left for Check to find.
func (n *Normalization) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "true":
		*n = NormalizeBatch
	case "false":
		*n = NormalizeNone
	default:
		*n = Normalization(s)
	}
	return nil
}

// A Want receives the outcome of one check: whether ok, the key below the section, its value, and what would be valid.
type Want func(ok bool, key string, value any, want string)

// Check checks every field by itself and those that depend on each other.
func (c *Config) Check(want Want) {
	want(c.Gamma >= 0 && c.Gamma <= 1, "gamma", c.Gamma, "a number in [0, 1]")
	want(c.GAELambda >= 0 && c.GAELambda <= 1, "gae_lambda", c.GAELambda, "a number in [0, 1]")
	want(c.BootstrapType == BootstrapStandard || c.BootstrapType == BootstrapAlways, "bootstrap_type", c.BootstrapType,
		"standard or always")
	switch c.NormalizeAdvantages {
	case NormalizeBatch, NormalizeMinibatch, NormalizeNone:
	default:
		want(false, "normalize_advantages", c.NormalizeAdvantages, "batch, minibatch or none (or true, false)")
	}
	want(c.RewardClip >= 0, "reward_clip", c.RewardClip, "a number >= 0 (0: no bound)")
	want(c.UpdateEpoch > 0, "update_epoch", c.UpdateEpoch, "a number > 0")
	want(c.TargetKL >= 0, "target_kl", c.TargetKL, "a number >= 0 (0: no early stop)")
	want(c.ClipRatioLow > 0 && c.ClipRatioLow <= 1, "clip_ratio_low", c.ClipRatioLow, "a number in (0, 1]")
	want(c.ClipRatioHigh > 0, "clip_ratio_high", c.ClipRatioHigh, "a number > 0")
	want(c.ClipRatioC == 0 || c.ClipRatioC > 1, "clip_ratio_c", c.ClipRatioC, "a number > 1 (0: no bound)")
	want(c.ClipRatioSchedule == ScheduleConstant || c.ClipRatioSchedule == ScheduleLinear, "clip_ratio_schedule", c.ClipRatioSchedule,
		"constant or linear")
	want(c.ClipLogRatioMin <= 0, "clip_log_ratio_min", c.ClipLogRatioMin, "a number <= 0")
	want(c.ClipLogRatioMax >= 0, "clip_log_ratio_max", c.ClipLogRatioMax, "a number >= 0")
	switch c.LogProbType {
	case "chunk_level", "action_level", "token_level":
	default:
		want(false, "logprob_type", c.LogProbType, "chunk_level, action_level or token_level")
	}
	want(c.EntropyBonus >= 0, "entropy_bonus", c.EntropyBonus, "a number >= 0")
	want(c.ValueClip >= 0, "value_clip", c.ValueClip, "a number >= 0 (0: no clipping)")
	want(c.HuberDelta >= 0, "huber_delta", c.HuberDelta, "a number >= 0 (0: no linear part)")
	want(c.ValueLossCoef >= 0, "value_loss_coef", c.ValueLossCoef, "a number >= 0")
}

// OptimConfig is the section actor.optim of the configuration. Start from DefaultOptimConfig.
type OptimConfig struct {
	// LR is the learning rate. Must be > 0; no default.
	LR float32 `yaml:"lr"`
	// ValueLR is the learning rate of the critic's own parameters. 0, the default, is LR.
	ValueLR float32 `yaml:"value_lr"`
	// AdamBeta1 and AdamBeta2 are the decays of the two moments, in [0, 1). Defaults 0.9 and 0.999.
	AdamBeta1 float32 `yaml:"adam_beta1"`
	AdamBeta2 float32 `yaml:"adam_beta2"`
	// AdamEps is added to the root of the second moment. Default 1e-8.
	AdamEps float32 `yaml:"adam_eps"`
	// WeightDecay shrinks parameters by lr·WeightDecay per step, apart from the gradient (AdamW). Default 0.01.
	WeightDecay float32 `yaml:"weight_decay"`
	// ClipGrad bounds the norm of the whole model's gradient. 0 is no bound. Default 1.
	ClipGrad float32 `yaml:"clip_grad"`

	// LRScheduler is constant (default), linear or cosine: from lr to min_lr. A scheduler step is one training iteration.
	LRScheduler string `yaml:"lr_scheduler"`
	// LRWarmupSteps is over how many iterations the rates first rise linearly; they are included in TotalTrainingSteps. <= 0, the default: none.
	LRWarmupSteps int `yaml:"lr_warmup_steps"`
	// TotalTrainingSteps is the iteration at which min_lr is reached. <= 0, the default, is the length of the run.
	TotalTrainingSteps int `yaml:"total_training_steps"`
	// MinLR is the rate at the end of a schedule, at most LR. Default 0.
	MinLR float32 `yaml:"min_lr"`
	// CriticWarmupSteps is for how many optimiser steps the critic alone learns at first; then the moments start anew. Default 0.
	CriticWarmupSteps int `yaml:"critic_warmup_steps"`
}

// DefaultOptimConfig returns the defaults; LR has none.
func DefaultOptimConfig() OptimConfig {
	return OptimConfig{
		AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEps: 1e-8, WeightDecay: 0.01, ClipGrad: 1,
		LRScheduler: ScheduleConstant, LRWarmupSteps: -1, TotalTrainingSteps: -1,
	}
}

// Check checks every field by itself and those that depend on each other.
func (c *OptimConfig) Check(want Want) {
	want(c.LR > 0, "lr", c.LR, "a number > 0")
	want(c.ValueLR >= 0, "value_lr", c.ValueLR, "a number >= 0 (0: lr)")
	want(c.AdamBeta1 >= 0 && c.AdamBeta1 < 1, "adam_beta1", c.AdamBeta1, "a number in [0, 1)")
	want(c.AdamBeta2 >= 0 && c.AdamBeta2 < 1, "adam_beta2", c.AdamBeta2, "a number in [0, 1)")
	want(c.AdamEps > 0, "adam_eps", c.AdamEps, "a number > 0")
	want(c.WeightDecay >= 0, "weight_decay", c.WeightDecay, "a number >= 0")
	want(c.ClipGrad >= 0, "clip_grad", c.ClipGrad, "a number >= 0 (0: no bound)")
	switch c.LRScheduler {
	case ScheduleConstant, ScheduleLinear, ScheduleCosine:
	default:
		want(false, "lr_scheduler", c.LRScheduler, "constant, linear or cosine")
	}
	if c.TotalTrainingSteps > 0 {
		want(c.LRWarmupSteps < c.TotalTrainingSteps, "lr_warmup_steps", c.LRWarmupSteps,
			fmt.Sprintf("fewer than total_training_steps, %d", c.TotalTrainingSteps))
	}
	least, of := c.LR, "lr"
	if c.ValueLR > 0 && c.ValueLR < least {
		least, of = c.ValueLR, "value_lr"
	}
	want(c.LR <= 0 || c.MinLR >= 0 && c.MinLR <= least, "min_lr", c.MinLR, fmt.Sprintf("a number in [0, %g], up to %s", least, of))
	want(c.CriticWarmupSteps >= 0, "critic_warmup_steps", c.CriticWarmupSteps, "a number >= 0")
}
