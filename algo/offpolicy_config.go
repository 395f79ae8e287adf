package algo

import "fmt"

// OffPolicyConfig has the keys of the algorithm section for algorithms that learn from a replay buffer or from
// demonstrations. Start from DefaultConfig.
type OffPolicyConfig struct {
	// ReplayBuffer is the buffer of experience.
	ReplayBuffer ReplayConfig `yaml:"replay_buffer"`
	// Demos sets the demonstrations.
	Demos DemoConfig `yaml:"demo_buffer"`
	// Dagger sets the probability that an expert acts.
	Dagger DaggerConfig `yaml:"dagger"`
	// NStep is the number of rewards in a critic's target (n-step return). The critic's estimate replaces all later
	// rewards. Default 1. (+)
	NStep int `yaml:"n_step"`
	// Tau is τ in (0, 1]: a step of a target network is Q' ← Q' + τ (Q - Q'). Default 0.005.
	Tau float32 `yaml:"tau"`
	// TargetUpdateFreq is the number of updates between two steps of the target networks. Default 1. TD3 does not read
	// it: its target networks follow every CriticActorRatio updates.
	TargetUpdateFreq int `yaml:"target_update_freq"`
	// TargetUpdateType says what a target network copies, if the policy has an encoder. all, the default, copies the
	// encoder and the critics. q_head_only copies the critics, which then read the encoder in training.
	TargetUpdateType string `yaml:"target_update_type"`
	// CriticActorRatio is the number of critic updates per actor update. Default 1.
	CriticActorRatio int `yaml:"critic_actor_ratio"`
	// TrainActorSteps is the iteration, counted from 1, in which the actor begins to learn. With 0, the default, the
	// actor begins together with the critic; see MinBufferSize.
	TrainActorSteps int `yaml:"train_actor_steps"`
	// AggQ is the function that combines the critics' estimates in targets: min (default) or mean. ActorAggQ combines
	// them in the actor's loss; its default is AggQ.
	AggQ      string `yaml:"agg_q"`
	ActorAggQ string `yaml:"actor_agg_q"`
	// CriticSubsampleSize is the number of critics in targets, drawn at random for each update (REDQ). -1, the default,
	// and 0 mean all critics.
	CriticSubsampleSize int `yaml:"critic_subsample_size"`
	// BackupEntropy adds the entropy of the next action to targets. Default true.
	BackupEntropy bool `yaml:"backup_entropy"`
	// DoubleQ makes DQN's targets use the action that the network chooses. With false, they use the action that the
	// target network chooses. Default true. (+)
	DoubleQ bool `yaml:"double_q"`
	// TargetNoise is the deviation of the noise that TD3's targets add to actions in [-1, 1]. The
	// noise is clipped to ±TargetNoiseClip. Defaults 0.2 and 0.5. (+)
	TargetNoise     float32 `yaml:"target_noise"`
	TargetNoiseClip float32 `yaml:"target_noise_clip"`
	// Expectile is IQL's τ, in (0, 1). With ½, the value of a state is the value of the average action taken there.
	// Near 1, it is the value of the best action taken there. Default 0.7.
	Expectile float32 `yaml:"expectile"`
	// Temperature is IQL's β ≥ 0. A larger β gives better actions more weight. 0 means behaviour cloning. Default 3.
	Temperature float32 `yaml:"temperature"`
	// EntropyTuning sets the temperature α, which weighs the policy's entropy against rewards.
	EntropyTuning EntropyConfig `yaml:"entropy_tuning"`
}

// ReplayConfig is the section algorithm.replay_buffer. Sizes are in iterations; RLinf's sizes are in trajectories. In
// each iteration the buffer of an actor gets one rollout of each of its environments.
type ReplayConfig struct {
	// SampleWindowSize is the size of the buffer: it holds the transitions of the last SampleWindowSize iterations.
	// Transitions are drawn uniformly. Images are stored once, with room for episodes of 25 steps or more; of shorter
	// episodes it holds fewer transitions. Must be > 0; no default.
	SampleWindowSize int `yaml:"sample_window_size"`
	// MinBufferSize is the number of iterations after which learning begins. Default 100.
	MinBufferSize int `yaml:"min_buffer_size"`
	// Hindsight replaces goals by goals that were achieved.
	Hindsight HindsightConfig `yaml:"hindsight"`
}

// EntropyConfig is the section algorithm.entropy_tuning.
type EntropyConfig struct {
	// AlphaType is the function that keeps a learnt α positive: softplus (default) or exp. With fixed_alpha, α stays
	// InitialAlpha.
	AlphaType string `yaml:"alpha_type"`
	// InitialAlpha is the first value of α. Must be > 0. Default 0.01.
	InitialAlpha float32 `yaml:"initial_alpha"`
	// TargetEntropy is the value near which α keeps the policy's entropy, for actions scaled to [-1, 1]. 0, the
	// default, means minus the number of dimensions of an action.
	TargetEntropy float32 `yaml:"target_entropy"`
	// Optim is α's optimiser. A key that is left out has the value of the same key in actor.optim.
	Optim OptimConfig `yaml:"optim"`
}

