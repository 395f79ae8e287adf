package roles

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/algo"
)

// Problem reports that key, dotted, has a value that will not do: for what only the parts that the
// configuration names can tell. A nil value is not said; want completes "want …". Validate returns
// it with all else.
func (c *Config) Problem(key string, value any, want string) { c.check.Want(false, key, value, want) }

// Validate checks the batch arithmetic for so many workers of each component (RLinf's rules,
// corrected), and returns all that is wrong with the configuration: what LoadConfig found, what
// Problem was told, and this. actors is 0 where nothing is trained.
func (c *Config) Validate(actors, rollouts, envs int) error {
	if c.Trains() {
		if !c.offline {
			c.checkEnvCount("env.train", actors, rollouts, envs)
		}
		c.checkBatches(actors)
	}
	if c.Evaluates() {
		c.checkEnvCount("env.eval", 0, rollouts, envs)
	}
	return c.check.Err()
}

// BatchArithmetic says in a few lines what one iteration does with so many workers of each
// component, which Validate has accepted.
func BatchArithmetic(c *Config, actors, rollouts, envs int) []string {
	split := func(name string, n, stages, steps int) string {
		staged := ""
		if stages > 1 {
			staged = fmt.Sprintf(" in %d stages of %d", stages, n/envs/stages)
		}
		return fmt.Sprintf("%s: %d environments, %d on each of %d env workers%s, %d at a time for each of %d rollout "+
			"workers; %d steps each",
			name, n, n/envs, envs, staged, n/stages/rollouts, rollouts, steps)
	}
	var lines []string
	batch := c.Actor.GlobalBatchSize
	if c.offline {
		lines = append(lines, fmt.Sprintf("update: %d optimiser steps per iteration, on %d demonstrated transitions "+
			"(%d on each actor, %d at a time)",
			c.Algorithm.UpdateEpoch, batch, batch/actors, c.Actor.MicroBatchSize))
	} else if c.Trains() {
		t := &c.Env.Train
		samples, steps := c.samples()
		lines = append(lines, split("rollout", t.TotalNumEnvs, c.Rollout.PipelineStageNum,
			t.MaxStepsPerRolloutEpoch*t.RolloutEpoch),
			fmt.Sprintf("samples: %d per iteration (%d steps × %d environments), %d for each of %d actors",
				samples, steps, t.TotalNumEnvs, samples/actors, actors))
		if c.offPolicy {
			b := &c.Algorithm.OffPolicy.ReplayBuffer
			held := product(samples, b.SampleWindowSize)
			lines = append(lines,
				fmt.Sprintf("replay buffer: the samples of %d iterations = %d, %d on each actor", b.SampleWindowSize,
					held, held/actors),
				fmt.Sprintf("update: %d optimiser steps per iteration from iteration %d on, on %d samples (%d on "+
					"each actor, %d at a time)",
					c.Algorithm.UpdateEpoch, max(b.MinBufferSize, 1), batch, batch/actors, c.Actor.MicroBatchSize))
		} else {
			minibatches := samples / batch
			lines = append(lines,
				fmt.Sprintf("update: %d epochs × %d minibatches of %d samples (%d on each actor, %d at a time) = %d "+
					"optimiser steps per iteration",
					c.Algorithm.UpdateEpoch, minibatches, batch, batch/actors, c.Actor.MicroBatchSize,
					c.Algorithm.UpdateEpoch*minibatches))
		}
	}
	if c.Evaluates() {
		e := &c.Env.Eval
		lines = append(lines, split("evaluation", e.TotalNumEnvs, 1, e.MaxStepsPerRolloutEpoch)+" at most")
	}
	return lines
}

// samples returns how many samples an iteration gives to training, and from how many steps of each
// environment: one for each chunk of actions.
func (c *Config) samples() (samples, steps int) {
	t := &c.Env.Train
	steps = product(t.MaxStepsPerRolloutEpoch/c.Actor.Model.NumActionChunks, t.RolloutEpoch)
	return product(steps, t.TotalNumEnvs), steps
}

