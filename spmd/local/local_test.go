package local_test

import (
	"testing"

	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

func TestConformance(t *testing.T) { spmdtest.Run(t, local.New) }
