// Package reward says what transitions are worth where the environment's own reward is not what
// should be learnt from: rules, functions of a batch of transitions, and networks that were trained
// to judge observations.
//
//	rules := reward.Builtin()
//	rules.Add("upright", func(s reward.Setup) (reward.Rule, error) { … })  // for reward.reward_type: upright
//	rule, err := rules.New(setup)
//	err = rule(scores, &batch)                                               // one number for each transition
//
// A Rule scores every row by itself, so that it gives the same numbers in whatever batch a
// transition stands. The component reward of a job (package roles) calls it for what rollout
// workers send; evaluations and the metrics of episodes keep the environment's own rewards.
package reward