// checkEnvCount checks that the environments of a section divide over the workers that simulate,
// infer and train.
func (c *Config) checkEnvCount(section string, actors, rollouts, envs int) {
	e := &c.Env.Train
	stages := c.Rollout.PipelineStageNum
	if section == "env.eval" {
		e, stages = &c.Env.Eval, 1 // evaluation is not pipelined
	}
	if e.TotalNumEnvs <= 0 || stages <= 0 || e.GroupSize <= 0 {
		return // reported
	}
	group := ""
	if e.GroupSize > 1 {
		group = fmt.Sprintf(" × group_size %d", e.GroupSize)
	}
	var broken []string
	least := 1
	rule := func(workers, stages, group int, why string) {
		if m := product(workers, stages, group); m > 0 {
			least = lcm(least, m)
			if e.TotalNumEnvs%m != 0 {
				broken = append(broken, why)
			}
		}
	}
	staged := ""
	if section == "env.train" {
		staged = fmt.Sprintf(" × pipeline_stage_num %d", stages)
	}
	rule(envs, stages, e.GroupSize, fmt.Sprintf("%d env workers%s%s", envs, staged, group))
	rule(rollouts, stages, 1, fmt.Sprintf("%d rollout workers%s", rollouts, staged))
	rule(actors, 1, e.GroupSize, fmt.Sprintf("%d actors%s", actors, group))
	c.want(len(broken) == 0, section, "total_num_envs", e.TotalNumEnvs, fmt.Sprintf("a multiple of %d (%s)", least,
		strings.Join(broken, "; ")))
}

// checkBatches checks that samples divide over actors, optimiser steps and micro-batches.
func (c *Config) checkBatches(actors int) {
	micro, global := c.Actor.MicroBatchSize, c.Actor.GlobalBatchSize
	samples, steps := 0, 0
	if c.Actor.Model.NumActionChunks > 0 {
		samples, steps = c.samples()
	}
	unit := product(micro, actors)
	if unit <= 0 || global <= 0 || samples <= 0 {
		return // reported
	}
	multiple := fmt.Sprintf("a multiple of %d (micro_batch_size %d × %d actors)", unit, micro, actors)
	whole := fmt.Sprintf("%d (%d steps × %d environments)", samples, steps, c.Env.Train.TotalNumEnvs)
	switch dividesUnit, dividesRollout := global%unit == 0, samples%global == 0 || c.offPolicy || c.offline; {
	case !dividesUnit && !dividesRollout:
		c.check.Want(false, "actor.global_batch_size", global, multiple+" that divides the samples of an iteration, "+
			whole)
	case !dividesUnit:
		c.check.Want(false, "actor.global_batch_size", global, multiple)
	case c.Algorithm.LossType == "a2c":
		c.check.Want(global == samples, "actor.global_batch_size", global, "all samples of an iteration, "+whole+
			" (loss_type a2c)")
	case !dividesRollout:
		c.check.Want(false, "actor.global_batch_size", global, "a divisor of the samples of an iteration, "+whole)
	}
}

// checkFields checks everything that does not depend on the number of workers.
func (c *Config) checkFields() {
	c.checkCluster()
	c.checkRunner()
	want := c.check.At("rollout").Want
	want(c.Rollout.PipelineStageNum > 0, "pipeline_stage_num", c.Rollout.PipelineStageNum, "a number > 0")
	c.WeightSyncer.checkFields(c.check.At("weight_syncer").Want)
	c.Actor.Model.Check(func(ok bool, key string, value any, what string) {
		if key == "logprob_type" { // policy.Config carries it, but it is a key of algorithm
			c.check.Want(ok, "algorithm.logprob_type", value, what)
			return
		}
		c.check.Want(ok, "actor.model."+key, value, what)
	})
	if c.Trains() {
		c.checkTraining()
		c.checkEnv("env.train")
	}
	if c.Evaluates() {
		c.checkEnv("env.eval")
	}
}

