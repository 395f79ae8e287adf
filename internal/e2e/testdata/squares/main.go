// Command squares is rlinf with the tasks of package squares, for policies that see images, read instructions, or reach
// goals.
package main

import (
	"os"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/envtest/squares"
	policies "github.com/rlinf/rlinf/policy/all"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
)

func main() {
	envs := all.Registry()
	envs.Add("Squares-v0", squares.New)
	envs.Add("Reach-v0", squares.NewReach)
	os.Exit(roles.Main(os.Args, roles.Registries{Envs: envs, Policies: policies.Registry(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}))
}
