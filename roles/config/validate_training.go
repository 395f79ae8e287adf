package config

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/reward"
)

// checkTraining checks the values of a job that trains, except the values of its environments.
func (c *validation) checkTraining() {
	a, want := &c.Algorithm, c.found.At("algorithm").Want
	if c.hasAlgorithm() {
		a.Check(want)
	} else {
		a.CheckValues(want)
	}
	want(a.GroupSize > 0, "group_size", a.GroupSize, "a number > 0")
	c.checkScores()
	want(!c.ActionRewards() || a.LogProbType != algo.ChunkLevel, "logprob_type", a.LogProbType,
		"action_level or token_level (reward_type action_level)")
	if a.LossType == "actor_critic" || a.LossType == "decoupled_actor_critic" || a.LossType == "a2c" {
		c.found.Want(c.Actor.Model.AddValueHead || c.Actor.Model.AddQHead, "actor.model.add_value_head",
			c.Actor.Model.AddValueHead, "true (loss_type "+a.LossType+")")
	}

	c.Actor.Optim.Check(c.found.At("actor.optim").Want)
	want = c.found.At("actor").Want
	want(c.Actor.MicroBatchSize > 0, "micro_batch_size", c.Actor.MicroBatchSize, "a number > 0")
	want(c.Actor.RecvDrainMaxTrajectories > 0, "recv_drain_max_trajectories", c.Actor.RecvDrainMaxTrajectories,
		"a number > 0")
	want(c.Actor.GlobalBatchSize > 0, "global_batch_size", c.Actor.GlobalBatchSize, "a number > 0")
	c.checkAlgorithmKeys()
	if c.Places("reward") || c.Standalone() {
		c.Reward.Check(c.found.At("reward").Want)
	} else {
		c.idleReward("rewards are the environments' own: the component reward has no place")
	}
}

// CheckParts returns the mistakes in the values, unknown names of parts, and unmet requirements of parts.
// The caller can add to the result.
func (c *Config) CheckParts(reg Registries) *Findings {
	v := validation{Config: c, reg: reg, found: c.found.Fork()}
	v.checkParts()
	return v.found
}

// checkParts checks the names of the parts, and their requirements.
func (c *validation) checkParts() {
	known := c.checkNames()
	if !c.Trains() || c.FineTunes() {
		return
	}
	c.checkReward()
	if known { // else the requirements of the intended algorithm are unknown
		learns := c.reg.Learning(c.Config)
		c.reg.Algorithms.Check(c.Algorithm.Config, c.found.At("algorithm").Want)
		c.checkOffPolicy(learns)
		c.checkAsync(learns)
		c.checkInference(learns)
	}
}

// checkScores checks the requirements of algorithms that compare whole episodes.
func (c *validation) checkScores() {
	a := &c.Algorithm
	if a.AdvType != "grpo" && a.AdvType != "reinpp" {
		return
	}
	c.found.Want(!c.Env.Train.AutoReset, "env.train.auto_reset", c.Env.Train.AutoReset,
		"false (adv_type "+a.AdvType+" compares whole episodes, which begin together)")
	c.found.Want(a.MaxNumGenBatches <= 1 || c.Env.Train.RolloutEpoch == 1, "env.train.rollout_epoch",
		c.Env.Train.RolloutEpoch, "1 (max_num_gen_batches > 1 makes as many rollouts as it needs)")
	compares := a.comparesGroups()
	c.found.Want(c.Env.Train.GroupSize > 1 || compares == "" || c.found.Reported("env.train.group_size"),
		"algorithm.group_size", c.Env.Train.GroupSize, "a number > 1 ("+compares+" compares the members of a group)")
}

// comparesGroups returns the setting by which the members of a group are compared, or "" if they are not compared.
func (a *AlgorithmConfig) comparesGroups() string {
	switch {
	case a.AdvType == "grpo" || a.AdvType == "rloo":
		return "adv_type " + a.AdvType
	case a.AdvType == "reinpp" && a.UseReinppBaseline:
		return "use_reinpp_baseline"
	}
	return ""
}

