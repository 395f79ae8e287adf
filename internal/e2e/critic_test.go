package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// withCritic is PPO with as many optimiser steps in an iteration as epochs times minibatches.
var withCritic = []string{"algorithm.adv_type=gae", "algorithm.loss_type=actor_critic", "algorithm.value_clip=0.5",
	"algorithm.update_epoch=2",
	"actor.critic_optim.lr=1e-3", "actor.optim.critic_warmup_steps=6"}

// criticCases are the placements of a critic with two workers that a default run tests. With two actors the metrics are
// those of actors with the critic inside.
func criticCases() []reasoningCase {
	all := []reasoningCase{
		{local, 4, "actor: 1-2\n    rollout: 0,3", nil}, // the actors have the critic
		{local, 4, "actor: 0-1\n    critic: 2-3\n    rollout: 2",
			[]string{"rollout.pipeline_stage_num=2", "actor.micro_batch_size=5"}},
		{openmpi, 3, "actor,critic: 1-2\n    rollout: 0-1\n    reward: 0", nil},
	}
	if !full {
		return all
	}
	for _, on := range platforms {
		for i, place := range []string{"actor,critic: 0-1\n    rollout: 2-3",
			"actor,critic,rollout,reward: 0-1\n    inference: 2-3",
			"actor: 0-1\n    critic: 1-2\n    rollout: 3", "actor: 2-3\n    critic: 0-1\n    rollout,reward: all",
			"actor: 0,3\n    critic: 1,3\n    rollout: 2"} {
			all = append(all, reasoningCase{on, 4, place, []string{fmt.Sprint("rollout.pipeline_stage_num=", 1+i%2),
				fmt.Sprint("rollout.max_running_requests=", 2+7*i), fmt.Sprint("actor.micro_batch_size=", 1+5*i)}})
		}
	}
	return all
}

// placedCritic: a critic on its own ranks or on ranks of others gives the metrics of a critic inside the actors, on
// whatever ranks, if there are as many workers. With another number of critic workers the metrics are the same in every
// placement. A checkpoint of either arrangement can be resumed in the other.
func placedCritic(t *testing.T, dir string) {
	// actors and critic workers exchange groups
	args := append([]string{"actor.enable_dp_load_balance=true"}, withCritic...)
	want := reason(t, local, dir, 0, collocated, args...)
	for _, name := range []string{"train/critic/grad_norm", "train/critic/explained_variance",
		"train/actor/grad_norm"} {
		if x := want.values(t, name); len(x) < 3 || x[0] == x[len(x)-1] {
			t.Errorf("%s: %v", name, x)
		}
	}
	want.checkRatios(t)
	for _, c := range criticCases() {
		t.Run(fmt.Sprint(c.on.name, " ", strings.Join(strings.Fields(c.place), " ")), func(t *testing.T) {
			c.on.program(t, ".") // or skip the test
			c.args = append(c.args, args...)
			if strings.Contains(c.place, "inference") {
				c.args = append(c.args, "algorithm.recompute_logprobs=true") // the same bits
			}
			reason(t, c.on, dir, c.np, c.place, c.args...).same(t, want)
		})
	}
	t.Run("another number", func(t *testing.T) { otherCritics(t, dir) })
	t.Run("resumed", func(t *testing.T) { // in the actors, apart, and in the actors again
		args := append([]string{"-c", "job.yaml", "runner.logger.experiment_name=again"}, args...)
		for i, place := range []string{collocated, "actor: 0-1\n    critic: 2-3\n    rollout: 2", collocated} {
			writeFile(t, dir, "job.yaml", components("%s", place)+reasoning)
			np, with := 0, []string{startWeights}
			if place != collocated {
				np = 4
			}
			if i > 0 {
				with = []string{"--resume", "auto"}
			}
			local.ok(t, dir, np, append(append(args, fmt.Sprint("runner.max_steps=", 4*i+4)), with...)...)
		}
		readMetrics(t, filepath.Join(dir, "logs", "again")).same(t, want)
		test.OK(t, os.RemoveAll(filepath.Join(dir, "logs", "again")))
	})
	if full {
		t.Run("adapters", func(t *testing.T) {
			args := append([]string{"actor.model.is_lora=true", "actor.model.lora_rank=4"}, withCritic...)
			want := reason(t, local, dir, 0, collocated, args...)
			reason(t, local, dir, 4, "actor: 0-1\n    critic: 2-3", args...).same(t, want)
		})
	}
}

// otherCritics: with the same number of critic workers the metrics are the same in every placement.
func otherCritics(t *testing.T, dir string) {
	of := []struct{ one, other string }{
		{"actor: 0-1\n    critic: 1", "actor: 0-1\n    critic: 3\n    rollout: 2-3"}}
	if full {
		of = append(of, struct{ one, other string }{"actor: 0\n    critic: 0-3", "actor: 3\n    critic: '0:0-3'"},
			struct{ one, other string }{"actor: 0-3\n    critic: 0-1",
				"actor: 0-3\n    critic: 2-3\n    rollout: 0"})
	}
	for _, p := range of {
		one := reason(t, local, dir, 4, p.one+"\n  allow_idle_ranks: true", withCritic...)
		if diff := reason(t, local, dir, 4, p.other+"\n  allow_idle_ranks: true",
			append([]string{"rollout.pipeline_stage_num=2"}, withCritic...)...).diff(one); diff != "" {
			t.Errorf("%s\n%s", p.other, diff)
		}
	}
}
