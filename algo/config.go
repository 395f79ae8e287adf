package algo

import (
	"embed"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/params"
)

// Source holds the files of this package that declare configuration keys. The reference manual is made from the
// comments of the fields.
//
//go:embed config.go text_config.go offpolicy_config.go demos.go dagger.go hindsight.go
var Source embed.FS

// Config is the algorithm section of the configuration. Start from DefaultConfig, so that a key which is left out has
// its default.
type Config struct {
	// AdvType is the estimator of advantages. gae (default) uses a critic, grpo compares the episodes of a group, and
	// reinpp (REINFORCE++) normalises the scores of episodes.
	AdvType string `yaml:"adv_type"`
	// LossType is the loss. actor_critic (default) is PPO's loss of policy and critic. decoupled_actor_critic is the
	// same loss for rollouts of older policies. actor is the policy's loss without a critic, for grpo and reinpp. a2c
	// is the plain policy gradient with the critic's loss, in one step per rollout.
	LossType string `yaml:"loss_type"`

	// Gamma is the discount γ in [0, 1], per chunk or per action (see RewardType). Default 1.
	Gamma float32 `yaml:"gamma"`
	// GAELambda is λ of generalised advantage estimation, in [0, 1]. With 0, advantages depend most on the critic; with
	// 1, most on the rewards. Default 1.
	GAELambda float32 `yaml:"gae_lambda"`
	// BootstrapType is standard (default) or always. With standard, returns include the value of the last observation
	// if the episode was cut off, but not if it terminated. With always, returns include this value in both cases.
	BootstrapType string `yaml:"bootstrap_type"`
	// NormalizeAdvantages is the set of samples over which advantages are normalised to mean 0 and deviation 1: batch
	// (default; also true) is the rollouts of all actors, minibatch is each global batch, and none (also false) means
	// no normalisation. grpo normalises within groups instead, and reinpp always uses batch.
	NormalizeAdvantages Normalization `yaml:"normalize_advantages"`
	// NormalizeRewards divides rewards by the running deviation of the discounted return. Default
	// false. (+)
	NormalizeRewards bool `yaml:"normalize_rewards"`
	// RewardClip bounds normalised rewards to ±RewardClip. 0 means no bound. Default 10. (+)
	RewardClip float32 `yaml:"reward_clip"`

	// FilterRewards drops groups whose mean score is not in [RewardsLowerBound, RewardsUpperBound]. With group_size 1,
	// a group is one episode. For grpo and reinpp. Default false.
	FilterRewards     bool    `yaml:"filter_rewards"`
	RewardsLowerBound float32 `yaml:"rewards_lower_bound"`
	RewardsUpperBound float32 `yaml:"rewards_upper_bound"`
	// MaxNumGenBatches is the largest number of rollouts for an update (DAPO's dynamic sampling). If it is more than 1,
	// a group whose episodes all score the same is replaced by a group of another rollout. A group without a
	// replacement is not trained on. For grpo, with rollout_epoch 1. The metric rollout/gen_batches is the number of
	// rollouts made; env/steps counts only one of them. Default 1.
	MaxNumGenBatches int `yaml:"max_num_gen_batches"`
	// LenRewardPenalty is subtracted from the score of an episode of MaxLength steps or more. Between SafeLength and
	// MaxLength steps the penalty rises linearly from 0 (DAPO's soft overlong punishment). For grpo and reinpp. Default
	// 0.
	LenRewardPenalty float32 `yaml:"len_reward_penalty"`
	SafeLength       int     `yaml:"safe_length"`
	MaxLength        int     `yaml:"max_length"`
	// UseReinppBaseline makes reinpp subtract the mean score of the group. Default false.
	UseReinppBaseline bool `yaml:"use_reinpp_baseline"`
	// ReinppKLBeta weighs the penalty on log π/π_ref that reinpp subtracts from each step's return;
	// see KLBeta. Default 0.
	ReinppKLBeta float32 `yaml:"reinpp_kl_beta"`
	// RecomputeAdvantages computes advantages again before each epoch but the first, with the critic at that time. For
	// gae. Default false. (+)
	RecomputeAdvantages bool `yaml:"recompute_advantages"`

	// KLBeta weighs a penalty in the loss: the KL divergence from the reference policy, which is the policy before the
	// first iteration of the run (see runner.ckpt_path). Default 0.
	KLBeta float32 `yaml:"kl_beta"`
	// KLPenaltyType is the estimator of the divergence that KLBeta weighs: kl (also k1), abs, mse (k2) or low_var_kl
	// (k3). Default low_var_kl. kl has no effect on average, because the mean of its gradient is 0. ReinppKLBeta always
	// uses kl in environments.
	KLPenaltyType string `yaml:"kl_penalty_type"`
	// LossAggFunc is the aggregate of the losses of samples. token-mean (default) is the mean over all samples.
	// seq-mean-token-mean is the mean over each episode, then the mean over episodes, so that short and long episodes
	// have the same weight. seq-mean-token-sum is the sum over each episode, then the mean over episodes.
	LossAggFunc string `yaml:"loss_agg_func"`

	// UpdateEpoch is the number of passes over each rollout. Default 1.
	UpdateEpoch int `yaml:"update_epoch"`
	// ShuffleRollout divides the samples into global batches at random, in a new order in each epoch. Default true.
	ShuffleRollout bool `yaml:"shuffle_rollout"`
	// SequenceLength is the number of successive steps of an environment that a recurrent policy (rnn_policy) learns
	// from at once. Its gradient goes back through these steps, and the hidden state before them is a constant. The
	// steps of an iteration and actor.micro_batch_size must be multiples of SequenceLength. 0, the default, means all
	// steps of the iteration. (+)
	SequenceLength int `yaml:"sequence_length"`
	// TargetKL is a limit of approx_kl: an update ends on all actors after an epoch whose mean approx_kl exceeds
	// TargetKL. 0, the default, means no limit. (+)
	TargetKL float32 `yaml:"target_kl"`

	// ClipRatioLow is ε⁻, in (0, 1]: for a negative advantage, a ratio π_new/π_old below 1-ε⁻ is clipped to 1-ε⁻.
	// Default 0.2.
	ClipRatioLow float32 `yaml:"clip_ratio_low"`
	// ClipRatioHigh is ε⁺: for a positive advantage, a ratio above 1+ε⁺ is clipped to 1+ε⁺. Must be
	// > 0. Default 0.2.
	ClipRatioHigh float32 `yaml:"clip_ratio_high"`
	// ClipRatioC is c: the loss of a sample with negative advantage A is at most c·|A|. Must be >
	// 1; 0 means no bound. Default 3.
	ClipRatioC float32 `yaml:"clip_ratio_c"`
	// ClipRatioSchedule is constant (default), or linear: both clip ratios go to 0 over
	// optim.total_training_steps. (+)
	ClipRatioSchedule string `yaml:"clip_ratio_schedule"`
	// ClipLogRatioMin and ClipLogRatioMax clamp log π_new/π_old. Both 0, the default, means no
	// clamp.
	ClipLogRatioMin float32 `yaml:"clip_log_ratio_min"`
	ClipLogRatioMax float32 `yaml:"clip_log_ratio_max"`
	// BehaveWeightThreshold is the largest importance weight in decoupled_actor_critic. Samples with a larger weight
	// are dropped. 0, the default, drops nothing.
	BehaveWeightThreshold float32 `yaml:"behave_weight_threshold"`
	// RecomputeLogprobs clips the probability ratio around the policy before the update. This takes one more forward
	// pass. If the component "inference" is placed, it makes this pass. With false, the default, the clip is around the
	// policy that took the actions, which may be older. With false and decoupled_actor_critic, the clip is around an
	// interpolated policy. For a rollout that is d iterations old, this policy is d/(d+1) of the way from the policy
	// that took the actions to the policy in training.
	RecomputeLogprobs bool `yaml:"recompute_logprobs"`
	// LogProbType is the unit whose log-probs are summed into one probability ratio. The unit is a chunk of actions
	// with chunk_level, an action with action_level (default), and a dimension of an action with token_level.
	LogProbType string `yaml:"logprob_type"`
	// EntropyType is the unit whose entropies are summed, with the same values as LogProbType. EntropyBonus weighs the
	// mean of these sums. Default: the value of LogProbType.
	EntropyType string `yaml:"entropy_type"`
	// RewardType is chunk_level (default) or action_level. With chunk_level, the rewards of the actions of a chunk are
	// added up, and Gamma discounts chunks. With action_level, each action has its own reward, value and advantage, and
	// Gamma discounts actions. Actions after the end of an episode are then not trained on, and LogProbType must not be
	// chunk_level. With chunks of one action, the two types are the same.
	RewardType string `yaml:"reward_type"`
	// EntropyBonus is the weight of the policy's mean entropy. The loss includes minus EntropyBonus times this mean.
	// Default 0.
	EntropyBonus float32 `yaml:"entropy_bonus"`

	// ValueClip keeps a new value within ±ValueClip of the old value in the critic's loss. 0, the default, means no
	// clipping.
	ValueClip float32 `yaml:"value_clip"`
	// HuberDelta is the error at which the critic's loss turns from quadratic to linear. With 0,
	// the default, the loss is quadratic everywhere.
	HuberDelta float32 `yaml:"huber_delta"`
	// ValueLossCoef weighs the critic's loss ½(ret-v)² against the policy's. Default 1. (+)
	ValueLossCoef float32 `yaml:"value_loss_coef"`

	// OffPolicy is for algorithms that learn from a replay buffer.
	OffPolicy OffPolicyConfig `yaml:",inline"`

	// Own holds the keys of a user's own algorithm.
	Own params.Own `yaml:",inline"`
}

