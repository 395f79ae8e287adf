package roles

import (
	"fmt"
	"strings"
	"testing"
)

// Every name that an old one stands for is one that a configuration may have.
func TestOldNamesLeadSomewhere(t *testing.T) {
	for _, a := range aliases() {
		c, warnings, err := LoadConfig(registries(), cartpole, []string{a.Old + "=1"}, false)
		if c == nil || strings.Contains(fmt.Sprint(err), "unknown key") {
			t.Errorf("%s: %v", a.Old, err)
		}
		if len(warnings) == 0 || !strings.Contains(warnings[0], a.Old+" is an old name, today it is "+a.New[0]) {
			t.Errorf("%s: warnings %q", a.Old, warnings)
		}
	}
}
