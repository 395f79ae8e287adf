package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Names of the rows that Baseline adds.
const (
	InC      = "c"            // the library's blocking call in a loop in C
	Blocking = "mpi-blocking" // the library's blocking call from Go
)

// A point is one combination of a Suite's group sizes, kinds, types and sizes. The algorithms of a point are measured
// in turns.
type point struct {
	ranks, size int
	kind        spmd.CollectiveKind
	dtype       tensor.DType
	algorithms  []string
}

// points returns the points of the suite in the order of measurement.
func (p *Suite) points() []point {
	algorithms := [][]string{p.Algorithms}
	if !p.Baseline {
		algorithms = slices.Collect(slices.Chunk(p.Algorithms, 1))
	}
	var list []point
	for _, n := range p.Ranks {
		for _, k := range p.Kinds {
			types := p.Types
			if k == spmd.Barrier {
				types = types[:1]
			}
			for _, d := range types {
				for _, a := range algorithms {
					for _, size := range p.sizes(k, d, n) {
						list = append(list, point{n, size, k, d, a})
					}
				}
			}
		}
	}
	if p.Shuffle {
		rand.New(rand.NewPCG(p.Seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// sizes returns the suite's sizes without duplicates, rounded up for an operation on n ranks.
func (p *Suite) sizes(k spmd.CollectiveKind, d tensor.DType, n int) []int {
	if k == spmd.Barrier {
		return []int{0}
	}
	unit := d.Size()
	if blocks(k) {
		unit *= n
	}
	var list []int
	for _, s := range p.Sizes {
		list = append(list, (s+unit-1)/unit*unit)
	}
	return report.Distinct(list)
}

// collectives measures every kind × group size × type × algorithm × size. It is collective over the world.
func (r *Run) collectives(ctx context.Context, p *Suite) error {
	barrier, figures := "dissemination barrier", []string{"algbw_gbs", "busbw_gbs", "roof_pct"}
	if p.Baseline {
		if !r.w.HasNative() {
			return fmt.Errorf("baseline: the transport %q has no library underneath: expected mpirun or srun, and a "+
				"build with -tags mpi", r.rep.Machine.Transport)
		}
		barrier, figures = "the library's barrier", append(figures, "ratio_x", "extra_us")
	}
	rule := r.opts.Rule
	method := fmt.Sprintf("%s, then the call; a sample is the maximum over ranks; until the 95 %% interval of the "+
		"median is within ±%g %%, %d to %d samples, %v", barrier, 100*rule.RelativeCI, rule.MinSamples,
		rule.MaxSamples, rule.MaxTime)
	r.rep.Brief = []string{"op", "algo", "n", "size", "busbw_gbs", "ratio_x"}
	if len(p.Types) > 1 {
		r.rep.Brief = append(r.rep.Brief, "type")
	}
	if len(p.Memory) > 1 || p.InPlace && p.OutOfPlace {
		r.rep.Brief = append(r.rep.Brief, "mem")
	}
	if err := r.Columns(method, []string{"op", "algo", "n", "size", "count", "type", "redop", "root", "mem"},
		figures); err != nil {
		return err
	}
	s := &sweep{run: r, plan: p}
	err := s.each(func(pt point) error { return s.point(ctx, pt) })
	if err == nil {
		r.fit(p)
	}
	return err
}

// A sweep is a Suite that is being measured.
type sweep struct {
	run    *Run
	plan   *Suite
	groups map[int]*group     // by size
	memory map[string]region  // by kind of memory; all points share it
	roofs  map[[2]int]float64 // GB/s of copies, by size of the group and of the buffers
}

// A group is the first n ranks. Its members have a collectives.Group for each algorithm.
type group struct {
	team   *team
	native spmd.Native
	by     map[string]*collectives.Group
}

// each measures all points of the suite, until the run is stopped.
func (s *sweep) each(measure func(point) error) error {
	points := s.plan.points()
	if err := s.allocate(points); err != nil {
		return err
	}
	s.groups, s.roofs = map[int]*group{}, map[[2]int]float64{}
	for _, p := range points {
		if s.run.stopped {
			break
		}
		if err := measure(p); err != nil {
			return fmt.Errorf("%v of %s on %d ranks by %s: %w", p.kind, report.Bytes(int64(p.size)), p.ranks,
				strings.Join(p.algorithms, ", "), err)
		}
	}
	return nil
}

// allocate allocates memory for the points: for each kind of memory one region, which has room for the largest point.
func (s *sweep) allocate(points []point) error {
	if s.plan.OffCache {
		s.describe(points)
	}
	need, most := 0, map[int]int{} // need: bytes on this rank; most[n]: bytes on a rank of a group of n
	for _, p := range points {
		bytes := 2 * stride(p.size) // two buffers for the roof
		for _, out := range s.places(p) {
			bytes = max(bytes, s.slots(p, out)*stepOf(p, out))
		}
		most[p.ranks] = max(most[p.ranks], bytes)
		if s.run.w.Rank() < p.ranks {
			need = max(need, bytes)
		}
	}
	for n, bytes := range most {
		if err := s.run.budget.check(n, bytes*len(s.plan.Memory)); err != nil {
			return err
		}
	}
	s.memory = map[string]region{}
	for _, name := range s.plan.Memory {
		alloc := s.run.w.Alloc
		if name == "go" {
			alloc = func(n int) ([]byte, error) { return make([]byte, n), nil }
		}
		var err error
		if s.memory[name], err = newRegion(alloc, need); err != nil {
			return fmt.Errorf("%s of %s memory: %w", report.Bytes(int64(need)), name, err)
		}
	}
	return nil
}

// group returns the group of the first n ranks, with a collectives.Group for each of the algorithms. It is collective
// over the world.
func (s *sweep) group(n int, algorithms []string) (*group, error) {
	w, g, ranks := s.run.w, s.groups[n], s.run.w.Ranks()[:n]
	if g == nil {
		t, err := s.run.newTeam(ranks, "bench of "+strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		g = &group{team: t, by: map[string]*collectives.Group{}}
		if t.member() && s.plan.Baseline {
			if g.native, err = w.NewNative(ranks, "baseline"); err != nil {
				return nil, err
			}
		}
		s.groups[n] = g
	}
	for _, name := range algorithms {
		if !g.team.member() || g.by[name] != nil {
			continue
		}
		ends, err := w.NewComm(ranks, "bench "+name)
		if err != nil {
			return nil, err
		}
		if g.by[name], err = collectives.New(w, ends[0], collectives.Options{Algorithm: name, Fast: true,
			Table: s.plan.Table}); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// point measures all algorithms of one point and adds their rows to the report.
func (s *sweep) point(ctx context.Context, p point) error {
	g, err := s.group(p.ranks, p.algorithms)
	if err != nil {
		return err
	}
	return s.run.measure(ctx, g.team, s.plan.Baseline, func() ([]*arm, func(), error) {
		arms, roof := s.arms(g, p), [2]int{p.ranks, p.size}
		if len(arms) == 0 {
			s.run.note("%v by %s on %d ranks: not measured, the algorithm cannot make it here", p.kind, p.algorithms[0],
				p.ranks)
		} else if s.roofs[roof] == 0 && p.size > 0 {
			memory := s.memory[s.plan.Memory[0]]
			src, dst := memory.guarded(stride(p.size), p.size), memory.guarded(0, p.size)
			s.roofs[roof], err = copyRate(ctx, g.team, dst, src)
		}
		return arms, func() { figures(p, s.roofs[roof], arms) }, err
	})
}

// figures adds bandwidths and ratios to the rows of the arms.
func figures(p point, roof float64, arms []*arm) {
	base := map[string]float64{} // median of the loop in C, by memory
	for _, a := range arms {
		if a.row.Algorithm == InC {
			base[a.row.Memory] = a.row.Median
		}
	}
	for _, a := range arms {
		row := &a.row
		if p.size > 0 {
			row.SetFigure("algbw_gbs", gbs(float64(p.size), row.Median))
			row.SetFigure("busbw_gbs", gbs(float64(p.size)*busFactor(p.kind, p.ranks), row.Median))
			row.SetFigure("roof_gbs", roof)
			row.SetFigure("roof_pct", 100*gbs(2*moved(p.kind, p.ranks, row.Size), row.Median)/roof)
		}
		if b := base[row.Memory]; b > 0 {
			row.SetFigure("ratio_x", row.Median/b)
			row.SetFigure("extra_us", row.Median-b)
		}
	}
}

// arms returns the arms of a point on a member of its group.
func (s *sweep) arms(g *group, p point) []*arm {
	var list []*arm
	for _, memory := range s.plan.Memory {
		for _, out := range s.places(p) {
			if p.kind == spmd.Barrier && memory != s.plan.Memory[0] {
				continue
			}
			add := func(name string, run func(context.Context, *spmd.Collective) error) (*arm, *calls) {
				c := s.calls(p, memory, out, run)
				a := c.arm(name, g.team)
				list = append(list, a)
				return a, c
			}
			if g.native != nil {
				blocking := func(_ context.Context, c *spmd.Collective) error { return g.native.RunBlocking(c) }
				a, c := add(InC, blocking)
				a.loop = func(batch int, ns []float64) error {
					o := c.operand(0, 0)
					op := o.collective()
					return g.native.Time(&op, batch, ns)
				}
				add(Blocking, blocking)
			}
			for _, name := range p.algorithms {
				if group := g.by[name]; group.Supports(name, p.kind) {
					a, c := add(name, func(ctx context.Context, c *spmd.Collective) error { return group.Run(ctx, *c) })
					if name == collectives.Auto {
						o := c.operand(0, 0)
						op := o.collective()
						a.row.Chosen = group.Choice(&op)
					}
				}
			}
		}
	}
	if g.native != nil {
		for _, a := range list {
			a.sync = func(context.Context) error { return g.native.RunBlocking(&spmd.Collective{Kind: spmd.Barrier}) }
		}
	}
	return list
}

// calls returns the calls of an arm. Each call uses the given function run.
func (s *sweep) calls(p point, memory string, out bool, run func(context.Context, *spmd.Collective) error) *calls {
	return &calls{point: p, plan: s.plan, run: run, memory: memory, out: out, ring: s.memory[memory],
		step: stepOf(p, out), slots: s.slots(p, out)}
}