// DefaultConfig returns RLinf's defaults, with a clip ratio of 0.2.
func DefaultConfig() Config {
	return Config{
		AdvType: "gae", LossType: "actor_critic",
		Gamma: 1, GAELambda: 1, BootstrapType: BootstrapStandard, NormalizeAdvantages: NormalizeBatch, RewardClip: 10,
		UpdateEpoch: 1, ShuffleRollout: true,
		ClipRatioLow: 0.2, ClipRatioHigh: 0.2, ClipRatioC: 3, ClipRatioSchedule: ScheduleConstant,
		LogProbType: ActionLevel, RewardType: ChunkLevel,
		MaxNumGenBatches: 1, KLPenaltyType: KLK3, LossAggFunc: TokenMean,
		ValueLossCoef: 1,
		OffPolicy:     defaultOffPolicy(),
	}
}

// decoupledActorCritic is the LossType of the surrogate Decoupled.
const decoupledActorCritic = "decoupled_actor_critic"

// Values of Config.LogProbType and Config.EntropyType. The first two are also values of Config.RewardType.
const (
	ChunkLevel  = "chunk_level"
	ActionLevel = "action_level"
	TokenLevel  = "token_level"
)

// Values of Config.BootstrapType.
const (
	BootstrapStandard = "standard"
	BootstrapAlways   = "always"
)

