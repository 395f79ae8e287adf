// Command rlinf trains reinforcement-learning policies on clusters: one program, started by mpirun
// or srun, or alone.
package main

import (
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

func main() {
	os.Exit(roles.Main(os.Args, roles.Registries{Envs: all.Registry(), Policies: policy.Builtin(),
		Algorithms: algo.Builtin(), Rewards: reward.Builtin()}))
}
