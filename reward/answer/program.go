package answer

import (
	"fmt"
	"io"
	"os/exec"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/reward/verify"
)

// Program is the reward_type that asks a program of the user's.
const Program = "program"

// CheckProgram returns an error if the program of s cannot be found. It starts nothing.
func CheckProgram(s Setup) error {
	if s.Type != Program {
		return nil
	}
	if len(s.Config.Program.Command) == 0 {
		return fmt.Errorf("program.command: none: want the program that reward_type %s asks", Program)
	}
	if _, err := exec.LookPath(s.Config.Program.Command[0]); err != nil {
		return fmt.Errorf("program.command: %w", err)
	}
	return nil
}

// newProgram starts the program of s and returns the grader that asks it. What the program writes goes
// to log.
func newProgram(s Setup, log io.Writer) (*Grader, error) {
	c := &s.Config.Program
	p, err := external.StartGrader(c.Command, c.Timeout, log)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", c.Command[0], err)
	}
	rule := func(grades []Grade, responses []Response) error {
		submissions := make([]external.Submission, len(responses))
		for i := range responses {
			r := &responses[i]
			submissions[i] = external.Submission{Prompt: r.Question.Text, Answer: r.Text,
				Solutions: r.Question.Solutions}
		}
		worth, err := p.Grade(submissions)
		if err != nil {
			return fmt.Errorf("program %s: %w", c.Command[0], err)
		}
		for i, w := range worth {
			switch {
			case w == nil:
				grades[i] = Grade{0, verify.Unparsable}
			case *w >= 1:
				grades[i] = Grade{*w, verify.Right}
			default:
				grades[i] = Grade{*w, verify.Wrong}
			}
		}
		return nil
	}
	return &Grader{rule: rule, setup: s, close: p.Close}, nil
}
