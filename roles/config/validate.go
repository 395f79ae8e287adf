package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
)

// A validation checks a Config without a world: first the values, then the names of parts and their requirements.
type validation struct {
	*Config
	reg   Registries
	found *config.Check
}

// checkValues checks all values, alone and against each other.
func (c *validation) checkValues() {
	c.checkCluster()
	c.checkRunner()
	want := c.found.At("rollout").Want
	want(c.Rollout.PipelineStageNum > 0, "pipeline_stage_num", c.Rollout.PipelineStageNum, "a number > 0")
	c.checkTemperatures()
	c.WeightSyncer.checkFields(c.found.At("weight_syncer").Want)
	c.checkLayouts()
	if !c.found.Has("runner.early_stop.enabled") {
		c.idleKeys("early_stop.enabled: true turns it on", "runner.early_stop.patience", "runner.early_stop.min_delta",
			"runner.early_stop.monitor", "runner.early_stop.target")
	}
	if !c.found.Has("cluster.tracer.enable") {
		c.idleKeys("", "cluster.tracer.output_file")
	}
	if c.Classifies() {
		c.checkClassifier()
		return
	}
	if c.FineTunes() {
		c.checkLanguageModel()
		c.checkSFT()
		return
	}
	c.Actor.Model.Check(c.found.At("actor.model").Want)
	c.idleSFT()
	c.idleReasoning()
	if c.Trains() {
		c.checkTraining()
		c.checkEnv("env.train")
	}
	if c.Evaluates() {
		c.checkEnv("env.eval")
	}
}

// checkTemperatures checks the temperatures of actions. It reports them as idle if the policy's actions are not tokens.
func (c *validation) checkTemperatures() {
	s, d := c.Rollout.SamplingParams, Default().Rollout.SamplingParams
	want := c.found.At("rollout.sampling_params").Want
	want(s.TemperatureTrain > 0 || !c.Trains(), "temperature_train", s.TemperatureTrain, "a number > 0")
	want(s.TemperatureEval >= 0, "temperature_eval", s.TemperatureEval, "a number ≥ 0 (0: the likeliest action)")
	if !slices.Contains(policy.Builtin().Names(), c.Actor.Model.ModelType) && !c.FineTunes() {
		return
	}
	idle := func(key string, value, otherwise float64) {
		if value != otherwise {
			c.found.IdleInstead("rollout.sampling_params."+key, value, "the policy draws no tokens")
		}
	}
	idle("temperature_train", s.TemperatureTrain, d.TemperatureTrain)
	idle("temperature_eval", s.TemperatureEval, d.TemperatureEval)
}

// CheckNames returns all mistakes in the values, and unknown names.
func (c *Config) CheckNames(reg Registries) error {
	v := validation{Config: c, reg: reg, found: c.found.Fork()}
	v.checkNames()
	return v.found.Err()
}

// checkNames checks all names, and reports whether the named algorithm exists.
func (c *validation) checkNames() (algorithm bool) {
	c.checkFamily()
	if c.Reasons() {
		c.checkName("reward.reward_type", c.Reward.RewardType, c.reg.AnswerRules().Names())
	}
	if c.FineTunes() {
		return false
	}
	if c.Trains() {
		c.checkEnvName("env.train", &c.Env.Train)
	}
	if c.Evaluates() {
		c.checkEnvName("env.eval", &c.Env.Eval)
	}
	if !c.Trains() {
		return false
	}
	if section := &c.Reward; section.UseRewardModel && (c.Places("reward") || section.StandaloneRealworld) {
		c.checkName("reward.model.model_type", section.Model.ModelType, append(c.reg.Policies.Names(), reward.ResNet))
	} else if c.Places("reward") {
		c.checkName("reward.reward_type", section.RewardType, c.reg.Rewards.Names())
	}
	algorithm = c.hasAlgorithm()
	if !algorithm && !c.found.Reported(advType, lossType) {
		c.reg.Algorithms.Check(c.Algorithm.Config, c.found.At("algorithm").Want)
	}
	return algorithm
}

// advType and lossType are the keys that name the algorithm.
const advType, lossType = "algorithm.adv_type", "algorithm.loss_type"

// hasAlgorithm reports whether the named algorithm exists.
func (c *validation) hasAlgorithm() bool {
	return c.reg.Algorithms.Has(c.Algorithm.Config) && !c.found.Reported(advType, lossType)
}

// checkEnvName checks the name of environments, unless they are external simulators.
func (c *validation) checkEnvName(section string, e *env.Config) {
	id := e.ID()
	if id == "" || id == env.ExternalID {
		return
	}
	err := c.reg.Envs.Find(id)
	want := fmt.Sprintf("a known environment: %v", err)
	if foreign := ForeignSimulator(e.EnvType); foreign != "" {
		want = fmt.Sprintf("%s, connected with env_type=external; or an environment of rlinf envs", foreign)
	}
	c.found.Want(err == nil, c.EnvKey(section, "env_type"), id, want)
}

