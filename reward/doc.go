// Package reward answers: which rewards do transitions get in place of the environment's? Rewards are from a rule,
// which is a function of a batch of transitions, or from a network that was trained to score observations.
//
//	rules := reward.Builtin()
//	rules.Add("upright", func(s reward.Setup) (reward.Rule, error) { … })  // for reward.reward_type: upright
//	rule, err := rules.New(setup)
//	err = rule(scores, &batch)                                               // one number for each transition
//
// A Rule scores every row independently, so a transition's score does not depend on its batch. The component reward of
// a job (package roles) calls the Rule for the transitions that rollout workers send. Evaluations and the metrics of
// episodes keep the environment's own rewards.
package reward
