package config

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/reward/answer"
)

// Registries hold the parts that a job can use. Your own main function can add more.
type Registries struct {
	Envs       *env.Registry    // env.train.env_type, env.eval.env_type
	Policies   *policy.Registry // actor.model.model_type
	Algorithms *algo.Registry   // algorithm.adv_type, algorithm.loss_type
	Rewards    *reward.Registry // reward.reward_type
	Answers    *answer.Registry // reward.reward_type in the reasoning task; nil means answer.Builtin
	// Components are names of a program's own components. cluster.component_placement may place them, in addition
	// to actor, rollout, env, reward and inference.
	Components []string
	// Programs starts external programs. Main and Run of package roles set it.
	Programs programs.Entered
}

// AnswerRules returns the rules that grade answers of language models.
func (reg Registries) AnswerRules() *answer.Registry {
	if reg.Answers == nil {
		return answer.Builtin()
	}
	return reg.Answers
}

// A Learning describes the data that a job's algorithm learns from. The zero value means rollouts of the present
// policy.
type Learning struct {
	OffPolicy bool // transitions in a replay buffer
	Offline   bool // demonstrations alone, without rollouts
	Labelled  bool // the expert's actions
}

// Learning describes the data that c's algorithm learns from.
func (reg Registries) Learning(c *Config) Learning {
	if !c.Trains() {
		return Learning{}
	}
	a := c.Algorithm.Config
	return Learning{OffPolicy: reg.Algorithms.OffPolicy(a), Offline: reg.Algorithms.Offline(a),
		Labelled: reg.Algorithms.Labelled(a)}
}