// checkReward checks that the section reward agrees with the placement.
func (c *validation) checkReward() {
	section := &c.Reward
	if c.Standalone() {
		const why = " (reward.standalone_realworld)"
		c.found.Want(c.Env.Train.AutoReset, "env.train.auto_reset", c.Env.Train.AutoReset, "true"+why)
		c.found.Want(c.Actor.Model.NumActionChunks == 1, "actor.model.num_action_chunks", c.Actor.Model.NumActionChunks,
			"1: every step is scored"+why)
		return
	}
	if !c.Places("reward") {
		asks := section.UseRewardModel || section.RewardType != reward.DefaultConfig().RewardType
		c.found.Want(!asks, "cluster.component_placement", nil,
			"a place for reward, as 0 or all (the section reward asks for it)")
		return
	}
	c.found.Want(!c.ActionRewards(), "algorithm.reward_type", c.Algorithm.RewardType,
		"chunk_level (the component reward says what whole chunks are worth)")
}

// idleReward reports given keys of the section reward that have no effect. note is as in idleKey.
func (c *validation) idleReward(note string) {
	c.idleKeys(note, "reward.reward_mode", "reward.reward_weight", "reward.env_reward_weight",
		"reward.success_info", "reward.potential.indices", "reward.potential.target", "reward.model.model_path")
}

// checkOffPolicy checks the requirements of algorithms with a replay buffer. For other algorithms it reports the keys
// that need a replay buffer.
func (c *validation) checkOffPolicy(learns Learning) {
	loss, off := c.Algorithm.LossType, &c.Algorithm.OffPolicy
	if path := off.Demos.LoadPath; !learns.OffPolicy && !learns.Offline {
		c.found.Want(path == "", "algorithm.demo_buffer.load_path", path, fmt.Sprintf("none (loss_type %s)", loss))
	}
	if learns.Offline { // algo.Registry.Fits reports the required policy
		values := c.Actor.Model.AddQHead && loss == "offline_iql"
		c.found.Want(!c.ActionRewards() || !values, "algorithm.reward_type", c.Algorithm.RewardType, wholeChunks(loss))
		return
	}
	if !learns.OffPolicy {
		c.found.Want(!c.Actor.Model.AddQHead, "actor.model.add_q_head", true, fmt.Sprintf("false (loss_type %s)", loss))
		return
	}
	if model := c.Actor.Model.ModelType; model == "rnn_policy" {
		c.found.Want(false, "actor.model.model_type", model, fmt.Sprintf("mlp_policy (loss_type %s learns from single "+
			"steps, not from sequences)", loss))
	} else {
		c.found.Want(c.Actor.Model.AddQHead || learns.Labelled, "actor.model.add_q_head", false,
			fmt.Sprintf("true (loss_type %s)", loss))
	}
	chunks, heads := c.Actor.Model.NumActionChunks, c.Actor.Model.NumQHeads
	c.found.Want(!learns.Labelled || chunks <= 1, "actor.model.num_action_chunks", chunks,
		fmt.Sprintf("1 (loss_type %s: experts say what to do in a state, not what after it)", loss))
	c.found.Want(!c.ActionRewards(), "algorithm.reward_type", c.Algorithm.RewardType, wholeChunks(loss))
	c.found.Want(c.Env.Train.AutoReset, "env.train.auto_reset", false, fmt.Sprintf("true (loss_type %s)", loss))
	if (loss == "embodied_sac" || loss == "embodied_crossq") && !c.found.Reported("actor.model.num_q_heads") {
		c.found.Want(off.CriticSubsampleSize <= heads, "algorithm.critic_subsample_size", off.CriticSubsampleSize,
			fmt.Sprintf("at most %d (actor.model.num_q_heads)", heads))
	}
	guided := off.Demos.LoadPath != "" || off.Demos.SampleWindowSize > 0
	c.found.Want(!guided || c.Actor.MicroBatchSize%2 == 0, "actor.micro_batch_size",
		c.Actor.MicroBatchSize, "an even number (half of each batch is from demo_buffer)")
	c.checkHindsight(learns)
}

