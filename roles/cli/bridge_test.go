package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/roles/loop"
)

func TestBridgeCheck(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"bridge check", loop.ExitConfig, "expected a command"},
		{"bridge check --steps 0 -- true", loop.ExitConfig, "--steps 0"},
		{"bridge check --rule stpe -- true", loop.ExitConfig,
			"--rule \"stpe\": expected text from the name of a rule, one of\n  HELLO: a greeting"},
		{"bridge check --rule STEP -- true", loop.ExitCheck, "does it speak RLB1?"},
		{"bridge check -- true --steps 0", loop.ExitCheck, "FAILED  HELLO: a greeting that says what the simulator " +
			"is\n          it exited before the handshake: does it speak RLB1? (exit status 0)"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

// TestBridgeCheckSaysOnce: a finding of many rules is printed once. The other rules refer to the first one.
func TestBridgeCheckSaysOnce(t *testing.T) {
	const greeting = `{"v":1,"name":"mayfly","obs":[{"name":"x","kind":"discrete","n":2}],` +
		`"action":{"kind":"discrete","n":2}}`
	hello := "RLB1\x01" + strings.Repeat("\x00", 19) + string(rune(len(greeting))) + strings.Repeat("\x00", 7) +
		greeting
	file := filepath.Join(t.TempDir(), "hello")
	writeFile(t, file, hello)
	// it waits for CONFIG
	code, stdout, stderr := run(t, "bridge", "check", "--", "sh", "-c", `cat "$0" >&4; head -c 1 <&3 >/dev/null`, file)
	const says = "FAILED  CONFIG: it does without memory that can't be mapped\n          the same as for \"CONFIG: " +
		"the child maps the memory that it is offered\"\n"
	if code != loop.ExitCheck || strings.Count(stdout, "the other side is gone") != 1 ||
		!strings.Contains(stdout, says) {
		t.Errorf("exit code %d, want %d, \"the other side is gone\" once, and %q\n%s%s", code, loop.ExitCheck, says,
			stdout, stderr)
	}
}

// TestBridgeCheckStops: a request to stop ends the check, with its exit code.
func TestBridgeCheckStops(t *testing.T) {
	code, _, stderr := run(t, "bridge", "check", "--", "sh", "-c", "kill -USR1 $0; sleep 9", fmt.Sprint(os.Getpid()))
	if code != loop.ExitRequeue || stderr != "the program was asked to stop\n" {
		t.Errorf("exit code %d, want %d: %s", code, loop.ExitRequeue, stderr)
	}
}
