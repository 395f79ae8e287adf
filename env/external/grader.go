package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/programs"
)

// A GraderProgram is a running program that grades answers of a language model (docs/bridge.md, Graders).
// After an error it can only be closed.
type GraderProgram struct {
	c        *conversation
	programs *programs.Starter
	patient  time.Duration
}

// A Submission is an answer to be graded.
type Submission struct {
	Prompt    string   `json:"prompt"`
	Answer    string   `json:"answer"`
	Solutions []string `json:"solutions"`
}

// StartGrader starts the program in command under a supervisor, and waits for its greeting. The
// timeout is for this wait and for each call of Grade. The program's output goes to log.
func StartGrader(by programs.Entered, command []string, timeout time.Duration, log io.Writer) (*GraderProgram, error) {
	g := &GraderProgram{patient: timeout, programs: by.NewStarter()}
	lines := &lineWriter{to: log}
	proc, link, err := start(g.programs, command, "grader", &limitedWriter{to: lines, left: maxOutput})
	if err != nil {
		return nil, errors.Join(err, g.programs.Close())
	}
	g.c = newConversation(link, proc, "grader", lines)
	if err := g.greet(); err != nil {
		return nil, errors.Join(g.explain(err), g.end(true))
	}
	return g, nil
}

func (g *GraderProgram) greet() error {
	payload, err := g.c.receiveHello(time.Now().Add(g.patient))
	if err != nil {
		return err
	}
	var said struct {
		V      int    `json:"v"`
		Name   string `json:"name"`
		Grader bool   `json:"grader"`
	}
	switch err := json.Unmarshal(durable.WholeNumbers(payload), &said); {
	case err != nil:
		return fmt.Errorf("greeting: %w", err)
	case said.V != version:
		return fmt.Errorf("greeting: v is %d, expected %d", said.V, version)
	case !said.Grader:
		return fmt.Errorf("greeting: %q is no grader: expected rlb.grade, or a greeting with \"grader\": true",
			said.Name)
	}
	return nil
}

// Grade returns one grade per submission. A grade is nil if the program cannot parse the answer.
func (g *GraderProgram) Grade(submissions []Submission) (worth []*float32, err error) {
	payload, err := json.Marshal(submissions)
	if err != nil {
		return nil, err
	}
	by := time.Now().Add(g.patient)
	if err := g.c.send(header{kind: grade}, payload, by); err != nil {
		return nil, g.explain(err)
	}
	if payload, err = g.c.receive(by); err != nil {
		return nil, g.explain(err)
	}
	if err := json.Unmarshal(payload, &worth); err != nil {
		return nil, g.explain(fmt.Errorf("RESULT: expected a JSON array of numbers and nulls: %w", err))
	}
	if len(worth) != len(submissions) {
		return nil, g.explain(fmt.Errorf("RESULT: %d rewards for %d answers", len(worth), len(submissions)))
	}
	return worth, nil
}

// explain adds the program's exit status and last output to err.
func (g *GraderProgram) explain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no answer in %v (reward.program.timeout)", g.patient)
	}
	return fmt.Errorf("%w%s", err, g.c.exitReport(err))
}

// Close ends the program.
func (g *GraderProgram) Close() error { return g.end(false) }

func (g *GraderProgram) end(useless bool) error {
	err := g.c.close(useless)
	if late := g.programs.Close(); late != nil {
		fmt.Fprintln(g.c.log, "warning:", late)
	}
	return err
}
