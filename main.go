// Command rlinf trains reinforcement-learning policies on clusters. A user, mpirun or srun starts it.
package main

import (
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

func main() {
	os.Exit(roles.Main(os.Args, roles.Registries{Envs: all.Registry(), Policies: policies.Registry(),
		Algorithms: algo.Builtin(), Rewards: reward.Builtin()}))
}
