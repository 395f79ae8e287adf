package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
)

// Every old name stands for a name that a configuration may have.
func TestOldNamesLeadSomewhere(t *testing.T) {
	reg := Registries{Envs: all.Registry(), Policies: policy.Builtin(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}
	for _, a := range aliases() {
		c, warnings, err := Load(reg, "../config/testdata/cartpole.yaml", []string{a.Old + "=1"}, false)
		if c == nil || strings.Contains(fmt.Sprint(err), "unknown key") {
			t.Errorf("%s: %v", a.Old, err)
		}
		if len(warnings) == 0 || !strings.Contains(warnings[0], a.Old+" is an old name, today it is "+a.New[0]) {
			t.Errorf("%s: warnings %q", a.Old, warnings)
		}
	}
}
