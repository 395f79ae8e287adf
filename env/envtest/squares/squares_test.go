package squares_test

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/env/envtest/squares"
)

func TestSquares(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType = "Squares-v0"
	for _, make := range []env.Constructor{squares.New, squares.NewReach} {
		envtest.Run(t, func(n int) (env.Vec, error) { return make(cfg, n) }, envtest.Options{})
	}
}
