// Package answer says what answers of a language model are worth.
//
//	rules := answer.Builtin()
//	rules.Add("short", func(answer.Setup) (answer.Rule, error) { … })     // for reward.reward_type: short
//	grader, err := rules.New(answer.Setup{Type: "math", Config: config})
//	err = grader.Grade(grades, responses)                                  // a Grade for each Response
//
// A Rule judges every response by itself, so a grade depends neither on the batch nor on the rank.
// A rule that cannot read a response says Unparsable, which is never right.
package answer
