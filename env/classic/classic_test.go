package classic

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
)

// newBits makes environments of BitFlip-v1 with few bits, so that random actions reach goals.
func newBits(cfg env.Config, n int) (env.Vec, error) { return NewBitFlip(cfg, BitFlipKeys{Bits: 3}, n) }

func TestContract(t *testing.T) {
	for _, make := range []env.Constructor{NewCartPole, NewPendulum, NewMountainCar, NewMountainCarContinuous,
		NewAcrobot, newBits} {
		t.Run(specOf(t, make).Name, func(t *testing.T) {
			for _, c := range []struct {
				name   string
				limit  int
				ignore bool
			}{{"limit", 23, false}, {"ignore terminations", 17, true}} {
				t.Run(c.name, func(t *testing.T) {
					cfg := env.DefaultConfig()
					cfg.MaxEpisodeSteps, cfg.IgnoreTerminations = c.limit, c.ignore
					envtest.Run(t, func(n int) (env.Vec, error) { return make(cfg, n) }, envtest.Options{})
				})
			}
		})
	}
}
