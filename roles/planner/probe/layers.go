package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
	"gonum.org/v1/gonum/stat"
)

// AddLayerSums adds to f the costs of sums over members that divide every layer of a model. It measures sums for a
// token and for a micro-batch. Two goroutine ranks sum, in a world with as many ranks as the job. If there are more
// ranks than cores, ranks sleep in a sum, and wake up late. So the members compute between sums. The rest of the time
// is the cost of the sums.
func AddLayerSums(ctx context.Context, f *planner.Profile, ranks int) error {
	model := &f.Work.Model
	rows := []int{model.Width, max(2, model.Tokens) * model.Width}
	seconds := make([]float64, len(rows))
	const members = 2
	err := spmd.Run(ctx, local.New(ranks), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		if w.Rank() >= members {
			return nil
		}
		ends, err := w.NewComm([]int{0, 1}, "layers")
		if err != nil {
			return err
		}
		group, err := collectives.New(w, ends[0], collectives.Options{})
		if err != nil {
			return err
		}
		memory, err := w.Alloc(4 * rows[1])
		if err != nil {
			return err
		}
		x := tensor.Of(memory[:4*rows[1]], tensor.F32, rows[1]).F32()
		for i, n := range rows {
			const warm = 20
			trips := max(50, min(500, 1<<24/n))
			var waits []float64
			for range warm + trips {
				computeFor(30 * time.Microsecond)
				start := time.Now()
				if err := group.Sum32(ctx, x[:n]); err != nil {
					return err
				}
				waits = append(waits, time.Since(start).Seconds())
			}
			if w.Rank() == 0 {
				seconds[i] = usual(waits[warm:])
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure sums of layers: %w", err)
	}
	for i, n := range rows {
		f.Costs = append(f.Costs, planner.Cost{Op: planner.OpLayerSum, Rows: n, Members: members, Seconds: seconds[i],
			Busy: seconds[i]})
	}
	return nil
}

// computeFor uses a core for about this long.
func computeFor(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; {
	}
}

// usual sorts times, and returns their mean without the longest tenth. In the longest tenth another program had the
// core. usual returns 0 if times is empty.
func usual(times []float64) float64 {
	slices.Sort(times)
	if few := times[:len(times)*9/10]; len(few) > 0 {
		return stat.Mean(few, nil)
	}
	return 0
}
