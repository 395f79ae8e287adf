//go:build !race

package local_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

// A process does not grow with the number of its worlds.
func TestManyWorlds(t *testing.T) {
	worlds, sizes := 200, []int{3}
	if os.Getenv("RLINF_TEST_FULL") != "" {
		worlds, sizes = 1000, []int{1, 2, 3, 5, 8}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			test.OK(t, spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output()},
				spmdtest.Many(worlds)))
		})
	}
}
