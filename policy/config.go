package policy

import (
	"embed"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/nn"
)

// Source holds the files of this package that declare configuration keys. The comments of the fields are the user
// documentation of these keys.
//
//go:embed config.go
var Source embed.FS

// A Config describes a network. Its fields are the keys of actor.model. Decode into DefaultConfig(), because 0 and
// false are valid values of many keys.
type Config struct {
	// ModelType names the kind of network in a Registry. mlp_policy, the default, takes numbers and choices. cnn_policy
	// also takes images.
	ModelType string `yaml:"model_type"`
	// Encoder is the network that computes image features in cnn_policy: nature_cnn (default), impala (a residual
	// network) or keypoints (the positions at which its channels respond). Choices (I32), such as words, modulate the
	// image features. The choices also have 32 features of their own. Actor and critic share all features. The layers
	// of hidden_sizes read the features and the numbers. (+)
	Encoder string `yaml:"encoder"`
	// ObsDim, if not 0, must be the number of elements of an observation: one per number and one per option of each
	// choice. With cnn_policy only the numbers count.
	ObsDim int `yaml:"obs_dim"`
	// ActionDim, if not 0, must be the size of the environment's actions: the number of elements of a box, the number
	// of options of a discrete action, or the number of choices in a multi-discrete action.
	ActionDim int `yaml:"action_dim"`
	// NumActionChunks is C, the number of actions that the policy chooses from one observation. The environment takes
	// them one after the other. Default 1.
	NumActionChunks int `yaml:"num_action_chunks"`
	// HiddenSizes are the widths of the hidden layers of both actor and critic. Default [64, 64]. [] makes a linear
	// policy. (+)
	HiddenSizes []int `yaml:"hidden_sizes"`
	// HiddenDim is RLinf's alternative to HiddenSizes: it gives mlp_policy three hidden layers of this width. It
	// applies only if hidden_sizes is not given. 0 (default) means that hidden_dim is not given.
	HiddenDim int `yaml:"hidden_dim,omitempty"`
	// Activation is the activation function after each hidden layer: tanh, the default, or relu.
	Activation string `yaml:"activation"`
	// ShareTrunk makes actor and critic share the hidden layers; each has a head of its own. If it is false (default),
	// actor and critic are two networks. rnn_policy requires true. (+)
	ShareTrunk bool `yaml:"share_trunk"`
	// RNNType is the recurrent layer of rnn_policy, after the hidden layers: gru (default) or lstm.
	// (+)
	RNNType string `yaml:"rnn_type"`
	// RNNHiddenSize is the width of the output of the recurrent layer. Default 64. (+)
	RNNHiddenSize int `yaml:"rnn_hidden_size"`
	// AddValueHead adds the critic. Default true; an algorithm that uses values needs it.
	AddValueHead bool `yaml:"add_value_head"`
	// AddQHead makes a policy that learns from action values. For continuous actions, the policy has a separate critic
	// (SAC). For discrete actions, the policy is itself the critic (DQN). The key requires add_value_head: false.
	// Default false.
	AddQHead bool `yaml:"add_q_head"`
	// NumQHeads is H, the number of networks in the critic of AddQHead. Each network has layers of HiddenSizes, and
	// makes its own estimate. Default 2.
	NumQHeads int `yaml:"num_q_heads"`
	// QHeadType is the kind of network that AddQHead uses for critic and actor: default or crossq. With crossq, the
	// layers normalise their inputs over a batch (CrossQ).
	QHeadType string `yaml:"q_head_type"`
	// LayerNorm, with AddQHead and continuous actions, normalises the outputs of each hidden layer of the critics
	// before the activation (RLPD). It limits what critics can say of actions that no transition has. Default false.
	// (+)
	LayerNorm bool `yaml:"layer_norm"`
	// ImageNum, with AddQHead and continuous actions, is the number of images that the policy sees: main_images, and
	// the first ImageNum - 1 of extra_view_images [V, H, W, C]. 0 (default) means all images.
	ImageNum int `yaml:"image_num"`
	// ImageSize, with AddQHead and continuous actions, must be [channels, height, width] of the images, if it is given.
	// A classifier (model_type resnet) resizes images to it, bilinearly; its default is [3, 224, 224].
	ImageSize []int `yaml:"image_size,omitempty"`
	// StateDim, with AddQHead and continuous actions, must be the number of observed numbers, if it is not 0.
	StateDim int `yaml:"state_dim"`
	// ExplorationNoise, with AddQHead, makes continuous actions a deterministic function of the observation (TD3).
	// Exploration adds noise with this standard deviation to actions that are scaled to [-1, 1]. If it is 0 (default),
	// actions are drawn from a distribution (SAC). (+)
	ExplorationNoise float64 `yaml:"exploration_noise"`
	// EpsilonStart is the initial probability of a random action, with AddQHead and discrete actions. The probability
	// falls linearly to EpsilonEnd during the first EpsilonSteps steps of each environment. Defaults 1, 0.05 and 10000.
	// (+)
	EpsilonStart float64 `yaml:"epsilon_start"`
	EpsilonEnd   float64 `yaml:"epsilon_end"`
	EpsilonSteps int     `yaml:"epsilon_steps"`
	// InitLogStd is the initial log standard deviation of box actions, for each dimension. With UseSDE it applies to
	// each element of the noise matrix. The deviation of an action is then √features times as large, so -2 is a good
	// value. With AddQHead it applies to actions before tanh, and is limited to (-5, 2). Default -0.5. (+)
	InitLogStd float64 `yaml:"init_log_std"`
	// LearnStd lets training change the deviation of box actions. Default true. If it is false, the deviation is
	// constant. A constant deviation suits imitation before reinforcement learning, because the likelihood of
	// demonstrations would drive the deviation towards 0. (+)
	LearnStd bool `yaml:"learn_std"`
	// IndependentStd makes the deviations of box actions independent of the observation: they are parameters. Default
	// true. If it is false, the deviations are outputs of the network, in (e^-5, e^2), and InitLogStd is the log of
	// their initial value.
	IndependentStd bool `yaml:"independent_std"`
	// ActionBound brings box actions within the bounds of the environment. clip, the default, clips them. tanh squashes
	// them smoothly into the bounds, which must be finite. Log-probs, entropy and the stored action describe the action
	// before it is bounded. (+)
	ActionBound string `yaml:"action_bound"`
	// UseSDE makes the exploration of box actions state-dependent (gSDE, Raffin et al. 2021, arXiv:2005.05719). Default
	// false. (+)
	UseSDE bool `yaml:"use_sde"`
	// SDESampleFreq is the number of steps after which an environment gets a new noise matrix. Default
	// 4, at least 1. (+)
	SDESampleFreq int `yaml:"sde_sample_freq"`
	// SDELearnFeatures lets the gradient of the deviation flow back into the features. Default false, as in the paper.
	// (+)
	SDELearnFeatures bool `yaml:"sde_learn_features"`
	// NormalizeObservations shifts and scales each observed number to mean 0 and variance 1. The statistics cover all
	// observations before the current rollout. Choices and images stay unchanged. Default false. (+)
	NormalizeObservations bool `yaml:"normalize_observations"`
	// ObsClip clips normalised observations to ±ObsClip. It must be above 0, and has no effect without normalisation.
	// Default 10. (+)
	ObsClip float64 `yaml:"obs_clip"`
	// LogProbType is algorithm.logprob_type. For a chunk of C actions with A dimensions, one log-prob covers the whole
	// chunk (chunk_level, L = 1), one action (action_level, the default, L = C) or one dimension (token_level, L =
	// C·A).
	LogProbType string `yaml:"-"`
	// ActionValues makes the critic estimate one value for each action of a chunk, V = C, from the observation before
	// the chunk. If it is false, V = 1. The value comes from algorithm.reward_type.
	ActionValues bool `yaml:"-"`
	// Temperature divides the logits of token actions, in mode Sample and in Evaluate. The key is
	// rollout.sampling_params.temperature_train. Default 1.
	Temperature float64 `yaml:"-"`
	// EvalTemperature is the temperature in mode Deterministic. If it is 0 (default), the policy takes the most likely
	// token; otherwise it draws a token. The key is rollout.sampling_params.temperature_eval.
	EvalTemperature float64 `yaml:"-"`
	// BLAS computes the matrix products of the layers with OpenBLAS, if the program was built with the tag blas. BLAS
	// is true if runner.deterministic is false, because results of OpenBLAS depend on the batch. OpenBLAS is faster on
	// processors for which package kernel has no vector code.
	BLAS bool `yaml:"-"`
	// Blank leaves the parameters 0, because the caller will load them or only checks the policy. This saves minutes
	// for wide layers. A builder may ignore Blank.
	Blank bool `yaml:"-"`
	// Device computes the layers, if it is not nil. NewMLP and NewCNN use it.
	Device nn.Device[float32] `yaml:"-"`
	// Frozen is the file of weights of a frozen ResNet-10, if Encoder is resnet. Actor and critics then normalise as in
	// RLinf. See Backbone.
	Frozen string `yaml:"-"`

	// Own holds the additional keys of a user-defined policy.
	Own params.Own `yaml:",inline"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		ModelType:       "mlp_policy",
		NumActionChunks: 1,
		HiddenSizes:     []int{64, 64},
		Activation:      "tanh",
		RNNType:         "gru",
		RNNHiddenSize:   64,
		AddValueHead:    true,
		NumQHeads:       2,
		QHeadType:       QHeadDefault,
		EpsilonStart:    1,
		EpsilonEnd:      0.05,
		EpsilonSteps:    10000,
		InitLogStd:      -0.5,
		LearnStd:        true,
		IndependentStd:  true,
		ActionBound:     BoundClip,
		SDESampleFreq:   4,
		ObsClip:         10,
		LogProbType:     "action_level",
		Temperature:     1,
	}
}

// Check validates the values that do not depend on the environment; New validates the rest. Check calls want once for
// each rule.
func (c *Config) Check(want func(ok bool, key string, value any, want string)) {
	want(c.ObsDim >= 0, "obs_dim", c.ObsDim, "0 (the environment's) or its number of elements")
	want(c.ActionDim >= 0, "action_dim", c.ActionDim, "0 (the environment's) or its size")
	want(c.NumActionChunks >= 1, "num_action_chunks", c.NumActionChunks, "a number ≥ 1")
	want(slices.Contains([]string{"", NatureCNN, ImpalaCNN, Keypoints}, c.Encoder), "encoder", c.Encoder,
		"nature_cnn, impala or keypoints")
	want(c.Encoder == "" || c.ModelType != "mlp_policy" && c.ModelType != rnnPolicy, "encoder", c.Encoder,
		"none (model_type: "+c.ModelType+"; cnn_policy has one)")
	noWidth := func(n int) bool { return n < 1 || n > 1<<14 }
	want(!slices.ContainsFunc(c.HiddenSizes, noWidth), "hidden_sizes", c.HiddenSizes, "widths from 1 to 16384")
	want(c.HiddenDim == 0 || !noWidth(c.HiddenDim), "hidden_dim", c.HiddenDim, "a width from 1 to 16384, or 0")
	_, ok := c.activation()
	want(ok, "activation", c.Activation, "tanh or relu")
	want(c.RNNType == "gru" || c.RNNType == "lstm", "rnn_type", c.RNNType, "gru or lstm")
	want(!noWidth(c.RNNHiddenSize), "rnn_hidden_size", c.RNNHiddenSize, "a width from 1 to 16384")
	want(c.ShareTrunk || c.ModelType != rnnPolicy, "share_trunk", c.ShareTrunk,
		"true (rnn_policy: actor and critic share the hidden state)")
	want(!c.AddQHead || c.ModelType != rnnPolicy, "add_q_head", c.AddQHead, "false (model_type rnn_policy)")
	want(!c.AddQHead || !c.AddValueHead, "add_value_head", c.AddValueHead, "false (add_q_head)")
	want(!c.AddQHead || !c.UseSDE, "use_sde", c.UseSDE, "false (add_q_head)")
	want(!c.AddQHead || !c.ShareTrunk, "share_trunk", c.ShareTrunk, "false (add_q_head: actor and critic are "+
		"networks of their own)")
	want(!c.AddQHead || !c.NormalizeObservations, "normalize_observations", c.NormalizeObservations,
		"false (add_q_head: what a replay buffer holds would change its meaning)")
	want(!c.AddQHead || c.IndependentStd, "independent_std", c.IndependentStd,
		"true (add_q_head: deviations always depend on what is observed)")
	want(!c.AddQHead || c.ActionBound != BoundTanh, "action_bound", c.ActionBound,
		"clip (add_q_head: actions are squashed already)")
	want(c.QHeadType == QHeadDefault || c.QHeadType == QHeadCrossQ && c.AddQHead && len(c.HiddenSizes) > 0,
		"q_head_type", c.QHeadType, "default, or with add_q_head and hidden layers crossq")
	want(!c.LayerNorm || c.AddQHead && c.QHeadType != QHeadCrossQ, "layer_norm", c.LayerNorm,
		"false, or add_q_head with q_head_type default (crossq normalises over batches)")
	want(c.ImageNum >= 0, "image_num", c.ImageNum, "a number of images, or 0 for all")
	noSize := slices.ContainsFunc(c.ImageSize, func(n int) bool { return n < 1 })
	want(!c.AddQHead || len(c.ImageSize) == 0 || len(c.ImageSize) == 3 && !noSize, "image_size", c.ImageSize,
		"[channels, height, width], or nothing")
	want(c.StateDim >= 0, "state_dim", c.StateDim, "0 (the environment's) or its number of numbers")
	want(c.NumQHeads >= 1 && c.NumQHeads <= 100, "num_q_heads", c.NumQHeads, "a number from 1 to 100")
	want(c.LearnStd || !c.UseSDE && !c.AddQHead, "learn_std", c.LearnStd, "true (use_sde, or add_q_head)")
	want(c.IndependentStd || !c.UseSDE, "independent_std", c.IndependentStd,
		"true (use_sde: true has deviations of its own)")
	want(c.IndependentStd || c.InitLogStd > minLogStd && c.InitLogStd < maxLogStd, "init_log_std", c.InitLogStd,
		fmt.Sprintf("a number in (%g, %g) (independent_std: false)", minLogStd, maxLogStd))
	want(c.ActionBound == BoundClip || c.ActionBound == BoundTanh, "action_bound", c.ActionBound, "clip or tanh")
	want(c.ExplorationNoise == 0 || c.ExplorationNoise > 0 && c.AddQHead, "exploration_noise", c.ExplorationNoise,
		"0, or with add_q_head a number > 0")
	want(c.EpsilonStart >= 0 && c.EpsilonStart <= 1, "epsilon_start", c.EpsilonStart, "a number in [0, 1]")
	want(c.EpsilonEnd >= 0 && c.EpsilonEnd <= 1, "epsilon_end", c.EpsilonEnd, "a number in [0, 1]")
	want(c.EpsilonSteps >= 0, "epsilon_steps", c.EpsilonSteps, "a number of steps ≥ 0")
	want(c.SDESampleFreq >= 1, "sde_sample_freq", c.SDESampleFreq, "a number of steps ≥ 1")
	want(c.ObsClip > 0, "obs_clip", c.ObsClip, "a number > 0")
	_, ok = c.Summed(1)
	want(ok, "logprob_type", c.LogProbType, "chunk_level, action_level or token_level")
	c.Own.Check(want)
}

// Values of Config.ActionBound and Config.QHeadType.
const (
	BoundClip = "clip"
	BoundTanh = "tanh"

	QHeadDefault = "default"
	QHeadCrossQ  = "crossq"
)

func (c *Config) activation() (nn.Activation, bool) {
	switch c.Activation {
	case "tanh":
		return nn.Tanh, true
	case "relu":
		return nn.ReLU, true
	}
	return 0, false
}

// hidden describes the hidden layers.
func (c *Config) hidden() []nn.Layer {
	f, _ := c.activation()
	return nn.Hidden(c.HiddenSizes, f, nn.NoNorms)
}

// Summed returns the number of dimensions that each log-prob sums over, out of the C·A dimensions of a chunk. It
// returns false for an unknown LogProbType.
func (c *Config) Summed(actionDim int) (int, bool) {
	switch c.LogProbType {
	case "chunk_level":
		return c.NumActionChunks * actionDim, true
	case "action_level", "":
		return actionDim, true
	case "token_level":
		return 1, true
	}
	return 0, false
}

// Values returns V, the number of values per row.
func (c *Config) Values() int {
	if c.ActionValues {
		return c.NumActionChunks
	}
	return 1
}

// Valid returns an error for the first rule that c breaks.
func (c *Config) Valid() error {
	var err error
	c.Check(func(ok bool, key string, value any, want string) {
		if !ok && err == nil {
			err = fmt.Errorf("policy: %s: %v: expected %s", key, value, want)
		}
	})
	return err
}
