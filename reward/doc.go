// Package reward answers: which rewards do transitions get in place of the environment's? Rewards come from a rule,
// which is a function of a batch of transitions, or from a network that scores observations.
//
//	rules := reward.Builtin()
//	rules.Add("upright", func(s reward.Setup) (reward.Rule, error) { … })  // for reward.reward_type: upright
//	rule, err := rules.New(setup)
//	err = rule(scores, &batch)                                               // one number for each transition
//
// A Rule scores each transition independently of its batch. The component "reward" of a job (package roles) calls the
// Rule for the transitions that rollout workers send. Evaluations and episode metrics use the environment's own
// rewards.
package reward
