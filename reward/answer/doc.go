// Package answer answers: which grade does a language model's answer get?
//
//	rules := answer.Builtin()
//	rules.Add("short", func(answer.Setup) (answer.Rule, error) { … })     // for reward.reward_type: short
//	grader, err := rules.New(answer.Setup{Type: "math", Config: config})
//	err = grader.Grade(grades, responses)                                  // a Grade for each Response
//
// A Rule grades each response independently, so a grade does not depend on the batch or the rank.
// The outcome of a response that the rule cannot parse is Unparsable, which is never right.
package answer
