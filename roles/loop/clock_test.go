package loop

import (
	"context"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// TestClocksOfNodes: the clocks of two nodes are seconds apart. Spans of both have times of the clock of rank 0's node,
// within the bound in the trace. All ranks of a node have the offset of its first rank.
func TestClocksOfNodes(t *testing.T) {
	run := t.TempDir()
	start := time.Now()
	skews := []time.Duration{0, 0, 7 * time.Second, 7 * time.Second, -3 * time.Second, -3 * time.Second}
	err := spmd.Run(t.Context(), local.New(len(skews)), spmd.Options{Log: t.Output(), VirtualNodes: 3},
		func(ctx context.Context, w *spmd.World) error {
			skew := skews[w.Rank()]
			log := trace.NewLog(trace.Options{Run: run, Rank: w.Rank(), Ranks: w.Size(), Node: w.Node(), All: true,
				Clock: func() int64 { return int64(time.Since(start) + skew) }})
			rec := log.Recorder("env", w.Rank())
			clocks, err := newClockSync(w, log, w.Alloc)
			if err != nil {
				return err
			}
			for n := range int64(3) {
				if err := clocks.compare(ctx); err != nil {
					return err
				}
				site := rec.Site(trace.Site{Op: trace.Work, Name: "simulate", Cause: trace.Working})
				rec.Begin(site)
				rec.End(0, 0)
				log.Cut(n + 1)
				if err := log.Write(); err != nil {
					return err
				}
			}
			return nil
		})
	test.OK(t, err)
	tr, err := trace.Read(run)
	if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 {
		t.Fatalf("%v, %q", err, tr.Problems)
	}
	took := int64(time.Since(start))
	for _, w := range tr.Attempts[0].Windows {
		if w.Bound <= 0 || w.Bound > int64(time.Second) || len(w.Tracks) != len(skews) {
			t.Errorf("iteration %d: %d tracks, a bound of %v", w.Iteration, len(w.Tracks), time.Duration(w.Bound))
		}
		for _, track := range w.Tracks {
			first, last := track.Spans[0].Start, track.Spans[len(track.Spans)-1].End
			if first < -w.Bound || last > took+w.Bound {
				t.Errorf("iteration %d, rank %d: from %v to %v of %v", w.Iteration,
					tr.Attempts[0].Workers[track.Worker].Rank, time.Duration(first), time.Duration(last),
					time.Duration(took))
			}
		}
	}
}
