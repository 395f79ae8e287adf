package roles

import (
	"strings"
	"testing"
)

func TestBridgeCheck(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"bridge check", ExitConfig, "want a command"},
		{"bridge check --steps 0 -- true", ExitConfig, "--steps 0"},
		{"bridge check --rule stpe -- true", ExitConfig, "--rule \"stpe\": want text from the name of a rule, one of\n  HELLO: a greeting"},
		{"bridge check --rule STEP -- true", ExitCheck, "does it speak RLB1?"},
		{"bridge check -- true --steps 0", ExitCheck, "FAILED  HELLO: a greeting that says what the simulator is\n          it ended before it greeted: does it speak RLB1? (exit status 0)"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}
