package config

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/reward/answer"
)

// Registries are what a job can be made of. A main of your own adds to them what it has.
type Registries struct {
	Envs       *env.Registry    // env.train.env_type, env.eval.env_type
	Policies   *policy.Registry // actor.model.model_type
	Algorithms *algo.Registry   // algorithm.adv_type, algorithm.loss_type
	Rewards    *reward.Registry // reward.reward_type
	Answers    *answer.Registry // the same, with the task reasoning; nil: answer.Builtin
	// Components are the names of a program's own components, that cluster.component_placement may
	// place beside actor, rollout, env, reward and inference.
	Components []string
	// Programs has the Starters of a job's programs. Main and Run of roles set it.
	Programs programs.Entry
}

// AnswerRules returns the rules for answers of language models.
func (reg Registries) AnswerRules() *answer.Registry {
	if reg.Answers == nil {
		return answer.Builtin()
	}
	return reg.Answers
}

// A Learning says what the algorithm of a job learns from. The zero value: rollouts of the present
// policy.
type Learning struct {
	OffPolicy bool // from a replay buffer: rollouts are transitions
	Offline   bool // from demonstrations alone: there are no rollouts
	Labelled  bool // from what experts would have done
}

// Learning returns what c's algorithm learns from.
func (reg Registries) Learning(c *Config) Learning {
	if !c.Trains() {
		return Learning{}
	}
	a := c.Algorithm.Config
	return Learning{OffPolicy: reg.Algorithms.OffPolicy(a), Offline: reg.Algorithms.Offline(a),
		Labelled: reg.Algorithms.Labelled(a)}
}
