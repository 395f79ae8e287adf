package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// A draft is a job that is being checked, with the findings so far.
type draft struct {
	*Job
	found *config.Findings
	asks  bool // may start simulators in programs of their own, to ask what they are
}

// newDraft places cfg in a world whose rank r is on node nodes[r]. It finds every mistake that can
// be found without making an environment or a policy and without reading other files.
func newDraft(cfg *config.Config, reg config.Registries, nodes []int) *draft {
	d := &draft{Job: &Job{Config: cfg, Registries: reg, Learning: reg.Learning(cfg)}, found: cfg.CheckParts(reg)}
	d.readTable()
	d.placeOn(nodes)
	d.Actors, d.rollouts, d.simulators = d.workers("actor"), d.workers("rollout"), d.workers("env")
	d.Rewards, d.Inferences = d.workers("reward"), d.workers("inference")
	d.checkCounts()
	return d
}

// readTable reads the table of collective algorithms, if there is one.
func (d *draft) readTable() {
	file := d.Config.Comm.Table
	if file == "" {
		return
	}
	var err error
	d.table, err = collectives.ReadTable(file)
	d.found.Want(err == nil, "comm.table", nil, fmt.Sprintf("a table that can be read: %v", err))
}

// checkCounts checks that environments and samples divide over the workers.
func (d *draft) checkCounts() {
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

// Check returns everything that newDraft finds wrong with a job in a world whose rank r is on node
// nodes[r]. If that is something it adds what New would find, without starting simulators in programs
// of their own. A job that only evaluates needs no world.
func Check(cfg *config.Config, reg config.Registries, nodes []int) error {
	if !cfg.Trains() {
		return cfg.CheckNames(reg)
	}
	if cfg.FineTunes() {
		return newTuningDraft(cfg, reg, nodes).found.Err()
	}
	d := newDraft(cfg, reg, nodes)
	if d.found.Err() != nil {
		d.tryParts(nodes)
	}
	return d.found.Err()
}

// placeOn computes the placement. It leaves none if it does not fit.
func (d *draft) placeOn(nodes []int) {
	if d.found.Reported("cluster.node_groups", "spmd.nodes") {
		return // the placement may fail because of these mistakes
	}
	place, err := d.Config.Place(nodes)
	if err == nil {
		d.Placement = place
		return
	}
	for _, e := range unjoin(err) {
		var p *spmd.PlacementError
		if !errors.As(e, &p) {
			d.problem("cluster.component_placement", nil, "a placement that can be made: "+e.Error())
			continue
		}
		var value any
		if p.Value != "" {
			value = p.Value
		}
		d.problem(p.Key, value, strings.TrimPrefix(p.Want, "expected "))
	}
}

// unjoin returns the errors that err joins.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// workers returns how many workers a component has; 0 if there is no placement.
func (d *draft) workers(component string) int {
	if d.Placement == nil {
		return 0
	}
	return len(d.Placement.Ranks(component))
}

// problem reports that key, dotted, has a wrong value. A nil value is left out of the message; want
// completes "want …".
func (d *draft) problem(key string, value any, want string) { d.found.Want(false, key, value, want) }

// checkEnvCount checks that the environments of a section divide over the workers that simulate,
// infer and train.
func (d *draft) checkEnvCount(section string, actors int) {
	e, stages := &d.Config.Env.Train, d.Config.Rollout.PipelineStageNum
	if section == "env.eval" {
		e, stages = &d.Config.Env.Eval, 1 // evaluation is not pipelined
	}
	if e.TotalNumEnvs <= 0 || stages <= 0 || e.GroupSize <= 0 ||
		d.Config.Reported(d.Config.EnvKey(section, "group_size"), "algorithm.group_size",
			"rollout.pipeline_stage_num") {
		return // reported
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
	if d.simulators == 0 { // it is not known how many there are
		rule(1, stages, e.GroupSize, strings.TrimPrefix(staged+group, " × "))
	}
	rule(d.simulators, stages, e.GroupSize, fmt.Sprintf("%d env workers%s%s", d.simulators, staged, group))
	rule(d.rollouts, stages, 1, fmt.Sprintf("%d rollout workers%s", d.rollouts, staged))
	rule(actors, 1, e.GroupSize, fmt.Sprintf("%d actors%s", actors, group))
	d.found.Want(len(broken) == 0, d.Config.EnvKey(section, "total_num_envs"), e.TotalNumEnvs,
		fmt.Sprintf("a multiple of %d (%s)", least, strings.Join(broken, "; ")))
}

// checkBatches checks that samples divide over actors, optimiser steps and micro-batches.
func (d *draft) checkBatches() {
	c, micro, global := d.Config, d.Config.Actor.MicroBatchSize, d.Config.Actor.GlobalBatchSize
	unit, of := config.Product(micro, d.Actors), fmt.Sprintf("micro_batch_size %d × %d actors", micro, d.Actors)
	if d.Actors == 0 { // it is not known how many there are
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

// knownSamples returns the samples of an iteration and the steps of each environment. It returns 0
// if a value that they depend on has been reported.
func (d *draft) knownSamples() (samples, steps int) {
	train := func(key string) string { return "env.train." + key }
	if d.Config.Actor.Model.NumActionChunks < 1 || d.Config.Reported(train("total_num_envs"),
		train("max_steps_per_rollout_epoch"), train("rollout_epoch"), "actor.model.num_action_chunks",
		"algorithm.adv_type", "algorithm.loss_type") {
		return 0, 0
	}
	return d.Config.Samples()
}

// checkRatio checks that the env workers of an asynchronous run divide over its rollout workers.
func (d *draft) checkRatio() {
	if !d.Config.Runner.Async || d.Offline || d.rollouts == 0 {
		return
	}
	d.found.Want(d.simulators%d.rollouts == 0, "cluster.component_placement", nil, fmt.Sprintf("with runner.async as "+
		"many env workers as rollout workers, or a multiple: there are %d and %d", d.simulators, d.rollouts))
}
