package bench

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestBenchHeedsMasks: actions that the mask forbids are replaced by allowed ones.
func TestBenchHeedsMasks(t *testing.T) {
	p, err := newPlayer(config.Registries{Envs: rolestest.Ladders(1, 5, 3)}, rolestest.EnvConfig("Ladders-v0", 4), 0, 4)
	test.OK(t, err)
	for i := range 40 {
		test.OK(t, p.step(t.Context(), i))
	}
}
