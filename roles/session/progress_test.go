package session

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A process is the transport of a rank that is a process of its own.
type process struct{ spmd.Transport }

func (process) Describe() spmd.WorldInfo { return spmd.WorldInfo{Transport: "mpi"} }

// TestCountsAfterAMove: the progress counts the actor that has come, and not the one that has gone.
func TestCountsAfterAMove(t *testing.T) {
	ranks := local.New(1)
	ranks[0] = process{ranks[0]}
	shown := func(_ context.Context, w *spmd.World) error {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := New(Options{})
			s.progress = metrics.NewProgressLine(&out, metrics.Options{})
			stop := s.progress.Watch()
			s.progress.Phase("update")
			for actor, ranks := range [][]int{{0, 1}, {1, 0}} { // this process has one of the two actors
				place := new(spmd.Placement)
				place.Add("actor", ranks)
				(&rank{session: s, w: w}).counters(&job.Job{Placement: place})("actor", actor)("update", 3+actor, 4)
			}
			time.Sleep(40 * time.Second)
			stop()
			if !strings.Contains(out.String(), "update 4/4") {
				t.Errorf("%s", &out)
			}
		})
		return nil
	}
	test.OK(t, spmd.Run(t.Context(), ranks, spmd.Options{}, shown))
}
