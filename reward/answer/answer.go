package answer

import "github.com/rlinf/rlinf/reward/verify"

// A Question is a prompt with what is known of its answer.
type Question struct {
	Number int64   // of the prompt in the run: it names random numbers
	Prompt []int32 // tokens
	Answer []int32 // the right one in tokens, with the one that ends it

	Text      string   // of the prompt, as the data have it
	Solutions []string // any one of them is right
}

// A Response is one answer of a model to a question.
type Response struct {
	Question *Question
	Sample   int     // its number among the answers to the question
	Tokens   []int32 // that the model drew, with the one that ended the answer
	Text     string  // without tokens that have a meaning of their own
	Ended    bool    // false: it was cut off
}

// A Grade is what a response is worth.
type Grade struct {
	Reward  float32
	Outcome verify.Outcome
}

// A Rule fills grades, one for each response. It belongs to one goroutine at a time.
type Rule func(grades []Grade, responses []Response) error

// Each returns the rule that judges responses one by one.
func Each(judge func(r *Response) Grade) Rule {
	return func(grades []Grade, responses []Response) error {
		for i := range responses {
			grades[i] = judge(&responses[i])
		}
		return nil
	}
}

// A Grader is a rule with the weights of the configuration.
type Grader struct {
	rule  Rule
	setup Setup
	close func() error // nil: nothing is open
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

// Close ends what the rule has opened.
func (g *Grader) Close() error {
	if g.close == nil {
		return nil
	}
	return g.close()
}
