package roles

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
)

// Registries are what a job can be made of. A main of your own adds to them what it has.
type Registries struct {
	Envs       *env.Registry
	Policies   *policy.Registry
	Algorithms *algo.Registry
	Rewards    *reward.Registry
}

// A learning says what the algorithm of a job learns from. The zero learning is from rollouts of the
// present policy, or of none.
type learning struct {
	offPolicy bool // from a replay buffer: rollouts are transitions
	offline   bool // from demonstrations alone: there are no rollouts
	labelled  bool // from what experts would have done
}

// learning returns what c's algorithm learns from.
func (reg Registries) learning(c *Config) learning {
	if !c.Trains() {
		return learning{}
	}
	a := c.Algorithm.Config
	return learning{offPolicy: reg.Algorithms.OffPolicy(a), offline: reg.Algorithms.Offline(a),
		labelled: reg.Algorithms.Labelled(a)}
}
