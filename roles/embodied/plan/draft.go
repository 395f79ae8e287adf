package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
)

// A Draft is a plan that is not complete.
type Draft struct {
	*Plan
	found *config.Findings
	nodes []int // the node of each rank
	asks  bool  // the draft may start external simulators to ask for their specification
	tried bool  // Mistakes has called tryParts
}

// NewDraft returns the draft of cfg for a world whose rank r is on node nodes[r]. It makes no environment and no
// policy, and reads no file except comm.table.
func NewDraft(cfg *config.Config, reg config.Registries, nodes []int) *Draft {
	common, found := job.New(cfg, reg, nodes)
	d := &Draft{Plan: &Plan{Job: common, Learning: reg.Learning(cfg), alone: len(nodes) == 1}, found: found,
		nodes: nodes}
	d.Actors, d.rollouts, d.simulators = d.Workers("actor"), d.Workers("rollout"), d.Workers("env")
	d.Rewards, d.Inferences = d.Workers("reward"), d.Workers("inference")
	if cfg.Standalone() {
		d.Rewards = 0 // env workers score
	}
	d.checkCounts()
	return d
}

// Mistakes returns all mistakes as one error, or nil if there are none. Before it returns an error, it also makes the
// environments and the policy to find further mistakes. It starts no external simulators.
func (d *Draft) Mistakes() error {
	if d.found.Err() != nil && !d.tried {
		d.tried = true
		d.tryParts()
	}
	return d.found.Err()
}

// Complete returns the plan, or one error with all mistakes. It makes an environment of each kind and a policy, and
// reads demonstrations.
func (d *Draft) Complete(cfg *config.Config, reg config.Registries) (*Plan, error) {
	d.Config, d.Registries, d.asks = cfg, reg, true
	if d.found.Err() == nil {
		d.divide()
	}
	d.tryParts()
	d.checkExpert()
	d.checkInterventions()
	d.checkRobot()
	d.checkVideo()
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	return d.Plan, nil
}

// divide sets the fields of the plan that need only the configuration and the world.
func (d *Draft) divide() {
	c, train := d.Config, d.Config.Env.Train
	d.Chunks = c.Actor.Model.NumActionChunks
	d.RolloutsAtMost = c.Algorithm.MaxNumGenBatches
	d.Epochs, d.Steps = train.RolloutEpoch, train.MaxStepsPerRolloutEpoch/d.Chunks
	if d.rewardsPerSample = 1; c.ActionRewards() {
		d.rewardsPerSample = d.Chunks
	}
	d.AutoReset, d.BootstrapAll = train.AutoReset, c.Algorithm.BootstrapType == algo.BootstrapAlways
	d.SyncInterval = int64(c.Runner.WeightSyncInterval)
	if d.MaxSteps = int64(c.Runner.Iterations()); d.MaxSteps < 0 {
		d.MaxSteps = math.MaxInt64
	}
	if c.Trains() && !d.Offline {
		d.Train = newRouting(train.TotalNumEnvs, c.Rollout.PipelineStageNum, d.simulators, d.rollouts, d.Actors)
	}
	if c.Evaluates() {
		d.Eval = newRouting(c.Env.Eval.TotalNumEnvs, 1, d.simulators, d.rollouts, 0)
	}
}

// checkCounts checks that environments and samples can be divided among the workers.
func (d *Draft) checkCounts() {
	if d.Config.Trains() {
		if !d.Offline {
			d.checkEnvCount("env.train", d.Actors)
		}
		d.checkBatches()
		d.checkRatio()
	}
	if d.Config.Evaluates() {
		d.checkEnvCount("env.eval", 0)
	}
}

