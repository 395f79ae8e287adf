package answer_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/reward/verify"
)

// A rule of one's own for answers of a language model: right answers of one word get 1, longer ones a half.
func ExampleEach() {
	rules := answer.Builtin()
	rules.Add("brief", func(answer.Setup) (answer.Rule, error) {
		return answer.Each(func(r *answer.Response) answer.Grade {
			switch words := strings.Fields(r.Text); {
			case len(words) == 0:
				return answer.Grade{Outcome: verify.Unparsable}
			case words[len(words)-1] != r.Question.Solutions[0]:
				return answer.Grade{Outcome: verify.Wrong}
			case len(words) > 1:
				return answer.Grade{Reward: 0.5, Outcome: verify.Right}
			}
			return answer.Grade{Reward: 1, Outcome: verify.Right}
		}), nil
	})
	grader, err := rules.New(answer.Setup{Type: "brief", Config: answer.DefaultConfig()})
	if err != nil {
		log.Fatal(err)
	}
	defer grader.Close()

	sum := &answer.Question{Text: "3+4=", Solutions: []string{"7"}}
	grades := make([]answer.Grade, 3)
	err = grader.Grade(grades, []answer.Response{{Question: sum, Text: "7", Ended: true},
		{Question: sum, Text: "it is 7", Ended: true}, {Question: sum, Text: "8", Ended: true}})
	fmt.Println(grades[0].Reward, grades[1].Reward, grades[2].Reward, err)
	// Output: 1 0.5 0 <nil>
}
