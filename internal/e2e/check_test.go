package e2e

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCheck shows what a configuration means.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	r := local.ok(t, dir, 0, "check", "-c", "job.yaml", "rollout.pipeline_stage_num=2", "runner.val_check_interval=1",
		"env.eval.total_num_envs=10")
	want := []string{
		"2 ranks on 1 node, hybrid",
		"rank  node  workers              device  parameters  optimiser  rollouts  channels",
		"0     0     actor[0] env[0]      cpu     0.0 MiB     0.0 MiB    0.0 MiB   0.0 MiB",
		"1     0     actor[1] rollout[0]  cpu     0.0 MiB     0.0 MiB    0.0 MiB   0.0 MiB",
		"this build cannot find GPUs%",
		"rollout: 8 environments, 8 on each of 1 env workers in 2 stages of 4, 4 at a time for each of 1 rollout " +
			"workers; 8 steps each",
		"samples: 64 per iteration (8 steps × 8 environments), 32 for each of 2 actors",
		"update: 1 epochs × 2 minibatches of 32 samples (16 on each actor, 16 at a time) = 2 optimiser steps per " +
			"iteration",
		"evaluation: 10 environments, 10 on each of 1 env workers, 10 at a time for each of 1 rollout workers; 500 " +
			"steps each at most",
		"verdict: runs",
	}
	if got := strings.Split(strings.TrimSpace(r.stdout), "\n"); !slices.EqualFunc(got, want, like) || r.stderr != "" {
		t.Errorf("check says\n%s%s\nwant\n%s", r.stdout, r.stderr, strings.Join(want, "\n"))
	}

	// A job that does not fit into memory is refused from an estimate alone: the test makes nothing of that size.
	r = local.run(t, dir, 0, "check", "-c", "job.yaml", "env.train.total_num_envs=1000000",
		"env.train.max_steps_per_rollout_epoch=1000000")
	if r.code != 2 || count(r.stderr, "command line: env.train.total_num_envs: 1000000: expected fewer environments "+
		"or shorter rollouts: 1000000 observations of 16 bytes of each are %") != 1 {
		t.Errorf("too large: exit code %d: %s", r.code, r.stderr)
	}
	if got := contents(t, dir); len(got) != 2 {
		t.Errorf("check has left files: %q", got)
	}

	// The network has a little more than 2^20 parameters, 4 MiB. Each actor also has a gradient and two moments.
	r = local.ok(t, dir, 0, "check", "-c", "job.yaml", "actor.model.hidden_sizes=[1024,1024]",
		"actor.model.add_value_head=false", "algorithm.loss_type=actor")
	if !regexp.MustCompile(`(?m)^1 .* cpu +12\.\d MiB +8\.\d MiB`).MatchString(r.stdout) {
		t.Errorf("memory of a large network:\n%s", r.stdout)
	}

	// Asynchronous rollouts have a copy of the weights. If two rollouts may wait, there are three times as many
	// trajectories as in a synchronous job, whose actor trains on those of its own rank's rollouts.
	long := []string{"check", "-c", "job.yaml", "actor.model.hidden_sizes=[1024,1024]",
		"env.train.max_steps_per_rollout_epoch=16384"}
	memory := func(more ...string) (parameters, rollouts float64) {
		row := regexp.MustCompile(`(?m)^1 .* cpu +(\S+) MiB +\S+ MiB +(\S+) MiB`).FindStringSubmatch(
			local.ok(t, dir, 0, append(long, more...)...).stdout)
		if row == nil {
			t.Fatal("no rank 1")
		}
		parameters, _ = strconv.ParseFloat(row[1], 64)
		rollouts, _ = strconv.ParseFloat(row[2], 64)
		return parameters, rollouts
	}
	params, rollouts := memory()
	asyncParams, asyncRollouts := memory("runner.async=true", "algorithm.staleness_threshold=2")
	if rollouts < 10 || math.Abs(asyncRollouts-3*rollouts) > 0.2 || math.Abs(asyncParams-params*4/3) > 0.2 {
		t.Errorf("parameters %v MiB, rollouts %v MiB; async: %v, %v", params, rollouts, asyncParams, asyncRollouts)
	}
}

// TestCheckUnderLauncher: check takes the launcher's number of ranks, and prints its result once.
func TestCheckUnderLauncher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	if r := mpich.ok(t, dir, 2, "check", "-c", "job.yaml"); count(r.stdout, "2 ranks on 1 node, hybrid") != 1 {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := mpich.run(t, dir, 3, "check", "-c", "job.yaml"); r.code != 2 ||
		count(r.stderr, "%there is none on 2%") != 1 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}
