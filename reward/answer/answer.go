package answer

import "github.com/rlinf/rlinf/reward/verify"

// A Question is a prompt with its right answers.
type Question struct {
	Number int64   // number of the prompt in the run; a seed of the random rewards
	Prompt []int32 // tokens
	Answer []int32 // tokens of the right answer, with the end token

	Text      string   // text of the prompt, as in the data
	Solutions []string // right answers
}

// A Response is one answer of a model to a question.
type Response struct {
	Question *Question
	Sample   int     // index among the answers to the question
	Tokens   []int32 // tokens that the model sampled, with the end token
	Text     string  // text of the tokens, without special tokens
	Ended    bool    // true if the model ended the answer, false if it was cut off
}

// A Grade is the reward and the outcome of a response.
type Grade struct {
	Reward  float32
	Outcome verify.Outcome
}

// A Rule fills grades, one for each response. It is not safe for concurrent use.
type Rule func(grades []Grade, responses []Response) error

// Each returns a rule that calls judge for each response.
func Each(judge func(r *Response) Grade) Rule {
	return func(grades []Grade, responses []Response) error {
		for i := range responses {
			grades[i] = judge(&responses[i])
		}
		return nil
	}
}

// A Grader is a rule with the scales and options of the configuration.
type Grader struct {
	rule  Rule
	setup Setup
	close func() error // nil if there is nothing to close
}

// Grade fills grades, one for each response.
func (g *Grader) Grade(grades []Grade, responses []Response) error {
	if err := g.rule(grades, responses); err != nil {
		return err
	}
	c := &g.setup.Config
	for i := range responses {
		v := &grades[i]
		if v.Reward *= c.RewardScale; v.Outcome != verify.Unparsable {
			v.Reward += c.FormatReward
		}
		if c.RandomReward {
			v.Reward = g.setup.toss(&responses[i])
		}
	}
	return nil
}

// Close frees the resources of the rule. A nil Grader has none.
func (g *Grader) Close() error {
	if g == nil || g.close == nil {
		return nil
	}
	return g.close()
}
