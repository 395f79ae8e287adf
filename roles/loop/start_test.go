package loop

import (
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"regexp"
	"testing"
)

// TestOlderConfig: a configuration without a key, as an older program has written it, equals one with the key's
// default.
func TestOlderConfig(t *testing.T) {
	c, _, err := config.Load(rolestest.Registries(), "../../configs/cartpole_one_rank.yaml", nil, true)
	test.OK(t, err)
	now := string(c.Resolved())
	older := regexp.MustCompile(`(?m)^    expectile: .*\n`).ReplaceAllString(now, "")
	if older == now {
		t.Fatal("the key is not in the configuration")
	}
	got, err := config.Parse(rolestest.Registries(), []byte(older))
	if err != nil || string(got.Resolved()) != now {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, got.Resolved(), now)
	}
}
