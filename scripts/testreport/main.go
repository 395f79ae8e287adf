// Testreport runs go test -json, and prints the failures, the skipped tests that are not allowed,
// and a line of counts.
//
//	testreport -stage NAME [-allowed FILE] [-counts FILE] go test -json ./...
//
// Only tests without subtests count. A skipped test is a failure unless a line of the allowed file
// matches it. Each line of that file has a regular expression and a reason. The expression must
// match "package.Test" as a whole. Testreport appends the numbers of passed, failed and skipped
// tests to the counts file. The exit code is 0 without failures, 1 with failures, and 2 if the
// command could not be run or its output could not be read.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

func main() {
	stage := flag.String("stage", "tests", "what the summary calls this run")
	allowed := flag.String("allowed", "", "`FILE` of the skips that are no failure")
	counts := flag.String("counts", "", "`FILE` to add the counts to")
	flag.Parse()
	ok, err := run(*stage, *allowed, *counts, flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: %s: %v\n", *stage, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(stage, allowed, counts string, command []string) (ok bool, err error) {
	if len(command) == 0 {
		return false, errors.New("no command: expected go test -json and its arguments")
	}
	r := newReport(os.Stdout)
	if allowed != "" {
		text, err := os.ReadFile(allowed)
		if err != nil {
			return false, fmt.Errorf("read allowed skips: %w", err)
		}
		if r.allowed, err = parseAllowed(string(text)); err != nil {
			return false, fmt.Errorf("%s:%w", allowed, err)
		}
	}
	start := time.Now()
	if err := r.follow(command); err != nil {
		return false, err
	}
	fmt.Printf("%-44s %d packages, %d passed, %d failed, %d skipped, %.1fs, %.0fs of CPU\n", stage, r.packages,
		r.passed, r.failed, r.skipped, time.Since(start).Seconds(), r.cpu.Seconds())
	fmt.Printf("    longest packages: %s\n    longest tests: %s\n", longest(r.packageTimes), longest(r.testTimes))
	if counts != "" {
		f, err := os.OpenFile(counts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return false, err
		}
		fmt.Fprintln(f, r.passed, r.failed, r.skipped)
		if err := f.Close(); err != nil {
			return false, err
		}
	}
	return r.failed == 0, nil
}

// follow runs the command and adds its events to the report.
func (r *report) follow(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(out)
	if readErr != nil {
		io.Copy(io.Discard, out) // so that the command can end
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.close(err != nil)
	return readErr
}

// read adds the events of a stream to the report.
func (r *report) read(from io.Reader) error {
	for d := json.NewDecoder(from); ; {
		var e event
		switch err := d.Decode(&e); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read the events of go test -json: %w", err)
		}
		r.add(e)
	}
}