// A Normalization is the set of samples over which advantages are normalised.
type Normalization string

const (
	NormalizeBatch     Normalization = "batch"
	NormalizeMinibatch Normalization = "minibatch"
	NormalizeNone      Normalization = "none"
)

// UnmarshalText reads a Normalization. RLinf's true becomes batch, and false becomes none. Config.CheckValues reports
// unknown names.
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

// A Want receives the result of one check: ok tells whether the value is valid, key is its name within the section, and
// want describes valid values.
type Want func(ok bool, key string, value any, want string)

// finite returns a Want that passes each check on to want, and rejects numbers that are not finite.
func (want Want) finite() Want {
	return func(ok bool, key string, value any, what string) {
		switch x := value.(type) {
		case float32:
			if bad(x) {
				ok, what = false, "a finite number"
			}
		case float64:
			if bad(float32(x)) {
				ok, what = false, "a finite number"
			}
		}
		want(ok, key, value, what)
	}
}

// Check validates all fields, and calls want with each result. Only RewardsLowerBound and RewardsUpperBound may be
// infinite.
func (c *Config) Check(want Want) {
	c.CheckValues(want)
	c.checkPair(want.finite())
}

// CheckValues is Check without the rules that depend on AdvType and LossType. Use it if AdvType and LossType do not
// name an algorithm.
func (c *Config) CheckValues(want Want) {
	want(!c.FilterRewards || c.RewardsLowerBound <= c.RewardsUpperBound, "rewards_upper_bound", c.RewardsUpperBound,
		fmt.Sprintf("at least rewards_lower_bound, %g", c.RewardsLowerBound))
	want = want.finite()
	want(c.Gamma >= 0 && c.Gamma <= 1, "gamma", c.Gamma, "a number in [0, 1]")
	want(c.GAELambda >= 0 && c.GAELambda <= 1, "gae_lambda", c.GAELambda, "a number in [0, 1]")
	want(c.BootstrapType == BootstrapStandard || c.BootstrapType == BootstrapAlways, "bootstrap_type", c.BootstrapType,
		"standard or always")
	want(slices.Contains([]Normalization{NormalizeBatch, NormalizeMinibatch, NormalizeNone}, c.NormalizeAdvantages),
		"normalize_advantages", c.NormalizeAdvantages, "batch, minibatch or none (or true, false)")
	want(c.RewardClip >= 0, "reward_clip", c.RewardClip, "a number >= 0 (0: no bound)")
	want(c.MaxNumGenBatches >= 1, "max_num_gen_batches", c.MaxNumGenBatches, wantGenBatches)
	want(c.LenRewardPenalty >= 0, "len_reward_penalty", c.LenRewardPenalty, wantLenPenalty)
	if c.LenRewardPenalty > 0 {
		want(c.SafeLength >= 0, "safe_length", c.SafeLength, "a number of steps >= 0")
		want(c.MaxLength > c.SafeLength, "max_length", c.MaxLength, fmt.Sprintf("more steps than safe_length, %d",
			c.SafeLength))
	}
	want(c.ReinppKLBeta >= 0, "reinpp_kl_beta", c.ReinppKLBeta, wantReinppKLBeta)
	want(c.BehaveWeightThreshold >= 0, "behave_weight_threshold", c.BehaveWeightThreshold, wantBehaveWeight)
	want(c.KLBeta >= 0, "kl_beta", c.KLBeta, "a number >= 0")
	want(klName(c.KLPenaltyType) != "", "kl_penalty_type", c.KLPenaltyType,
		"kl, abs, mse or low_var_kl (also k1, k2, k3)")
	want(slices.Contains([]string{TokenMean, SeqMeanTokenSum, SeqMeanTokenMean}, c.LossAggFunc), "loss_agg_func",
		c.LossAggFunc, "token-mean, seq-mean-token-sum or seq-mean-token-mean")
	want(c.UpdateEpoch > 0, "update_epoch", c.UpdateEpoch, "a number > 0")
	want(c.SequenceLength >= 0, "sequence_length", c.SequenceLength, "a number of steps, or 0 for all of an iteration")
	want(c.TargetKL >= 0, "target_kl", c.TargetKL, "a number >= 0 (0: no early stop)")
	want(c.ClipRatioLow > 0 && c.ClipRatioLow <= 1, "clip_ratio_low", c.ClipRatioLow, "a number in (0, 1]")
	want(c.ClipRatioHigh > 0, "clip_ratio_high", c.ClipRatioHigh, "a number > 0")
	want(c.ClipRatioC == 0 || c.ClipRatioC > 1, "clip_ratio_c", c.ClipRatioC, "a number > 1 (0: no bound)")
	want(c.ClipRatioSchedule == ScheduleConstant || c.ClipRatioSchedule == ScheduleLinear, "clip_ratio_schedule",
		c.ClipRatioSchedule, "constant or linear")
	want(c.ClipLogRatioMin <= 0, "clip_log_ratio_min", c.ClipLogRatioMin, "a number <= 0")
	want(c.ClipLogRatioMax >= 0, "clip_log_ratio_max", c.ClipLogRatioMax, "a number >= 0")
	level := func(key, level string) {
		want(level == ChunkLevel || level == ActionLevel || level == TokenLevel, key, level,
			"chunk_level, action_level or token_level")
	}
	level("logprob_type", c.LogProbType)
	if c.EntropyType != "" && c.EntropyType != c.LogProbType {
		level("entropy_type", c.EntropyType)
	}
	want(c.RewardType == ChunkLevel || c.RewardType == ActionLevel, "reward_type", c.RewardType,
		"chunk_level or action_level")
	want(c.EntropyBonus >= 0, "entropy_bonus", c.EntropyBonus, "a number >= 0")
	want(c.ValueClip >= 0, "value_clip", c.ValueClip, "a number >= 0 (0: no clipping)")
	want(c.HuberDelta >= 0, "huber_delta", c.HuberDelta, "a number >= 0 (0: no linear part)")
	want(c.ValueLossCoef >= 0, "value_loss_coef", c.ValueLossCoef, "a number >= 0")
	c.Own.Check(want)
}

