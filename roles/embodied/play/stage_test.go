package play

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestShardLocatesErrors: an error names the global numbers of the environments, unless they begin at 0.
func TestShardLocatesErrors(t *testing.T) {
	const located = "environments 4-6, called 0-2 in what follows: "
	for _, autoReset := range []bool{true, false} {
		for first, want := range map[int]string{0: "CartPole-v1: action of environment 1",
			4: located + "CartPole-v1: action of environment 1"} {
			cfg := env.DefaultConfig()
			cfg.EnvType, cfg.AutoReset = "CartPole-v1", autoReset
			s := test.Must(NewStage(rolestest.Registries().Envs, cfg, env.Train, first, 3, 1))(t)
			test.OK(t, s.Begin())
			s.Action.Must("action").I32()[1] = 7
			if err := s.Step(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("from %d on, auto_reset %v: %v\nwant %s…", first, autoReset, err, want)
			}
		}
	}
}
