package main

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
)

func TestCorridor(t *testing.T) {
	envtest.Run(t, func(n int) (env.Vec, error) {
		return newCorridor(env.DefaultConfig(), n)
	}, envtest.Options{})
}