// checkEnvCount checks that the environments of a section can be divided among env workers, rollout workers and actors.
func (d *Draft) checkEnvCount(section string, actors int) {
	e, stages := &d.Config.Env.Train, d.Config.Rollout.PipelineStageNum
	if section == "env.eval" {
		e, stages = &d.Config.Env.Eval, 1 // evaluations have one stage
	}
	if e.TotalNumEnvs <= 0 || stages <= 0 || e.GroupSize <= 0 ||
		d.Config.Reported(d.Config.EnvKey(section, "group_size"), "algorithm.group_size",
			"rollout.pipeline_stage_num") {
		return // the mistake is reported
	}
	group := ""
	if e.GroupSize > 1 {
		group = fmt.Sprintf(" × group_size %d", e.GroupSize)
	}
	var broken []string
	least := 1
	rule := func(workers, stages, group int, why string) {
		if m := config.Product(workers, stages, group); m > 0 {
			least = config.LCM(least, m)
			if e.TotalNumEnvs%m != 0 {
				broken = append(broken, why)
			}
		}
	}
	staged := ""
	if section == "env.train" {
		staged = fmt.Sprintf(" × pipeline_stage_num %d", stages)
	}
	if d.simulators == 0 { // the number of env workers is not known
		rule(1, stages, e.GroupSize, strings.TrimPrefix(staged+group, " × "))
	}
	rule(d.simulators, stages, e.GroupSize, fmt.Sprintf("%d env workers%s%s", d.simulators, staged, group))
	rule(d.rollouts, stages, 1, fmt.Sprintf("%d rollout workers%s", d.rollouts, staged))
	rule(actors, 1, e.GroupSize, fmt.Sprintf("%d actors%s", actors, group))
	d.found.Want(len(broken) == 0, d.Config.EnvKey(section, "total_num_envs"), e.TotalNumEnvs,
		fmt.Sprintf("a multiple of %d (%s)", least, strings.Join(broken, "; ")))
}

// checkBatches checks that samples can be divided among actors, optimiser steps and micro-batches.
func (d *Draft) checkBatches() {
	c, micro, global := d.Config, d.Config.Actor.MicroBatchSize, d.Config.Actor.GlobalBatchSize
	unit, of := config.Product(micro, d.Actors), fmt.Sprintf("micro_batch_size %d × %d actors", micro, d.Actors)
	if d.Actors == 0 { // the number of actors is not known
		unit, of = micro, fmt.Sprintf("micro_batch_size %d", micro)
	}
	samples, steps := d.knownSamples()
	if global <= 0 || c.Reported("actor.global_batch_size") {
		return
	}
	fixed := samples > 0 && !d.OffPolicy && !d.Offline
	dividesUnit := unit <= 0 || global%unit == 0 || c.Reported("actor.micro_batch_size")
	dividesRollout := !fixed || samples%global == 0
	multiple := fmt.Sprintf("a multiple of %d (%s)", unit, of)
	whole := fmt.Sprintf("%d (%d steps × %d environments)", samples, steps, c.Env.Train.TotalNumEnvs)
	want := ""
	switch {
	case !dividesUnit && !dividesRollout:
		want = multiple + " that divides the samples of an iteration, " + whole
	case !dividesUnit:
		want = multiple
	case fixed && c.Algorithm.LossType == "a2c" && global != samples:
		want = "all samples of an iteration, " + whole + " (loss_type a2c)"
	case !dividesRollout:
		want = "a divisor of the samples of an iteration, " + whole
	}
	d.found.Want(want == "", "actor.global_batch_size", global, want)
}

// knownSamples returns the number of samples of an iteration, and the number of steps of each environment. Both are 0
// if they depend on a key with a reported mistake.
func (d *Draft) knownSamples() (samples, steps int) {
	train := func(key string) string { return "env.train." + key }
	if d.Config.Actor.Model.NumActionChunks < 1 || d.Config.Reported(train("total_num_envs"),
		train("max_steps_per_rollout_epoch"), train("rollout_epoch"), "actor.model.num_action_chunks",
		"algorithm.adv_type", "algorithm.loss_type") {
		return 0, 0
	}
	return d.Config.Samples()
}

// checkRatio checks that the env workers of an asynchronous run can be divided among the rollout workers.
func (d *Draft) checkRatio() {
	if !d.Config.Runner.Async || d.Offline || d.rollouts == 0 {
		return
	}
	d.found.Want(d.simulators%d.rollouts == 0, "cluster.component_placement", nil, fmt.Sprintf("with runner.async as "+
		"many env workers as rollout workers, or a multiple: there are %d and %d", d.simulators, d.rollouts))
}
