package external_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env/external"
)

// A checkCase is a child with a fault, the rules to check, and the error of each rule that fails.
type checkCase struct {
	fault, only string
	fails       map[string]string
}

// run checks the child with a timeout for each answer.
func (c checkCase) run(t *testing.T, timeout time.Duration) {
	t.Parallel()
	command := []string{os.Args[0], c.fault}
	check := external.BridgeCheck{Command: command, Envs: 3, Steps: 30, Timeout: timeout, Only: c.only}
	missing := map[string]bool{}
	for rule := range c.fails {
		missing[rule] = true
	}
	failed := check.Run(func(v external.RuleResult) {
		for rule, says := range c.fails {
			if v.Err != nil && strings.Contains(v.Rule, rule) && strings.Contains(v.Err.Error(), says) {
				delete(missing, rule)
				return
			}
		}
		if v.Err != nil {
			t.Logf("%s: %v", v.Rule, v.Err)
		}
	})
	if len(missing) > 0 || (failed > 0) != (c.fails != nil) {
		t.Errorf("%d rules failed, not found: %v", failed, missing)
	}
}

const firstRule = "every number is finite"

// TestCheck: a child that keeps the rules passes. Otherwise the result names the broken rule and the fault.
func TestCheck(t *testing.T) {
	const first = firstRule
	for _, c := range []checkCase{
		{"", "", nil},
		{"guided", "", nil},
		{"misguided", first, map[string]string{first: "environment 0: taken[0] is +Inf, expected a finite number"}},
		{"seedless", "SE", map[string]string{ // RESET, STEP
			"equal seeds give equal episodes, in every child":       "step 0: state is [",
			"equal seeds give equal episodes, in every environment": "environment 1, step 0: state is [",
			"environments outside the mask keep their rows, and go": "environment 1, step 0: state is [",
			"AUTORESET": "step 0: state is [",
		}},
		{"ageing", "episode", map[string]string{"does not depend on those before it": "step 0: state is ["}},
		{"goals", "", nil},
		{"misjudging", "goal", map[string]string{"the goal's rule": "expected -1 from achieved_goal ["}},
		{"unending", "goal", map[string]string{"the goal's rule": "terminated is 0: expected terminates true"}},
		{"endless", "max_steps",
			map[string]string{"max_steps steps at most": "step 7 of its episode, and truncated is 0"}},
		{"terminating", "ignored", map[string]string{"terminations are ignored": "terminated is 1, expected 0"}},
		{"forgetful", "LOAD: e", map[string]string{"LOAD": "expected ["}},
		{"final", "AUTORESET", map[string]string{"AUTORESET": "state is ["}},
		{"nan@20", first, map[string]string{first: "STEP: environment 0: reward NaN"}},
		{"error@3", first, map[string]string{first: "error: the pole broke in step 3"}},
		{"exit@3", first, map[string]string{
			first: "the other side is gone (exit status 7); its last output:\n    about to leave\n    out of fuel",
		}},
		{"kill@3", first, map[string]string{first: "(signal: killed); its last output:\n    farewell"}},
		{"garbage@3", first, map[string]string{first: `"Segm" where a frame should begin`}},
		{"blocking", first, map[string]string{
			first: "RESET: environment 0: observation action_mask allows no option of choice 0, expected at least one",
		}},
		{"sharing", "can't be mapped", map[string]string{
			"can't be mapped": "READY with SHARED for /nowhere/at/all, " +
				"which has not the 4416 bytes that CONFIG says: expected no SHARED",
		}},
		{"deaf", "hostile: a CONFIG", map[string]string{
			"hostile: a CONFIG of no environments": "READY and exit status 0, expected ERROR",
		}},
	} {
		t.Run(c.fault, func(t *testing.T) { c.run(t, time.Minute) })
	}
}

// TestCheckTimeout: the error about a child that does not answer, or does not end, has the timeout. The answers that do
// come take less than three seconds each.
func TestCheckTimeout(t *testing.T) {
	t.Parallel()
	const first, timeout = firstRule, 3 * time.Second
	for _, c := range []checkCase{
		{"undead", "end", map[string]string{
			"CLOSE: ends the child":   "still runs after",
			"in place of CONFIG, too": "still runs after",
			"end of the stream":       "still runs",
		}},
		{"hang@3", first, map[string]string{first: "STEP: i/o timeout (after 3s, --timeout)"}},
		{"cut@3", first, map[string]string{
			first: "STEP: 5 of the 100 bytes of ERROR came: i/o timeout (after 3s, --timeout)",
		}},
		{"unready", "maps", map[string]string{
			"CONFIG: the child maps": "after CONFIG: i/o timeout (after 3s, --timeout)",
		}},
		{"silent", "", map[string]string{"HELLO": "greeting: "}},
	} {
		t.Run(c.fault, func(t *testing.T) { c.run(t, timeout) })
	}
}

// TestCheckOfNoProgram: if the program is not found, one rule fails and no other is checked.
func TestCheckOfNoProgram(t *testing.T) {
	var err error
	check := external.BridgeCheck{Command: []string{"no-such-program"}, Envs: 1, Steps: 1, Timeout: time.Second}
	const want = "expected a program that can be found and run"
	failed := check.Run(func(v external.RuleResult) { err = v.Err })
	if failed != 1 || !strings.Contains(err.Error(), want) {
		t.Errorf("%d rules failed: %v", failed, err)
	}
}