// The valid values of keys that only some algorithms use.
const (
	wantGenBatches   = "a number > 0, and 1 without adv_type grpo"
	wantLenPenalty   = "a number >= 0, with adv_type grpo or reinpp; else 0"
	wantReinppKLBeta = "a number >= 0, with adv_type reinpp; else 0"
	wantBehaveWeight = "a number > 0 with loss_type " + decoupledActorCritic + "; else 0"
)

// checkPair validates the keys that only some algorithms use.
func (c *Config) checkPair(want Want) {
	grpo, reinpp, decoupled := c.AdvType == "grpo", c.AdvType == "reinpp", c.LossType == decoupledActorCritic
	want(!c.FilterRewards || grpo || reinpp, "filter_rewards", c.FilterRewards,
		"false (adv_type "+c.AdvType+" does not compare episodes)")
	want(c.MaxNumGenBatches <= 1 || grpo, "max_num_gen_batches", c.MaxNumGenBatches, wantGenBatches)
	want(!(c.LenRewardPenalty > 0) || grpo || reinpp, "len_reward_penalty", c.LenRewardPenalty, wantLenPenalty)
	want(!c.UseReinppBaseline || reinpp, "use_reinpp_baseline", c.UseReinppBaseline, "false (adv_type "+c.AdvType+")")
	want(!(c.ReinppKLBeta > 0) || reinpp, "reinpp_kl_beta", c.ReinppKLBeta, wantReinppKLBeta)
	want(!c.RecomputeAdvantages || c.AdvType == "gae" && (c.LossType == "actor_critic" || decoupled),
		"recompute_advantages", c.RecomputeAdvantages,
		"false (without adv_type gae and loss_type actor_critic there is no critic to ask again)")
	want(!(c.BehaveWeightThreshold > 0) || decoupled, "behave_weight_threshold", c.BehaveWeightThreshold,
		wantBehaveWeight)
	want(!c.RecomputeLogprobs || decoupled || c.LossType == "actor" || c.LossType == "actor_critic",
		"recompute_logprobs", c.RecomputeLogprobs, "false (loss_type "+c.LossType+")")
	want(c.UpdateEpoch <= 1 || c.LossType != "a2c", "update_epoch", c.UpdateEpoch,
		"1 (loss_type a2c is right for samples of the present policy alone)")
}

