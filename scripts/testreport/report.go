package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const module = "github.com/rlinf/rlinf/"

// An event is a line of go test -json; see go doc test2json and go help buildjson.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of the built package, for build-output
	Test        string
	Output      string
	FailedBuild string  // ImportPath of the failed build that made the package fail
	Elapsed     float64 // seconds
}

// A report collects the events of one run of go test.
type report struct {
	out     io.Writer
	allowed []*regexp.Regexp

	packages, passed, failed, skipped int

	packageTimes, testTimes []duration
	cpu                     time.Duration // of the command and of the processes that it waited for

	running map[string]map[string]*test // by package and test; "" is the package itself
	builds  map[string]string           // build output by ImportPath
}

// A duration is the time of a package or a top-level test.
type duration struct {
	name    string
	seconds float64
}

type test struct {
	output strings.Builder
	parent bool   // whether it has subtests
	result string // pass, fail or skip; "" while it runs
}

func newReport(out io.Writer) *report {
	return &report{out: out, running: map[string]map[string]*test{}, builds: map[string]string{}}
}

// add handles one event. At the end of a package it prints the package's results.
func (r *report) add(e event) {
	if e.Action == "build-output" {
		r.builds[e.ImportPath] += e.Output
	}
	if e.Package == "" {
		return
	}
	t := r.test(e.Package, e.Test)
	switch e.Action {
	case "output":
		if !progress.MatchString(e.Output) {
			t.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		t.result = e.Action
		name := strings.TrimPrefix(e.Package, module)
		if e.Test == "" {
			r.packageTimes = append(r.packageTimes, duration{name, e.Elapsed})
			t.output.WriteString(r.builds[e.FailedBuild])
			delete(r.builds, e.FailedBuild)
			r.end(e.Package)
		} else if !strings.Contains(e.Test, "/") {
			r.testTimes = append(r.testTimes, duration{name + "." + e.Test, e.Elapsed})
		}
	}
}

// longest returns the five longest durations as text.
func longest(times []duration) string {
	slices.SortFunc(times, func(a, b duration) int { return cmp.Compare(b.seconds, a.seconds) })
	var words []string
	for _, d := range times[:min(5, len(times))] {
		words = append(words, fmt.Sprintf("%.1fs %s", d.seconds, d.name))
	}
	return strings.Join(words, ", ")
}

// progress matches the lines of go test about progress and the results of packages.
var progress = regexp.MustCompile(
	`(?m)^(=== (RUN|PAUSE|CONT|NAME)|\s*--- (PASS|SKIP)|(PASS|FAIL)$|(ok|FAIL|\?)\s+\S+\s)`)

// test returns the record of a test. It adds the test and its parents if they are new.
func (r *report) test(pkg, name string) *test {
	tests := r.running[pkg]
	if tests == nil {
		tests = map[string]*test{}
		r.running[pkg] = tests
	}
	t := tests[name]
	if t == nil {
		t = new(test)
		tests[name] = t
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			r.test(pkg, name[:i]).parent = true
		}
	}
	return t
}

// end counts the tests of a package that has ended, and prints the failures. A test without a
// result was running when the package failed.
func (r *report) end(pkg string) {
	tests := r.running[pkg]
	delete(r.running, pkg)
	whole := tests[""]
	delete(tests, "")
	if whole.result != "skip" { // a package without tests is skipped
		r.packages++
	}
	failed := r.failed
	name := strings.TrimPrefix(pkg, module)
	for _, n := range slices.Sorted(maps.Keys(tests)) {
		t := tests[n]
		full := name + "." + n
		switch {
		case t.result == "pass" && !t.parent:
			r.passed++
		case t.result == "skip" && r.mayskip(full):
			r.skipped++
		case t.result == "skip":
			r.say(full, "skipped, which no line of the allowed skips covers", t.output.String())
			r.failed++
		case t.result == "fail" || t.result == "":
			if !t.parent || t.output.Len() > 0 {
				r.say(full, map[string]string{"fail": "FAIL", "": "did not end"}[t.result], t.output.String())
			}
			if !t.parent {
				r.failed++
			}
		}
	}
	if whole.result == "fail" {
		if r.failed == failed {
			r.failed++
			r.say(name, "FAIL", whole.output.String())
		} else if whole.output.Len() > 0 {
			r.say(name, "wrote", whole.output.String())
		}
	}
}

// close ends the report. Packages that are still running have failed. If the command failed without
// a failed test, close counts one failure.
func (r *report) close(commandFailed bool) {
	for _, pkg := range slices.Sorted(maps.Keys(r.running)) {
		r.test(pkg, "").result = "fail"
		r.end(pkg)
	}
	for _, path := range slices.Sorted(maps.Keys(r.builds)) {
		r.say(path, "build", r.builds[path])
	}
	if r.failed == 0 && (commandFailed || r.packages == 0) {
		r.failed++
		r.say("go test", "failed, or ran nothing", "")
	}
}

func (r *report) mayskip(name string) bool {
	return slices.ContainsFunc(r.allowed, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// say prints a headline and the output below it, indented.
func (r *report) say(name, what, output string) {
	fmt.Fprintf(r.out, "%s: %s\n", name, what)
	for line := range strings.Lines(output) {
		fmt.Fprintf(r.out, "    %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// parseAllowed parses lines with a pattern and a reason. Lines that begin with # are comments.
// Errors begin with the line number.
func parseAllowed(text string) (patterns []*regexp.Regexp, err error) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%d: %s: no reason: expected a pattern, a space, and why these tests may be skipped",
				i+1, pattern)
		}
		p, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}