func (c *Config) checkCluster() {
	want := c.check.At("cluster").Want
	want(c.Cluster.NumNodes >= 0, "num_nodes", c.Cluster.NumNodes, "a number > 0, or 0 for as many as there are")
	known, needed := []string{"actor", "rollout", "env", "reward", "inference"}, []string{"rollout", "env"}
	if c.Trains() {
		needed = append(needed, "actor")
	}
	for _, e := range c.Cluster.ComponentPlacement {
		key := "component_placement." + e.Key
		for name := range strings.SplitSeq(e.Key, ",") {
			name = strings.TrimSpace(name)
			want(slices.Contains(known, name), key, name, "one of "+strings.Join(known, ", "))
			needed = slices.DeleteFunc(needed, func(n string) bool { return n == name })
		}
		want(strings.TrimSpace(e.Value.Placement) != "", key, e.Value.Placement, "a placement, as 0-7 or all")
	}
	want(len(needed) == 0, "component_placement", nil, "a place for "+strings.Join(needed, " and ")+", as 0-7 or all")
	for i, g := range c.Cluster.NodeGroups {
		at := fmt.Sprintf("node_groups.%d", i)
		want(g.Label != "" && g.Label != "cluster" && g.Label != "node", at+".label", g.Label,
			"a name other than cluster and node")
		want(len(g.NodeRanks) > 0, at+".node_ranks", g.NodeRanks, "nodes, as 0-3")
	}

	c.check.Want(c.SPMD.Nodes >= 0, "spmd.nodes", c.SPMD.Nodes, "a number > 0, or 0 for the real nodes")
	want = c.check.At("comm").Want
	want(c.Comm.StallTimeout == 0 || c.Comm.StallTimeout >= 100*time.Millisecond, "stall_timeout", c.Comm.StallTimeout,
		"at least 100ms, or 0 for ever")
	want(c.Comm.Reduce == ReduceOrdered || c.Comm.Reduce == ReduceFast, "reduce", c.Comm.Reduce, "ordered or fast")
	want(c.Comm.Compression == CompressionNone || c.Comm.Compression == CompressionBF16, "compression",
		c.Comm.Compression, "none or bf16")
	want(c.Comm.CheckReplicas >= 0, "check_replicas", c.Comm.CheckReplicas, "0 or more")
	want(c.Comm.BucketBytes >= 4, "bucket_bytes", c.Comm.BucketBytes, "at least 4")
}

func (c *Config) checkRunner() {
	r, want := &c.Runner, c.check.At("runner").Want
	want(r.TaskType == TaskEmbodied || r.TaskType == TaskEmbodiedEval, "task_type", r.TaskType,
		"embodied or embodied_eval")
	want(r.Logger.LogPath != "", "logger.log_path", r.Logger.LogPath, "a folder")
	want(filepath.IsLocal(r.Logger.ExperimentName) && filepath.Clean(r.Logger.ExperimentName) != ".",
		"logger.experiment_name", r.Logger.ExperimentName,
		"the name of a folder below log_path")
	want(r.Logger.LogInterval > 0, "logger.log_interval", r.Logger.LogInterval, "a number > 0")
	for i, b := range r.Logger.LoggerBackends {
		switch key := "logger.logger_backends"; b {
		case "tensorboard":
			want(slices.Index(r.Logger.LoggerBackends, b) == i, key, b, "each once")
		case "wandb", "swanlab":
			c.check.Idle("runner."+key, b)
		default:
			want(false, key, b, "tensorboard, or an empty list")
		}
	}
	unclear := func(key string) bool { return c.check.Reported("runner." + key) }
	bounded := r.Iterations() >= 0 || r.MaxTime > 0 ||
		slices.ContainsFunc([]string{"max_epochs", "max_steps", "max_time"}, unclear)
	want(bounded || !c.Trains(), "max_epochs", r.MaxEpochs, "a number ≥ 0, here or in max_steps, or a max_time")
	want(r.MaxTime >= 0, "max_time", r.MaxTime, "a duration, or 0 for no limit")
	want(r.SaveInterval <= 0 || r.ValCheckInterval <= 0 || r.SaveInterval%r.ValCheckInterval == 0, "save_interval",
		r.SaveInterval,
		fmt.Sprintf("a multiple of %d (val_check_interval)", r.ValCheckInterval))
	want(r.KeepCheckpoints >= 0, "keep_checkpoints", r.KeepCheckpoints, "a number > 0, or 0 to keep all")
	want(r.ResumeDir == "" || r.CkptPath == "", "ckpt_path", r.CkptPath, "no weights beside those of resume_dir")
	want(r.WeightSyncInterval > 0, "weight_sync_interval", r.WeightSyncInterval, "a number > 0")
}

