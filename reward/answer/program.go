package answer

import (
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/reward/verify"
)

// Program is the reward_type that grades with a program of the user.
const Program = "program"

// CheckProgram returns an error if s has reward_type "program" and the program cannot be found. It does not start the
// program.
func CheckProgram(s Setup) error {
	if s.Type != Program {
		return nil
	}
	if len(s.Config.Program.Command) == 0 {
		return fmt.Errorf("program.command: none: expected the program that reward_type %s asks", Program)
	}
	if _, err := exec.LookPath(s.Config.Program.Command[0]); err != nil {
		return fmt.Errorf("program.command: %w", err)
	}
	return nil
}

// A JudgeProgram runs the program of reward_type "program". The graders of a rank share one JudgeProgram. The first
// grader that opens it starts the program, and the last grader that closes it ends the program. The zero JudgeProgram
// is ready to use, and safe for concurrent use.
type JudgeProgram struct {
	mu      sync.Mutex
	program *external.GraderProgram
	users   int
}

func (j *JudgeProgram) open(by programs.Entered, c *ProgramConfig, log io.Writer) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.users == 0 {
		if j.program, err = external.StartGrader(by, c.Command, c.Timeout, log); err != nil {
			return fmt.Errorf("program %s: %w", c.Command[0], err)
		}
	}
	j.users++
	return nil
}

func (j *JudgeProgram) grade(s []external.Submission) ([]*float32, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.program.Grade(s)
}

func (j *JudgeProgram) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.users--; j.users > 0 {
		return nil
	}
	return j.program.Close()
}

// newProgram returns a grader that calls the program of s. The program's output goes to log.
func newProgram(s Setup, log io.Writer) (*Grader, error) {
	c, judge := &s.Config.Program, s.Judge
	if judge == nil {
		judge = new(JudgeProgram)
	}
	if err := judge.open(s.Programs, c, log); err != nil {
		return nil, err
	}
	rule := func(grades []Grade, responses []Response) error {
		submissions := make([]external.Submission, len(responses))
		for i := range responses {
			r := &responses[i]
			submissions[i] = external.Submission{Prompt: r.Question.Text, Answer: r.Text,
				Solutions: r.Question.Solutions}
		}
		worth, err := judge.grade(submissions)
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
	return &Grader{rule: rule, setup: s, close: judge.close}, nil
}
