// Command own_parts is rlinf with an environment, a policy, an algorithm and a reward of your own.
// See docs/extending.md.
//
//	go run ./examples/own_parts -c examples/own_parts/job.yaml
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
	envs, policies, algorithms, rewards := all.Registry(), policy.Builtin(), algo.Builtin(), reward.Builtin()
	envs.Add("Corridor-v0", newCorridor)               // env.train.env_type
	policies.Add("softmax", newSoftmax)                // actor.model.model_type
	algorithms.Add("reinforce", "actor", newReinforce) // algorithm.adv_type, loss_type
	rewards.Add("thrift", newThrift)                   // reward.reward_type
	os.Exit(roles.Main(os.Args, roles.Registries{
		Envs: envs, Policies: policies, Algorithms: algorithms, Rewards: rewards,
	}))
}