// checkName checks that a name is in a list of names.
func (c *validation) checkName(key, name string, names []string) {
	c.found.Want(slices.Contains(names, name), key, name, "one of "+strings.Join(names, ", "))
}

func (c *validation) checkCluster() {
	want := c.found.At("cluster").Want
	want(c.Cluster.NumNodes >= 0 && c.Cluster.NumNodes <= MaxRanks, "num_nodes", c.Cluster.NumNodes,
		fmt.Sprintf("a number from 1 to %d, or 0 for as many as there are", MaxRanks))
	known := append([]string{"actor", "rollout", "env", "reward", "inference"}, c.reg.Components...)
	needed := []string{"rollout", "env"}
	if c.Trains() {
		needed = append(needed, "actor")
	}
	if c.Reasons() {
		known, needed = slices.DeleteFunc(known, func(name string) bool { return name == "env" }), []string{"actor"}
		known = append(known, "critic")
	} else if c.FineTunes() {
		known, needed = append([]string{"actor"}, c.reg.Components...), []string{"actor"}
	}
	for _, e := range c.Cluster.ComponentPlacement {
		key := "component_placement." + e.Key
		for _, name := range config.Names(e.Key) {
			if !slices.Contains(known, name) {
				want(false, key, name, "one of "+strings.Join(known, ", "))
				name = config.Nearest(name, needed) // the needed name is misspelt, not missing
			}
			needed = slices.DeleteFunc(needed, func(n string) bool { return n == name })
		}
		want(strings.TrimSpace(e.Value.Placement) != "", key, e.Value.Placement, "a placement, as 0-7 or all")
	}
	want(len(needed) == 0, "component_placement", nil, "a place for "+strings.Join(needed, " and ")+", as 0-7 or all")
	c.checkAuto()
	c.checkScheduler()
	for i, g := range c.Cluster.NodeGroups {
		at := fmt.Sprintf("node_groups.%d", i)
		want(g.Label != "" && g.Label != "cluster" && g.Label != "node", at+".label", g.Label,
			"a name other than cluster and node")
		want(len(g.NodeRanks) > 0, at+".node_ranks", g.NodeRanks, "nodes, as 0-3")
	}

	c.found.Want(c.SPMD.Nodes >= 0 && c.SPMD.Nodes <= MaxRanks, "spmd.nodes", c.SPMD.Nodes,
		fmt.Sprintf("a number from 1 to %d, or 0 for the real nodes", MaxRanks))
	want = c.found.At("comm").Want
	want(c.Comm.StallTimeout == 0 || c.Comm.StallTimeout >= 100*time.Millisecond, "stall_timeout", c.Comm.StallTimeout,
		"at least 100ms, or 0 for ever")
	want(c.Comm.Reduce == ReduceOrdered || c.Comm.Reduce == ReduceFast, "reduce", c.Comm.Reduce, "ordered or fast")
	want(c.Comm.Compression == CompressionNone || c.Comm.Compression == CompressionBF16, "compression",
		c.Comm.Compression, "none or bf16")
	want(c.Comm.CheckReplicas >= 0, "check_replicas", c.Comm.CheckReplicas, "0 or more")
	want(c.Comm.BucketBytes >= 4, "bucket_bytes", c.Comm.BucketBytes, "at least 4")
	for _, of := range DeviceComponents {
		d, gpus, says := c.Device(of), c.FineTunes(), "cpu, or cuda for language models"
		if of == "actor" {
			gpus, says = !c.Classifies(), "cpu, or cuda for policies and language models"
		}
		unknown := func(d string) bool { return d != DeviceCPU && (d != DeviceCUDA || !gpus) }
		c.found.Want(len(d) > 0 && !slices.ContainsFunc(d, unknown), of+".device", d, says)
	}
}

// correctTask reports a misspelt runner.task_type. It replaces the name by the nearest one, so that the other keys are
// checked for this task.
func (c *validation) correctTask() {
	tasks, names := c.tasks()
	if name := c.Runner.TaskType; !slices.Contains(tasks, name) {
		if near := config.Nearest(name, tasks); near != "" {
			c.found.Problem("runner.task_type", name, names+", did you mean "+near+"?")
			c.Runner.TaskType = near
		}
	}
}

// tasks returns the values of runner.task_type, as a list and as a text.
func (c *validation) tasks() (list []string, text string) {
	list = []string{TaskEmbodied, TaskEmbodiedEval, TaskSFT, TaskReasoning}
	if c.reg.Learning(c.Config).Offline {
		return append(list, TaskOffline), "embodied, embodied_eval, sft, reasoning or offline"
	}
	return list, "embodied, embodied_eval, sft or reasoning"
}

