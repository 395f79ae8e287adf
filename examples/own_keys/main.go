// Command own_keys is rlinf with an environment, a policy, an algorithm and a reward of your own.
// Each has its own keys in the configuration. See docs/extending.md.
//
//	go run ./examples/own_keys -c examples/own_keys/job.yaml env.train.init_params.wind=0.3
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
	reg := roles.Registries{
		Envs: all.Registry(), Policies: policy.Builtin(), Algorithms: algo.Builtin(), Rewards: reward.Builtin(),
	}
	addSail(reg.Envs)
	addLayers(reg.Policies)
	addThrifty(reg.Algorithms)
	addNear(reg.Rewards)
	os.Exit(roles.Main(os.Args, reg))
}
