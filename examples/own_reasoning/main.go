// Command own_reasoning trains a language model on its own answers in a loop of its own, with RLinf's phases. Its
// results are bit-identical to those of rlinf. You can add work of your own between the phases.
//
//	rlinf data addition && rlinf -c configs/addition_start.yaml
//	go run ./examples/own_reasoning -c configs/addition_grpo.yaml
package main

import (
	"context"
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

func main() {
	os.Exit(roles.RunMovable(os.Args, roles.Registries{Envs: all.Registry(), Policies: policy.Builtin(),
		Algorithms: algo.Builtin(), Rewards: reward.Builtin()}, train))
}

func train(ctx context.Context, cluster *roles.Cluster) error {
	groups, err := roles.LaunchReasoning(ctx, cluster)
	if err != nil {
		return err
	}
	runner, err := roles.NewReasoningRunner(ctx, cluster, groups)
	if err != nil {
		return err
	}
	if err := runner.InitWorkers(ctx); err != nil {
		return err
	}
	for {
		more, err := runner.Next(ctx) // writes metrics and checkpoints, and moves
		if err != nil || !more {
			return err
		}
		for _, phase := range []func(context.Context) error{
			runner.UpdateRolloutWeights,        // new weights to the rollout and inference workers
			runner.GenerateRollouts,            // answers, with their rewards and log-probs
			runner.ComputeAdvantagesAndReturns, // advantages of the answers, from their rewards
			runner.RunTraining,                 // updates of the model, and of the critic
			runner.EvaluateIfDue,               // answers to the validation questions
		} {
			if err := phase(ctx); err != nil {
				return err
			}
		}
	}
}
