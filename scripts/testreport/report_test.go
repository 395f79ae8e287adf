package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sample has one test of each kind: passed, failed, skipped, failed below a parent, with output in a failed package.
const sample = `package sample

import "testing"

func TestPass(t *testing.T) {}

func TestParent(t *testing.T) {
	t.Run("pass", func(t *testing.T) {})
	t.Run("fail", func(t *testing.T) { t.Error("wrong below") })
	t.Run("skip", func(t *testing.T) { t.Skip("nothing here") })
}

func TestOwnErrorOfParent(t *testing.T) {
	t.Run("pass", func(t *testing.T) {})
	t.Run("allowed", func(t *testing.T) { t.Skip("not on this machine") })
}
`

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, source, file, args string
		passed, failed, skipped  int
		says, silent             string // regular expressions that match the output, and that do not
	}{
		{"each", sample, "x_test.go", "", 3, 2, 1,
			`(?s)\bTestParent/fail: FAIL\n.*wrong below.*TestParent/skip: skipped.*nothing here`,
			`TestPass|not on this machine|=== RUN`},
		{"panic", "package p\nimport \"testing\"\nfunc TestBefore(*testing.T) {}\nfunc TestPanic(*testing.T) { " +
			"panic(\"boom\") }", "x_test.go", "", 1, 1, 0,
			`(?s)TestPanic: FAIL.*panic: boom`, `TestBefore`},
		{"exit", "package p\nimport (\"os\"; \"testing\")\nfunc TestExit(*testing.T) { os.Exit(3) }", "x_test.go", "",
			0, 1, 0, `TestExit: `, ``},
		{"hang", "package p\nimport \"testing\"\nfunc TestHang(*testing.T) { select {} }", "x_test.go", "-timeout=2s",
			0, 1, 0, `(?s)TestHang: .*timed out`, ``},
		{"build", "package p\nvar x int = \"\"", "x_test.go", "", 0, 1, 0, `cannot use ""`, ``},
		{"leaving TestMain", "package p\nimport (\"os\"; \"testing\")\nfunc TestMain(*testing.M) { os.Exit(1) }",
			"x_test.go", "", 0, 1, 0, `FAIL`, ``},
		{"nothing", "package p", "x.go", "", 0, 1, 0, `ran nothing`, ``},
		{"wrong flag of go", sample, "x_test.go", "-mod=nonsense", 0, 1, 0, `go test: failed`, ``},
		{"wrong flag of the tests", sample, "x_test.go", "-no-such-flag", 0, 1, 0, `(?s)sample: FAIL.*no-such-flag`,
			``},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", c.file: c.source} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			r := newReport(&out)
			r.allowed, _ = parseAllowed("sample\\..*/allowed  the machine lacks it\n")
			command := append([]string{"go", "test", "-C", dir, "-json", "-vet=off"}, strings.Fields(c.args)...)
			if err := r.follow(append(command, "./...")); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(r.passed, r.failed, r.skipped),
				fmt.Sprint(c.passed, c.failed, c.skipped); got != want {
				t.Errorf("passed, failed, skipped: got %s, want %s", got, want)
			}
			if !regexp.MustCompile(c.says).MatchString(out.String()) {
				t.Errorf("want output with %s", c.says)
			}
			if c.silent != "" && regexp.MustCompile(c.silent).MatchString(out.String()) {
				t.Errorf("want output without %s", c.silent)
			}
			if t.Failed() {
				t.Logf("output:\n%s", &out)
			}
		})
	}
}

func TestFollowSaysWhatItCannotRead(t *testing.T) {
	if err := newReport(io.Discard).follow([]string{"echo", "plain text"}); err == nil ||
		!strings.Contains(err.Error(), "go test -json") {
		t.Errorf("got %v", err)
	}
	if err := newReport(io.Discard).follow([]string{"no-such-command-here"}); err == nil {
		t.Error("a command that is missing is no error")
	}
}

func TestParseAllowed(t *testing.T) {
	for text, want := range map[string]string{
		"# comment\n\nenv.TestX  no display\n": "",
		"env.TestX\n":                          "1: env.TestX: no reason",
		"\n(  never ends\n":                    "2: error parsing regexp",
	} {
		_, err := parseAllowed(text)
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.HasPrefix(got, want) && want != "" {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	p, _ := parseAllowed(`env\.TestX  reason`)
	r := report{allowed: p}
	if r.mayskip("env.TestXY") || r.mayskip("myenv.TestX") || !r.mayskip("env.TestX") {
		t.Error("a pattern covers exactly what it matches as a whole")
	}
}

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("go"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests run go test:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestLongest: longest returns the five slowest, the slowest first.
func TestLongest(t *testing.T) {
	times := []duration{{"a", 1}, {"b", 3}, {"c", 2}, {"d", 0.5}, {"e", 5}, {"f", 4}}
	if got, want := longest(times), "5.0s e, 4.0s f, 3.0s b, 2.0s c, 1.0s a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