// checkHindsight checks that rewards are those of the environments' own rule, so that hindsight can compute them.
func (c *validation) checkHindsight(learns Learning) {
	const why = "algorithm.replay_buffer.hindsight computes the environments' own rewards of single steps"
	h, t := &c.Algorithm.OffPolicy.ReplayBuffer.Hindsight, &c.Env.Train
	if h.GoalSelectionStrategy == "" || c.found.Reported("algorithm.replay_buffer.hindsight") {
		return
	}
	want := func(ok bool, key string, value any, valid string) {
		c.found.Want(ok, key, value, fmt.Sprintf("%s (%s)", valid, why))
	}
	c.found.Want(!learns.Labelled, "algorithm.replay_buffer.hindsight.goal_selection_strategy", h.GoalSelectionStrategy,
		fmt.Sprintf("none (loss_type %s: the expert acted for its own goal)", c.Algorithm.LossType))
	want(c.Actor.Model.NumActionChunks <= 1, "actor.model.num_action_chunks", c.Actor.Model.NumActionChunks, "1")
	want(t.ActionRepeat <= 1, "env.train.action_repeat", t.ActionRepeat, "1")
	want(t.FrameStack <= 1, "env.train.frame_stack", t.FrameStack, "1")
	want(t.RewardMode != env.RewardOnlySuccess, "env.train.reward_mode", t.RewardMode, "raw")
	want(!t.UseRelReward, "env.train.use_rel_reward", t.UseRelReward, "false")
	want(t.RewardCoef == 1, "env.train.reward_coef", t.RewardCoef, "1")
	want(t.RewardClip == 0, "env.train.reward_clip", t.RewardClip, "0")
	want(!c.Places("reward"), "cluster.component_placement", nil, "no component reward")
}

// wholeChunks says which reward_type an algorithm needs that learns the values of chunks.
func wholeChunks(loss string) string {
	return fmt.Sprintf("chunk_level (loss_type %s learns from whole chunks)", loss)
}

// checkAsync checks the requirements of asynchronous runs. If the run is not asynchronous, it reports the keys that
// need an asynchronous run.
func (c *validation) checkAsync(learns Learning) {
	threshold, loss := c.Algorithm.StalenessThreshold, c.Algorithm.LossType
	want := c.found.Want
	if !c.Runner.Async {
		want(threshold < 0 || c.found.Reported("runner.async"), "algorithm.staleness_threshold", threshold,
			"no bound without runner.async")
		return
	}
	// With a smaller threshold all rollouts would be dropped.
	if least := c.Runner.WeightSyncInterval - 1; !learns.OffPolicy || threshold >= 0 {
		want(threshold >= least, "algorithm.staleness_threshold", threshold, fmt.Sprintf("at least %d "+
			"(runner.weight_sync_interval - 1): how many iterations a rollout may lie behind", least))
	}
	if learns.Offline {
		want(false, "runner.async", true, fmt.Sprintf("false (loss_type %s makes no rollouts)", loss))
		return
	}
	want(loss != "a2c", "algorithm.loss_type", loss,
		"another with runner.async (a2c is right for samples of the present policy alone)")
	want(c.Algorithm.MaxNumGenBatches <= 1, "algorithm.max_num_gen_batches", c.Algorithm.MaxNumGenBatches,
		"1 with runner.async")
	for _, name := range []string{"reward", "inference"} {
		want(!c.Places(name), "cluster.component_placement."+name, nil, "no such component with runner.async")
	}
}

// checkInference checks that the placed inference workers have work.
func (c *validation) checkInference(learns Learning) {
	c.found.Want(!c.Places("inference") || len(c.Inferred(learns)) > 0, "cluster.component_placement", nil,
		"no place for inference, or algorithm.recompute_logprobs or algorithm.kl_beta (else there is nothing to infer)")
}

// Inferred returns the tensors that inference workers add to trajectories, if there are inference workers.
func (c *Config) Inferred(learns Learning) (names []string) {
	a := &c.Algorithm
	if learns.OffPolicy || learns.Offline {
		return nil
	}
	if a.RecomputeLogprobs {
		names = append(names, algo.FieldProxLogProb)
	}
	if a.KLBeta > 0 || a.ReinppKLBeta > 0 {
		names = append(names, algo.FieldRefLogProb)
	}
	return names
}
