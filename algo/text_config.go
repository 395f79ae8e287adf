package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/tensor"
)

// TextConfig holds the keys of the algorithm section that only training on texts has. All other keys are in Config.
// Start from DefaultTextConfig.
type TextConfig struct {
	// NMinibatches is the number of optimiser steps in a pass over the texts of an iteration. The
	// number of texts of a replica must be a multiple of it. Default 1.
	NMinibatches int `yaml:"n_minibatches"`
	// NormByStd divides the advantages of adv_type grpo by the deviation of the group. false means
	// Dr. GRPO. Default true.
	NormByStd bool `yaml:"norm_adv_by_std_in_grpo"`
	// ReinppKLPenaltyType is the estimator of the divergence that ReinppKLBeta weighs at each token. kl (also k1) is
	// the default; its mean is the divergence. The other values are abs, mse (k2) and low_var_kl (k3).
	ReinppKLPenaltyType string `yaml:"reinpp_kl_penalty_type"`
	// RatioClipEps, in (0, 1], is the value of ClipRatioLow and ClipRatioHigh if these keys are left out or null.
	// Default 0.2.
	RatioClipEps float32 `yaml:"ratio_clip_eps"`
	// EarlyStopImpRatio is a limit of the mean ratio π_new/π_old of a minibatch. An update ends before the optimiser
	// step of a minibatch that exceeds the limit. 0, the default, means no limit.
	EarlyStopImpRatio float32 `yaml:"early_stop_imp_ratio"`
	// ImportanceSamplingFix multiplies advantages by π_recomputed/π_rollout, or by ImportanceSamplingClip if the ratio
	// is larger. Needs RecomputeLogprobs. Defaults false and 1.
	ImportanceSamplingFix  bool    `yaml:"importance_sampling_fix"`
	ImportanceSamplingClip float32 `yaml:"importance_sampling_clip"`
	// MaskTruncated leaves truncated answers out of training: answers that did not end with a stop token. Their rewards
	// stay in the means of their groups. Default false.
	MaskTruncated bool `yaml:"mask_truncated"`
}

// DefaultTextConfig returns the defaults.
func DefaultTextConfig() TextConfig {
	return TextConfig{NMinibatches: 1, NormByStd: true, ReinppKLPenaltyType: KLK1, ImportanceSamplingClip: 1,
		RatioClipEps: 0.2}
}

// SeqMeanTokenSumNorm is a value of Config.LossAggFunc that only texts have: seq-mean-token-sum divided by the largest
// length of an answer (Dr. GRPO).
const SeqMeanTokenSumNorm = "seq-mean-token-sum-norm"

// Values of Config.LossType that only texts have.
const (
	lossGSPO           = "gspo"            // one ratio for each text
	lossPolicyGradient = "policy_gradient" // neither ratio nor clip
)

// TextSetup has all inputs for making a TextPPO.
type TextSetup struct {
	Config      Config
	Text        TextConfig
	Optim       OptimConfig
	CriticOptim OptimConfig

	Model      *lm.Model       // its Params are trained
	Critic     *TextCritic     // for loss_type actor_critic, else nil
	Values     bool            // whether batches have Value from a separate TextCriticPPO; false with a Critic
	Reference  *lm.Model       // computes TextBatch.Ref of batches that lack it; nil if no batch needs it
	Sampling   engine.Sampling // options of sampling, with which the answers were drawn
	GroupSize  int             // answers to each prompt; 0 means 1
	MicroBatch MicroBatch
	Mesh       lm.Mesh // the ranks over which the models are sharded
	Recompute  int     // number of layers to recompute, see lm.Model.NewRecomputing; does not change results
	Threads    int     // number of threads, which does not change results; with more than 1, call Close
	Seed       uint64
	Iterations int // length of the run, for schedules that end with it
	Replicas   Replicas
	Alloc      tensor.Allocator // memory of the optimisers; nil means tensor.Heap
	Progress   Progress         // of Update; may be nil
	Witness    Witness          // may be nil
}

// check returns an error with all mistakes in the configuration.
func (s *TextSetup) check() error {
	var wrong []string
	s.Check(noteIn(&wrong, ""))
	s.Optim.Check(noteIn(&wrong, "actor.optim"))
	if s.Critic != nil {
		s.CriticOptim.Check(noteIn(&wrong, "critic.optim"))
	}
	return joined(wrong)
}