// OptimConfig is the section actor.optim of the configuration. Start from DefaultOptimConfig.
type OptimConfig struct {
	// LR is the learning rate. Must be > 0; no default.
	LR float32 `yaml:"lr"`
	// ValueLR is the learning rate of the parameter group "critic". 0, the default, means LR.
	ValueLR float32 `yaml:"value_lr"`
	// VisionLR is the learning rate of the parameter group "vision" of vla_policy; see freeze_vision. 0, the default,
	// means LR. (+)
	VisionLR float32 `yaml:"vision_lr"`
	// AdamBeta1 and AdamBeta2 are the decays of the two moments, in [0, 1). Defaults 0.9 and 0.999.
	AdamBeta1 float32 `yaml:"adam_beta1"`
	AdamBeta2 float32 `yaml:"adam_beta2"`
	// AdamEps is added to the root of the second moment. Default 1e-8.
	AdamEps float32 `yaml:"adam_eps"`
	// WeightDecay shrinks parameters by lr·WeightDecay per step, independently of the gradient (AdamW). Default 0.01.
	WeightDecay float32 `yaml:"weight_decay"`
	// ClipGrad bounds the norm of the whole model's gradient. 0 means no bound. Default 1.
	ClipGrad float32 `yaml:"clip_grad"`

	// LRScheduler is constant (default), linear or cosine. linear and cosine lower the learning rate from lr to min_lr.
	// A scheduler step is one training iteration. RLinf's names torch_constant and torch_cosine mean constant and
	// cosine.
	LRScheduler ScheduleName `yaml:"lr_scheduler"`
	// LRWarmupSteps is the number of iterations at the start in which the rates rise linearly. TotalTrainingSteps
	// includes these iterations. <= 0, the default, means no warm-up.
	LRWarmupSteps int `yaml:"lr_warmup_steps"`
	// TotalTrainingSteps is the iteration at which min_lr is reached. <= 0, the default, means the
	// length of the run.
	TotalTrainingSteps int `yaml:"total_training_steps"`
	// MinLR is the rate at the end of a schedule, at most LR. Default 0.
	MinLR float32 `yaml:"min_lr"`
	// CriticWarmupSteps is the number of optimiser steps at the start in which only the critic learns. Then the
	// optimiser's moments are reset. Default 0.
	CriticWarmupSteps int `yaml:"critic_warmup_steps"`
	// UseDistributedOptimizer shards the optimiser of a language model over the replicas: each replica keeps the
	// moments of its shard, and updates only this shard. This changes no result. Other models ignore this key. Default
	// false.
	UseDistributedOptimizer bool `yaml:"use_distributed_optimizer"`
}

