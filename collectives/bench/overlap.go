package bench

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// overlap measures how much of an operation hides behind computation, by the formula of OSU's tests of non-blocking
// collectives. pure is the time of the operation alone. compute is the time of a computation of the same length.
// overall is the time to start the operation, compute, and wait for the operation:
//
//	overlap = max(0, 100·(1 - (overall-compute)/pure)) %
//
// The three times are measured in turns. In shared memory communication needs the cores, too, so the report also has
// the gain: (pure+compute)/overall. overlap is collective over the world.
func (r *Run) overlap(ctx context.Context, p *Suite) error {
	r.rep.Brief = []string{"op", "algo", "n", "size", "pure_us", "compute_us", "overlap_pct", "gain_x"}
	err := r.Columns("in turns: the operation alone (pure), a computation of its length (compute), and start, "+
		"computation, wait (overall, whose samples these are)",
		[]string{"op", "algo", "n", "size", "type"}, []string{"overall_us", "compute_us", "init_us", "wait_us",
			"pure_us", "overlap_pct", "gain_x", "pure_cpu_us"})
	if err != nil {
		return err
	}
	speed := calibrate()
	s := &sweep{run: r, plan: p}
	return s.each(func(pt point) error { return s.overlap(ctx, pt, speed) })
}

func (s *sweep) overlap(ctx context.Context, p point, speed float64) error {
	g, err := s.group(p.ranks, p.algorithms)
	if err != nil {
		return err
	}
	by := g.by[p.algorithms[0]]
	if !by.Supports(p.algorithms[0], p.kind) {
		s.run.note("%v by %s: not measured, the algorithm cannot make it here", p.kind, p.algorithms[0])
		return nil
	}
	pure := s.calls(p, s.plan.Memory[0], false, func(ctx context.Context, c *spmd.Collective) error {
		return by.Start(ctx, *c).Wait()
	}).arm("pure", g.team)
	if _, err := s.run.sched.warm(ctx, g.team, pure, 3); err != nil {
		return err
	}
	one, err := s.run.sched.warm(ctx, g.team, pure, 5)
	if err != nil {
		return err
	}
	work := max(1, int(float64(one)*speed))
	compute := &arm{call: func(context.Context, int) error { burn(work); return nil }}
	var inits, waits []float64
	both := s.calls(p, s.plan.Memory[0], false, func(ctx context.Context, c *spmd.Collective) error {
		start := time.Now()
		f := by.Start(ctx, *c)
		inits = append(inits, float64(time.Since(start))/1e3)
		burn(work)
		start = time.Now()
		err := f.Wait()
		waits = append(waits, float64(time.Since(start))/1e3)
		return err
	}).arm(p.algorithms[0], g.team)
	stopped, err := s.run.sched.run(ctx, g.team, []*arm{pure, compute, both}, true)
	if err != nil {
		return err
	}
	own := []float64{stats.Median(inits), stats.Median(waits)} // of this rank; then the maximum over the ranks
	if err := g.team.max(ctx, own); err != nil {
		return err
	}
	row := &both.row
	overall, alone, length := row.Median, compute.row.Median, pure.row.Median
	row.SetFigure("overall_us", overall)
	row.SetFigure("compute_us", alone)
	row.SetFigure("init_us", own[0])
	row.SetFigure("wait_us", own[1])
	row.SetFigure("pure_us", length)
	row.SetFigure("overlap_pct", overlapPercent(overall, alone, length))
	row.SetFigure("gain_x", (length+alone)/overall)
	row.SetFigure("pure_cpu_us", pure.row.CPU)
	row.Wrong += pure.row.Wrong
	row.Checked += pure.row.Checked
	s.run.stopped = stopped // all ranks know this, because the team is the world
	return s.run.add([]report.Measurement{*row})
}

// overlapPercent returns the overlap by OSU's formula.
func overlapPercent(overall, compute, pure float64) float64 {
	return max(0, 100*(1-(overall-compute)/pure))
}

// burn computes n rounds in registers, without access to memory.
func burn(n int) float64 {
	x := 1.0
	for i := range n {
		x = math.FMA(x, 0.999999, float64(i&1))
	}
	if x < 0 { // never true; it keeps the compiler from removing the loop
		panic("bench: " + strconv.Itoa(n))
	}
	return x
}

// calibrate returns how many rounds of burn take a nanosecond.
func calibrate() float64 {
	const n = 1 << 20
	best := time.Hour
	for range 5 {
		start := time.Now()
		burn(n)
		best = min(best, time.Since(start))
	}
	return n / float64(max(1, best))
}