func (c *Config) checkTraining() {
	a := &c.Algorithm
	want := c.check.At("algorithm").Want
	a.Check(want)
	want(a.GroupSize > 0, "group_size", a.GroupSize, "a number > 0")
	if scored := a.AdvType == "grpo" || a.AdvType == "reinpp"; scored {
		c.check.Want(!c.Env.Train.AutoReset, "env.train.auto_reset", c.Env.Train.AutoReset,
			"false (adv_type "+a.AdvType+" compares whole episodes, which begin together)")
		c.check.Want(a.MaxNumGenBatches <= 1 || c.Env.Train.RolloutEpoch == 1, "env.train.rollout_epoch",
			c.Env.Train.RolloutEpoch,
			"1 (max_num_gen_batches > 1 makes as many rollouts as it needs)")
		compares := "adv_type " + a.AdvType
		if a.AdvType == "reinpp" {
			compares = "use_reinpp_baseline"
		}
		want(c.Env.Train.GroupSize > 1 || a.AdvType == "reinpp" && !a.UseReinppBaseline, "group_size",
			c.Env.Train.GroupSize,
			"a number > 1 ("+compares+" compares the members of a group)")
	}
	want(!c.actionRewards() || a.LogProbType != algo.ChunkLevel, "logprob_type", a.LogProbType,
		"action_level or token_level (reward_type action_level)")
	if a.LossType == "actor_critic" || a.LossType == "decoupled_actor_critic" || a.LossType == "a2c" {
		c.check.Want(c.Actor.Model.AddValueHead || c.Actor.Model.AddQHead, "actor.model.add_value_head",
			c.Actor.Model.AddValueHead,
			"true (loss_type "+a.LossType+")")
	}

	c.Actor.Optim.Check(c.check.At("actor.optim").Want)
	want = c.check.At("actor").Want
	want(c.Actor.MicroBatchSize > 0, "micro_batch_size", c.Actor.MicroBatchSize, "a number > 0")
	want(c.Actor.RecvDrainMaxTrajectories > 0, "recv_drain_max_trajectories", c.Actor.RecvDrainMaxTrajectories,
		"a number > 0")
	want(c.Actor.GlobalBatchSize > 0, "global_batch_size", c.Actor.GlobalBatchSize, "a number > 0")
}

// checkEnv checks the section env.train or env.eval.
func (c *Config) checkEnv(section string) {
	e := &c.Env.Train
	if section == "env.eval" {
		e = &c.Env.Eval
	}
	e.Check(func(ok bool, key string, value any, what string) { c.want(ok, section, key, value, what) })
	if chunks := c.Actor.Model.NumActionChunks; chunks > 0 {
		c.want(e.MaxStepsPerRolloutEpoch%chunks == 0, section, "max_steps_per_rollout_epoch", e.MaxStepsPerRolloutEpoch,
			fmt.Sprintf("a multiple of %d (num_action_chunks)", chunks))
	}
	if section == "env.train" && e.VideoCfg.SaveVideo {
		c.check.Idle("env.train.video_cfg.save_video", true)
	}
	if section == "env.train" && c.check.Has("algorithm.group_size") {
		c.want(e.GroupSize == c.Algorithm.GroupSize, section, "group_size", e.GroupSize,
			fmt.Sprintf("%d, as algorithm.group_size", c.Algorithm.GroupSize))
	}
}

// want is the Check's, for a key of env.train or env.eval: one that evaluation takes from training
// is reported there, once.
func (c *Config) want(ok bool, section, key string, value any, want string) {
	if section == "env.eval" && !c.check.Has(section+"."+key) && c.check.Has("env.train."+key) {
		section = "env.train"
	}
	c.check.Want(ok, section+"."+key, value, want)
}

// product multiplies numbers ≥ 0, up to the largest int.
func product(factors ...int) int {
	p := 1
	for _, f := range factors {
		if f > 0 && p > math.MaxInt/f {
			return math.MaxInt
		}
		p *= f
	}
	return p
}

// lcm returns the least common multiple of a and b, both > 0.
func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return product(a/x, b)
}