// DefaultOptimConfig returns the defaults. LR has no default, and is 0.
func DefaultOptimConfig() OptimConfig {
	return OptimConfig{
		AdamBeta1: 0.9, AdamBeta2: 0.999, AdamEps: 1e-8, WeightDecay: 0.01, ClipGrad: 1,
		LRScheduler: ScheduleConstant, LRWarmupSteps: -1, TotalTrainingSteps: -1,
	}
}

// CriticLR returns the learning rate of critics.
func (c *OptimConfig) CriticLR() float32 {
	if c.ValueLR == 0 {
		return c.LR
	}
	return c.ValueLR
}

// Share returns the range [lo, hi) of a language model's n parameters that this replica updates. The replica keeps the
// optimiser's moments of these parameters. Without UseDistributedOptimizer the range is [0, n).
func (c *OptimConfig) Share(n int, r Replicas) (lo, hi int) {
	if !c.UseDistributedOptimizer {
		return 0, n
	}
	replicas, this := r.Count()
	return shareOf(n, replicas, this)
}

// shareOf returns the shard [lo, hi) of n parameters that belongs to the replica with the given index. Shards begin at
// multiples of 64 bytes.
func shareOf(n, replicas, index int) (lo, hi int) {
	const line = 16
	lines := (n + line - 1) / line
	return index * lines / replicas * line, min((index+1)*lines/replicas*line, n)
}

// Check validates all fields, and calls want with each result.
func (c *OptimConfig) Check(want Want) {
	want = want.finite()
	want(c.LR > 0, "lr", c.LR, "a number > 0")
	want(c.ValueLR >= 0, "value_lr", c.ValueLR, "a number >= 0 (0: lr)")
	want(c.VisionLR >= 0, "vision_lr", c.VisionLR, "a number >= 0 (0: lr)")
	want(c.AdamBeta1 >= 0 && c.AdamBeta1 < 1, "adam_beta1", c.AdamBeta1, "a number in [0, 1)")
	want(c.AdamBeta2 >= 0 && c.AdamBeta2 < 1, "adam_beta2", c.AdamBeta2, "a number in [0, 1)")
	want(c.AdamEps > 0, "adam_eps", c.AdamEps, "a number > 0")
	want(c.WeightDecay >= 0, "weight_decay", c.WeightDecay, "a number >= 0")
	want(c.ClipGrad >= 0, "clip_grad", c.ClipGrad, "a number >= 0 (0: no bound)")
	want(slices.Contains([]ScheduleName{ScheduleConstant, ScheduleLinear, ScheduleCosine}, c.LRScheduler),
		"lr_scheduler", c.LRScheduler, "constant, linear or cosine")
	if c.TotalTrainingSteps > 0 {
		want(c.LRWarmupSteps < c.TotalTrainingSteps, "lr_warmup_steps", c.LRWarmupSteps,
			fmt.Sprintf("fewer than total_training_steps, %d", c.TotalTrainingSteps))
	}
	least, of := c.LR, "lr"
	if c.ValueLR > 0 && c.ValueLR < least {
		least, of = c.ValueLR, "value_lr"
	}
	if c.VisionLR > 0 && c.VisionLR < least {
		least, of = c.VisionLR, "vision_lr"
	}
	want(c.LR <= 0 || c.MinLR >= 0 && c.MinLR <= least, "min_lr", c.MinLR, fmt.Sprintf("a number in [0, %g], up to %s",
		least, of))
	want(c.CriticWarmupSteps >= 0, "critic_warmup_steps", c.CriticWarmupSteps, "a number >= 0")
}
