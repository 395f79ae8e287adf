package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
	"gonum.org/v1/gonum/stat"
)

// mostSummed is the maximum number of members in a measured sum. Before each sum, half of the members compute for
// workTime, and the others for half of workTime.
const mostSummed, workTime = 8, 60 * time.Microsecond

// AddSums adds to f the costs of sums over this many actors or critic workers. If they gather weights, it also adds the
// costs of gathers. With only one member it adds nothing. It measures goroutine ranks; world is
// planner.ProbeOptions.World. The members compute for unequal times between sums. So the costs include late wake-ups if
// a world has more ranks than cores.
func AddSums(ctx context.Context, f *planner.Profile, members, world int) error {
	if members <= 1 {
		return nil
	}
	members = min(members, mostSummed)
	costs, err := sums(ctx, &f.Work, members, world)
	f.Costs = append(f.Costs, costs...)
	return err
}

// sums measures the two kinds of sums in training (a few numbers, and a gradient) over the first ranks of a world of
// goroutine ranks. If the job gathers weights, it also measures a gather.
func sums(ctx context.Context, work *planner.Workload, members, world int) ([]planner.CallTimes, error) {
	rows := []int{32, max(64, int(work.GradientBytes/4))}
	if work.Gathers+work.CriticGathers > 0 {
		rows = append(rows, rows[1])
	}
	times := make([][]float64, len(rows))
	err := summing(ctx, world, members, rows[1], func(ctx context.Context, w *spmd.World, g *collectives.Group,
		grad []float32) error {
		r := collectives.NewReducer(ctx, g, work.BucketBytes)
		few, shares := make([]float64, rows[0]/2), make([]int, members)
		for i := range shares {
			shares[i] = (i+1)*len(grad)/members - i*len(grad)/members
		}
		begun := time.Now()
		for n := range 200 {
			for i := range rows {
				start := time.Now()
				computeFor(workTime / time.Duration(1+(w.Rank()+n*len(rows)+i)%2))
				var err error
				switch i {
				case 0:
					err = r.Sum(few)
				case 1:
					err = r.Gradient(grad).Wait(nil)
				default:
					err = r.Gather(grad, shares)
				}
				if err != nil {
					return err
				}
				if w.Rank() == 0 && n > 2 {
					times[i] = append(times[i], max(0, time.Since(start)-workTime).Seconds())
				}
			}
			stop := []float64{0}
			if w.Rank() == 0 && time.Since(begun) > 300*time.Millisecond {
				stop[0] = 1
			}
			if err := r.Sum(stop); err != nil {
				return err
			}
			if stop[0] > 0 && n >= 9 {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure sums: %w", err)
	}
	var costs []planner.CallTimes
	for i := range rows {
		t := trimmedMean(times[i])
		op := planner.OpSum
		if i > 1 {
			op = planner.OpGather
		}
		costs = append(costs, planner.CallTimes{Op: op, Rows: rows[i], Members: members, Seconds: t, Busy: t})
	}
	return costs, nil
}

// AddLayerSums adds to f the costs of sums between members that shard every layer of a model, for one token and for a
// micro-batch. It measures two goroutine ranks in a world of the given number of ranks (planner.ProbeOptions.World).
// The ranks compute between sums. So the costs include late wake-ups if the world has more ranks than cores.
func AddLayerSums(ctx context.Context, f *planner.Profile, world int) error {
	model := &f.Work.Model
	rows := []int{model.Width, max(2, model.Tokens) * model.Width}
	seconds := make([]float64, len(rows))
	const members = 2
	err := summing(ctx, world, members, rows[1], func(ctx context.Context, w *spmd.World, g *collectives.Group,
		x []float32) error {
		for i, n := range rows {
			const warm = 20
			trips := max(50, min(500, 1<<24/n))
			var waits []float64
			for range warm + trips {
				computeFor(30 * time.Microsecond)
				start := time.Now()
				if err := g.Sum32(ctx, x[:n]); err != nil {
					return err
				}
				waits = append(waits, time.Since(start).Seconds())
			}
			if w.Rank() == 0 {
				seconds[i] = trimmedMean(waits[warm:])
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure sums of layers: %w", err)
	}
	for i, n := range rows {
		f.Costs = append(f.Costs, planner.CallTimes{Op: planner.OpLayerSum, Rows: n, Members: members,
			Seconds: seconds[i],
			Busy:    seconds[i]})
	}
	return nil
}

// summing starts a world of goroutine ranks, and calls task on its first ranks, the members. task gets the group of the
// members, and memory for n numbers.
func summing(ctx context.Context, world, members, n int,
	task func(ctx context.Context, w *spmd.World, g *collectives.Group, x []float32) error) error {
	return inWorld(ctx, max(members, world), func(ctx context.Context, w *spmd.World) error {
		if w.Rank() >= members {
			return nil
		}
		ends, err := w.NewComm(w.Ranks()[:members], "sums")
		if err != nil {
			return err
		}
		g, err := collectives.New(w, ends[0], collectives.Options{})
		if err != nil {
			return err
		}
		memory, err := w.Alloc(4 * n)
		if err != nil {
			return err
		}
		return task(ctx, w, g, tensor.Of(memory[:4*n], tensor.F32, n).F32())
	})
}

// computeFor keeps a core busy for about this long.
func computeFor(d time.Duration) {
	for begun := time.Now(); time.Since(begun) < d; {
	}
}

// trimmedMean sorts times, and returns their mean without the longest tenth. The longest times often include time of
// other programs. It returns 0 if times is empty.
func trimmedMean(times []float64) float64 {
	slices.Sort(times)
	if few := times[:len(times)*9/10]; len(few) > 0 {
		return stat.Mean(few, nil)
	}
	return 0
}
