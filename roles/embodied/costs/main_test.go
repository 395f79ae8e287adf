package costs

import (
	"os"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/env/external"
)

// TestMain runs the tests in the folder above, as those of all packages below roles. In a process that a hub has
// started, it serves CartPole as an external simulator.
func TestMain(m *testing.M) {
	if address := os.Getenv("RLB_ADDR"); address != "" {
		cfg := env.DefaultConfig()
		cfg.EnvType = "CartPole-v1"
		if err := external.Serve(address, "", func(int, bool) (env.Vec, error) {
			return all.Registry().New(cfg, 1)
		}); err != nil {
			panic(err)
		}
		return
	}
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
