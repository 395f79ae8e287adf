// Command embodied trains a policy in environments. It is a complete rlinf, with the same flags,
// overrides and commands. With mpirun, every process runs it.
//
//	go run ./examples/embodied -c configs/cartpole_ppo.yaml runner.max_steps=10
package main

import (
	"context"
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

func main() {
	os.Exit(roles.Run(os.Args, roles.Registries{Envs: all.Registry(), Policies: policies.Registry(),
		Algorithms: algo.Builtin(), Rewards: reward.Builtin()}, train))
}

// train runs on every rank.
func train(ctx context.Context, cluster *roles.Cluster) error {
	placement := roles.NewHybridComponentPlacement(cluster)

	actor, err := roles.Launch(ctx, cluster, placement.Strategy("actor"), roles.NewActorWorker)
	if err != nil {
		return err
	}
	rollout, err := roles.Launch(ctx, cluster, placement.Strategy("rollout"), roles.NewRolloutWorker)
	if err != nil {
		return err
	}
	env, err := roles.Launch(ctx, cluster, placement.Strategy("env"), roles.NewEnvWorker)
	if err != nil {
		return err
	}

	runner, err := roles.NewEmbodiedRunner(cluster, roles.Groups{Actor: actor, Rollout: rollout, Env: env})
	if err != nil {
		return err
	}
	if err := runner.InitWorkers(ctx); err != nil {
		return err
	}
	return runner.Run(ctx)
}