// Values of OffPolicyConfig.AggQ, OffPolicyConfig.TargetUpdateType and EntropyConfig.AlphaType.
const (
	AggMin  = "min"
	AggMean = "mean"

	TargetAll       = "all"
	TargetQHeadOnly = "q_head_only"

	AlphaSoftplus = "softplus"
	AlphaExp      = "exp"
	AlphaFixed    = "fixed_alpha"
)

func defaultOffPolicy() OffPolicyConfig {
	return OffPolicyConfig{
		ReplayBuffer: ReplayConfig{MinBufferSize: 100, Hindsight: HindsightConfig{NSampledGoal: 4}},
		Demos:        DemoConfig{MinBufferSize: 1},
		Dagger:       DaggerConfig{InitBeta: 0.5, BetaSchedule: BetaExponential, BetaDecay: 0.99, BetaMin: 0.05},
		NStep:        1, Tau: 0.005, TargetUpdateFreq: 1, TargetUpdateType: TargetAll, CriticActorRatio: 1,
		AggQ: AggMin, CriticSubsampleSize: -1, BackupEntropy: true, DoubleQ: true, TargetNoise: 0.2,
		TargetNoiseClip: 0.5,
		Expectile:       0.7, Temperature: 3,
		EntropyTuning: EntropyConfig{AlphaType: AlphaSoftplus, InitialAlpha: 0.01, Optim: DefaultOptimConfig()},
	}
}

// check validates each field, and fields that depend on each other.
func (c *ReplayConfig) check(want Want) {
	want(c.SampleWindowSize > 0, "replay_buffer.sample_window_size", c.SampleWindowSize, "a number of iterations > 0")
	want(c.MinBufferSize >= 0 && (c.SampleWindowSize <= 0 || c.MinBufferSize <= c.SampleWindowSize),
		"replay_buffer.min_buffer_size", c.MinBufferSize,
		fmt.Sprintf("a number of iterations in [0, %d], up to sample_window_size", max(c.SampleWindowSize, 0)))
	c.Hindsight.check(want)
}

// Check validates each field, and fields that depend on each other. With offline it skips the replay buffer and α's
// optimiser.
func (c *OffPolicyConfig) Check(want Want, offline bool) {
	want = want.finite()
	if !offline {
		c.ReplayBuffer.check(want)
	}
	c.Demos.Check(want)
	c.Dagger.check(want)
	want(c.NStep > 0, "n_step", c.NStep, "a number > 0")
	want(c.Tau > 0 && c.Tau <= 1, "tau", c.Tau, "a number in (0, 1]")
	want(c.TargetUpdateFreq > 0, "target_update_freq", c.TargetUpdateFreq, "a number > 0")
	want(c.TargetUpdateType == TargetAll || c.TargetUpdateType == TargetQHeadOnly, "target_update_type",
		c.TargetUpdateType, "all or q_head_only")
	want(c.CriticActorRatio > 0, "critic_actor_ratio", c.CriticActorRatio, "a number > 0")
	want(c.TrainActorSteps >= 0, "train_actor_steps", c.TrainActorSteps, "a number >= 0")
	want(c.AggQ == AggMin || c.AggQ == AggMean, "agg_q", c.AggQ, "min or mean")
	want(c.ActorAggQ == "" || c.ActorAggQ == AggMin || c.ActorAggQ == AggMean, "actor_agg_q", c.ActorAggQ,
		"min or mean")
	want(c.CriticSubsampleSize >= -1, "critic_subsample_size", c.CriticSubsampleSize, "a number > 0 (-1 or 0: all)")
	want(c.TargetNoise >= 0, "target_noise", c.TargetNoise, "a number >= 0")
	want(c.TargetNoiseClip >= 0, "target_noise_clip", c.TargetNoiseClip, "a number >= 0")
	want(c.Expectile > 0 && c.Expectile < 1, "expectile", c.Expectile, "a number in (0, 1)")
	want(c.Temperature >= 0, "temperature", c.Temperature, "a number >= 0")
	e := &c.EntropyTuning
	want(e.AlphaType == AlphaSoftplus || e.AlphaType == AlphaExp || e.AlphaType == AlphaFixed,
		"entropy_tuning.alpha_type", e.AlphaType, "softplus, exp or fixed_alpha")
	want(e.InitialAlpha > 0, "entropy_tuning.initial_alpha", e.InitialAlpha, "a number > 0")
	want(!bad(e.TargetEntropy), "entropy_tuning.target_entropy", e.TargetEntropy, "a finite number")
	if e.AlphaType != AlphaFixed && !offline {
		e.Optim.Check(func(ok bool, key string, value any, what string) {
			want(ok, "entropy_tuning.optim."+key, value, what)
		})
	}
}