// Check validates the algorithm section and the sampling of answers. It reports keys relative to the root.
func (s *TextSetup) Check(report Want) {
	want := Want(func(ok bool, key string, value any, want string) { report(ok, "algorithm."+key, value, want) })
	s.Text.check(want.finite())
	c := s.Config
	s.checkPair(&c, want)
	c.Check(want)
	none := func(ok bool, key string, value, valid any) {
		want(ok, key, value, fmt.Sprintf("%v: texts do not have it", valid))
	}
	none(!c.NormalizeRewards, "normalize_rewards", c.NormalizeRewards, false)
	none(!c.RecomputeAdvantages, "recompute_advantages", c.RecomputeAdvantages, false)
	none(c.TargetKL == 0, "target_kl", c.TargetKL, 0)
	none(c.SequenceLength == 0, "sequence_length", c.SequenceLength, 0)
	none(c.BootstrapType == BootstrapStandard, "bootstrap_type", c.BootstrapType, BootstrapStandard)
	want(c.NormalizeAdvantages != NormalizeMinibatch, "normalize_advantages", c.NormalizeAdvantages,
		"batch or none with texts")
	want(!s.Text.ImportanceSamplingFix || c.RecomputeLogprobs, "importance_sampling_fix", true,
		"false without recompute_logprobs")
	s.checkSampling(func(ok bool, key string, value any, what string) {
		report(ok, "rollout.sampling_params."+key, value, what)
	})
}

// checkPair validates adv_type and loss_type. Some values exist only for texts. checkPair replaces them in c by similar
// values that Config.Check accepts.
func (s *TextSetup) checkPair(c *Config, want Want) {
	critic := c.LossType == "actor_critic"
	want(critic == (c.AdvType == "gae") && critic == (s.Critic != nil || s.Values), "loss_type", c.LossType,
		"actor_critic with adv_type gae and a critic, else another")
	switch c.AdvType {
	case "gae", "grpo", "reinpp":
	case "rloo":
		c.AdvType = "grpo"
	default:
		want(false, "adv_type", c.AdvType, "gae, grpo, reinpp or rloo")
	}
	switch c.LossType {
	case "actor", "actor_critic":
	case lossGSPO:
		want(c.AdvType == "grpo", "loss_type", c.LossType, "one of actor and policy_gradient with adv_type "+c.AdvType)
		want(!s.Text.ImportanceSamplingFix, "importance_sampling_fix", true,
			"false with loss_type gspo, whose texts have one advantage each")
		c.LossType = "actor"
	case lossPolicyGradient:
		want(s.Text.NMinibatches == 1, "n_minibatches", s.Text.NMinibatches,
			"1 with loss_type policy_gradient, which is right for texts of the present policy alone")
		want(!c.RecomputeLogprobs, "recompute_logprobs", c.RecomputeLogprobs,
			"false with loss_type policy_gradient, which has no ratio")
		c.LossType = "a2c"
	default:
		want(false, "loss_type", c.LossType, "actor, actor_critic, gspo or policy_gradient")
	}
	if c.LossAggFunc == SeqMeanTokenSumNorm {
		c.LossAggFunc = SeqMeanTokenSum
	}
}

func (c *TextConfig) check(want Want) {
	want(c.NMinibatches > 0, "n_minibatches", c.NMinibatches, "a number > 0")
	want(klName(c.ReinppKLPenaltyType) != "", "reinpp_kl_penalty_type", c.ReinppKLPenaltyType,
		"kl, abs, mse or low_var_kl (also k1, k2, k3)")
	want(c.RatioClipEps > 0 && c.RatioClipEps <= 1, "ratio_clip_eps", c.RatioClipEps, "a number in (0, 1]")
	want(c.EarlyStopImpRatio >= 0, "early_stop_imp_ratio", c.EarlyStopImpRatio, "a number >= 0 (0: no early stop)")
	want(c.ImportanceSamplingClip > 0, "importance_sampling_clip", c.ImportanceSamplingClip, "a number > 0")
}

// checkSampling validates the sampling of answers. Training computes log-probs of the model's full distribution, so
// answers must be drawn from this distribution.
func (s *TextSetup) checkSampling(want Want) {
	o := &s.Sampling
	want(o.Temperature > 0, "temperature", o.Temperature, "a number > 0 in training")
	want(o.TopK == 0, "top_k", o.TopK, "0 in training (all tokens)")
	want(o.TopP == 1, "top_p", o.TopP, "1 in training")
	want(o.RepetitionPenalty == 1, "repetition_penalty", o.RepetitionPenalty, "1 in training")
	want(o.MaxTokens > 0, "max_new_tokens", o.MaxTokens, "a number > 0")
}