func (c *validation) checkRunner() {
	r, want := &c.Runner, c.found.At("runner").Want
	tasks, names := c.tasks()
	want(slices.Contains(tasks, r.TaskType), "task_type", r.TaskType, names)
	want(r.Logger.LogPath != "", "logger.log_path", r.Logger.LogPath, "a folder")
	want(filepath.IsLocal(r.Logger.ExperimentName) && filepath.Clean(r.Logger.ExperimentName) != ".",
		"logger.experiment_name", r.Logger.ExperimentName, "the name of a folder below log_path")
	want(r.Logger.TensorBoardAxis == AxisStep || r.Logger.TensorBoardAxis == AxisEnvSteps && !c.FineTunes(),
		"logger.tensorboard_axis", r.Logger.TensorBoardAxis, "step, or env_steps where there are environments")
	want(r.Logger.LogInterval > 0, "logger.log_interval", r.Logger.LogInterval, "a number > 0")
	for i, b := range r.Logger.LoggerBackends {
		switch key := "logger.logger_backends"; b {
		case "tensorboard":
			want(slices.Index(r.Logger.LoggerBackends, b) == i, key, b, "each once")
		case "wandb", "swanlab":
			want(false, key, b, "tensorboard, or an empty list: "+b+" reads TensorBoard's files, and metrics.jsonl "+
				"has all figures")
		default:
			want(false, key, b, "tensorboard, or an empty list")
		}
	}
	unclear := func(key string) bool { return c.found.Reported("runner." + key) }
	bounded := r.Iterations() >= 0 || r.MaxTime > 0 ||
		slices.ContainsFunc([]string{"max_epochs", "max_steps", "max_time"}, unclear)
	want(bounded || !c.Trains(), "max_epochs", r.MaxEpochs, "a number ≥ 0, here or in max_steps, or a max_time")
	want(r.MaxTime >= 0, "max_time", r.MaxTime, "a duration, or 0 for no limit")
	want(r.SaveInterval <= 0 || r.ValCheckInterval <= 0 || r.SaveInterval%r.ValCheckInterval == 0, "save_interval",
		r.SaveInterval, fmt.Sprintf("a multiple of %d (val_check_interval)", r.ValCheckInterval))
	want(r.KeepCheckpoints >= 0, "keep_checkpoints", r.KeepCheckpoints, "a number > 0, or 0 to keep all")
	want(r.ResumeDir == "" || r.CkptPath == "" || c.LanguageModel().IsLoRA, "ckpt_path", r.CkptPath,
		"no weights beside those of resume_dir")
	want(r.WeightSyncInterval > 0, "weight_sync_interval", r.WeightSyncInterval, "a number > 0")
}

// checkEnv checks the section env.train or env.eval.
func (c *validation) checkEnv(section string) {
	e := &c.Env.Train
	if section == "env.eval" {
		e = &c.Env.Eval
	}
	want := func(ok bool, key string, value any, what string) {
		if section == "env.eval" && key == "max_steps_per_rollout_epoch" && e.MaxStepsPerRolloutEpoch == 0 {
			return // 0 is the limit of the task
		}
		c.found.Want(ok, c.EnvKey(section, key), value, what)
	}
	e.Check(want)
	if chunks := c.Actor.Model.NumActionChunks; chunks > 0 {
		want(e.MaxStepsPerRolloutEpoch%chunks == 0, "max_steps_per_rollout_epoch", e.MaxStepsPerRolloutEpoch,
			fmt.Sprintf("a multiple of %d (num_action_chunks)", chunks))
	}
	if section == "env.train" && e.VideoCfg.SaveVideo {
		c.found.Idle("env.train.video_cfg.save_video", true)
	} else if section == "env.train" && !c.found.Has("env.train.video_cfg.save_video") { // else false disables them
		c.idleKeys("", c.keysBelow("env.train.video_cfg")...)
	}
	if section == "env.train" && c.found.Has("algorithm.group_size") && !c.found.Reported("algorithm.group_size") {
		want(e.GroupSize == c.Algorithm.GroupSize, "group_size", e.GroupSize,
			fmt.Sprintf("%d, as algorithm.group_size", c.Algorithm.GroupSize))
	}
}

// EnvKey returns the full name of a key of env.train or env.eval. If evaluations inherit the value of the key, EnvKey
// returns its name under env.train.
func (c *Config) EnvKey(section, key string) string {
	if section == "env.eval" && !c.found.Has(section+"."+key) && c.found.Has("env.train."+key) {
		section = "env.train"
	}
	return section + "." + key
}
