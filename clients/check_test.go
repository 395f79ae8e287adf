package clients_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env/external"
)

// TestChecked runs rlinf's check of the whole protocol on children of each kind.
func TestChecked(t *testing.T) {
	for _, command := range [][]string{{"served.c", "f32"}, {"served.c", "f64", "all"}, {"loop.c"}, {"loop.f90"},
		{"served.f90"}, {"arrays.f90"}, {"person.c"}, {"person.c", "loop"}} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			check := external.BridgeCheck{Command: append([]string{compile(t, command[0])}, command[1:]...), Envs: 3,
				Steps: 40, Timeout: time.Minute}
			check.Run(func(v external.RuleResult) {
				if v.Skipped != "" && strings.HasPrefix(v.Rule, "EXPERT") && command[0] != "arrays.f90" &&
					command[0] != "person.c" {
					t.Errorf("%s: skipped: %s", v.Rule, v.Skipped)
				}
				if v.Err != nil {
					t.Errorf("%s: %v", v.Rule, v.Err)
				}
			})
		})
	}
}
