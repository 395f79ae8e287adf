package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// quick returns a rule with just enough samples for a row.
func quick() stats.StopRule {
	return stats.StopRule{RelativeCI: 1, MinSamples: 6, MaxSamples: 12, MaxTime: 2 * time.Second}
}

// onRanks runs main on n goroutine ranks and returns rank 0's report.
func onRanks(t *testing.T, n int, opts Options, main func(ctx context.Context, r *Run) error) *report.Report {
	t.Helper()
	if opts.Stop == nil {
		opts.Stop = func() bool { return false }
	}
	if opts.Rule == (stats.StopRule{}) {
		opts.Rule = quick()
	}
	opts.Warmup = 1
	var rep *report.Report
	err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: io.Discard},
		func(ctx context.Context, w *spmd.World) error {
			mine := opts
			if w.Rank() != 0 {
				mine.Writers = nil
			}
			r, err := Begin(ctx, w, mine)
			if err != nil {
				return err
			}
			if err := main(ctx, r); err != nil {
				return err
			}
			done, err := r.End(true)
			if w.Rank() == 0 {
				rep = done
			}
			return err
		})
	test.OK(t, err)
	return rep
}

func plan(n ...int) Suite {
	return Suite{Bench: "collectives", Kinds: []spmd.CollectiveKind{spmd.AllReduce}, Ranks: n,
		Types:      []tensor.DType{tensor.F32},
		Algorithms: []string{"auto"}, Sizes: []int{8, 4096},
		Memory: []string{"arena"}, InPlace: true, Check: true}
}

func allKinds() (k []spmd.CollectiveKind) {
	for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
		k = append(k, kind)
	}
	return k
}

// TestSweep measures everything once. All results must be right.
func TestSweep(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		p := plan(n)
		p.Kinds, p.Sizes, p.Memory, p.OutOfPlace, p.Rotate = allKinds(), []int{4, 7000}, []string{"arena", "go"}, true,
			true
		switch n {
		case 2:
			p.Types = []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8, tensor.BF16}
		case 3:
			p.Algorithms, p.Sizes = []string{"auto", "ordered", "ring", "tree"}, []int{7000}
		}
		rule := quick()
		rule.MinSamples, rule.MaxSamples = 1, 2
		rep := onRanks(t, n, Options{Rule: rule}, func(ctx context.Context, r *Run) error {
			return r.Measure(ctx, p)
		})
		seen := map[string]bool{}
		for _, row := range rep.Rows {
			if row.Wrong != 0 || row.Op != "barrier" && row.Checked < 2 {
				t.Errorf("%s: %d wrong in %d checked", row.Key(), row.Wrong, row.Checked)
			}
			if seen[row.Key()] {
				t.Errorf("%s: twice", row.Key())
			}
			seen[row.Key()] = true
			if len(row.Samples) == 0 || !(row.Median > 0) || row.Size > 0 && !(row.Figures["algbw_gbs"] > 0) {
				t.Errorf("%s: not measured: %+v", row.Key(), row)
			}
		}
		want := 0
		for _, k := range p.Kinds {
			for _, d := range p.Types {
				want += len(p.sizes(k, d, n)) * 2 // two memories
			}
		}
		if len(rep.Rows) < want || !rep.Complete {
			t.Errorf("%d ranks: %d rows, want at least %d for auto alone", n, len(rep.Rows), want)
		}
	}
}

// TestOffCache: results are also right in buffers that are used in rotation.
func TestOffCache(t *testing.T) {
	p := plan(2)
	p.Kinds, p.Sizes, p.OffCache, p.OutOfPlace, p.InPlace = []spmd.CollectiveKind{spmd.AllToAll,
		spmd.Gather}, []int{1 << 20},
		true, true, false
	rule := quick()
	rule.MinSamples, rule.MaxSamples = 1, 2
	rep := onRanks(t, 2, Options{Rule: rule, Cache: 3 << 20}, func(ctx context.Context, r *Run) error {
		return r.Measure(ctx, p)
	})
	for _, row := range rep.Rows {
		if row.Wrong != 0 || row.Checked < 2 {
			t.Errorf("%s: %d wrong in %d checked", row.Key(), row.Wrong, row.Checked)
		}
	}
}

// TestSizes: sizes are rounded to equal parts for all members, and no size occurs twice.
func TestSizes(t *testing.T) {
	p := Suite{Sizes: []int{1, 8, 24, 100}}
	for _, c := range []struct {
		kind spmd.CollectiveKind
		n    int
		want []int
	}{
		{spmd.AllReduce, 3, []int{4, 8, 24, 100}},
		{spmd.AllGather, 3, []int{12, 24, 108}},
		{spmd.Barrier, 3, []int{0}},
	} {
		got := p.sizes(c.kind, tensor.F32, c.n)
		if len(got) != len(c.want) {
			t.Fatalf("%v: %v, want %v", c.kind, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v: %v, want %v", c.kind, got, c.want)
			}
		}
	}
}

// TestGroups measures on sub-groups, while the other ranks wait, and fits a line through all.
func TestGroups(t *testing.T) {
	p := plan(2, 3, 4)
	p.Sizes, p.Algorithms, p.Shuffle = []int{8, 512, 8192}, []string{"ring", "doubling"}, true
	rep := onRanks(t, 4, Options{}, func(ctx context.Context, r *Run) error { return r.Measure(ctx, p) })
	if len(rep.Rows) != 18 || len(rep.Fits) != 2 {
		t.Fatalf("%d rows, %d fits, want 18 and 2", len(rep.Rows), len(rep.Fits))
	}
	for _, f := range rep.Fits {
		if f.Points != 9 || len(f.Predictions) != 9 || f.Predictions[0].Ranks != 8 {
			t.Errorf("fit %+v", f)
		}
	}
	for _, row := range rep.Rows {
		if row.Figures["model_x"] <= 0 {
			t.Errorf("%s has no model: %v", row.Key(), row.Figures)
		}
	}
}

// A fault is a broken operation. It may call run, which makes the correct one.
type fault func(run func(*spmd.Collective) error, c *spmd.Collective) error

var faults = map[string]fault{
	"wrong element": func(run func(*spmd.Collective) error, c *spmd.Collective) error {
		if err := run(c); err != nil {
			return err
		}
		c.Data[len(c.Data)/2+3] ^= 0x40 // a large difference, beyond any tolerance
		return nil
	},
	"short message": func(run func(*spmd.Collective) error, c *spmd.Collective) error {
		short := *c
		short.Data = c.Data[:len(c.Data)-c.DType.Size()]
		return run(&short)
	},
	"type mismatch": func(run func(*spmd.Collective) error, c *spmd.Collective) error {
		other := *c
		other.DType = tensor.I32
		return run(&other)
	},
	"nothing done": func(func(*spmd.Collective) error, *spmd.Collective) error { return nil },
	"behind the buffer": func(run func(*spmd.Collective) error, c *spmd.Collective) error {
		if err := run(c); err != nil {
			return err
		}
		long := c.Data[:len(c.Data):len(c.Data)]
		beyond(long)
		return nil
	},
	"none": func(run func(*spmd.Collective) error, c *spmd.Collective) error { return run(c) },
}

// TestPlanted plants faults in the operations of one member. The check must find each.
func TestPlanted(t *testing.T) {
	for name := range faults {
		for _, real := range []bool{false, true} {
			for _, out := range []bool{false, true} {
				if real && out || testing.Short() && (real || out) {
					continue
				}
				row := plant(t, name, real, out)
				if (row.Wrong == 0) != (name == "none") {
					t.Errorf("%s, real %v, out of place %v: %d wrong in %d checked", name, real, out, row.Wrong,
						row.Checked)
				}
				if name == "wrong element" && row.Wrong != int64(row.Checked) {
					t.Errorf("a wrong element in every call: %d wrong in %d calls", row.Wrong, row.Checked)
				}
			}
		}
	}
}

// plant returns the row of an allreduce of 3 members with a fault.
func plant(t *testing.T, name string, real, out bool) *report.Measurement {
	// With one of these faults on only one member the operation would hang or fail.
	everywhere := name == "nothing done" || name == "short message" || name == "type mismatch"
	rep := onRanks(t, 3, Options{}, func(ctx context.Context, r *Run) error {
		p := plan(3)
		p.Real = real
		s := &sweep{run: r, plan: &p, groups: map[int]*group{}}
		pt := point{3, 4096 * 3, spmd.AllReduce, tensor.F32, []string{"ordered"}}
		if err := s.allocate([]point{pt}); err != nil {
			return err
		}
		g, err := s.group(3, pt.algorithms)
		if err != nil {
			return err
		}
		run := func(ctx context.Context, c *spmd.Collective) error {
			honest := func(c *spmd.Collective) error { return g.by["ordered"].Run(ctx, *c) }
			if everywhere || r.w.Rank() == 1 {
				return faults[name](honest, c)
			}
			return honest(c)
		}
		c := s.calls(pt, "arena", out, run)
		if err := r.Columns("", nil, nil); err != nil {
			return err
		}
		return r.measure(ctx, g.team, false, func() ([]*arm, func(), error) {
			return []*arm{c.arm("ordered", g.team)}, func() {}, nil
		})
	})
	return &rep.Rows[0]
}

// TestPatterns: numbers of different members and places differ, and their sums are exact.
func TestPatterns(t *testing.T) {
	for _, name := range TypeNames() {
		d := TypeOf(name)
		for _, op := range []spmd.Op{spmd.Sum, spmd.Prod, spmd.Min, spmd.Max} {
			p := pattern{op: op, dtype: d, members: 7, salt: 3}
			if !p.exact() {
				t.Errorf("%v %v on 7 members is not exact", op, d)
			}
			b := make([]byte, 1000*d.Size())
			p.fill(b, 2, 13)
			if p.wrong(b, 2, 13) != 0 || p.wrong(b, 2, 14) == 0 || p.wrong(b, 3, 13) == 0 {
				t.Errorf("%v: numbers do not tell members or places apart", d)
			}
			next := p
			next.salt++
			if n := next.wrong(b, 2, 13); n < 500 && op != spmd.Prod || n < 100 {
				t.Errorf("%v: the numbers of the next check are the same in most places", d)
			}
			b[len(b)-1] ^= 0x40
			if got := p.wrong(b, 2, 13); got != 1 {
				t.Errorf("%v: %d wrong, want the last", d, got)
			}
		}
	}
	many := pattern{op: spmd.Sum, dtype: tensor.BF16, members: 1000}
	if many.exact() {
		t.Error("sums of 1000 bf16 cannot be exact")
	}
	x, tolerance := many.reduced(5)
	if !(tolerance > 0) || x != x {
		t.Errorf("reduced: %v ± %v", x, tolerance)
	}
}

// TestInterrupt: a run that is asked to stop, on any rank, ends in order with the rows it has.
func TestInterrupt(t *testing.T) {
	var asked atomic.Int64
	stop := func() bool { return asked.Add(1) > 20 }
	var out bytes.Buffer
	table := test.Must(report.NewWriter("table", &out))(t)
	p := plan(2, 3)
	p.Sizes, p.Algorithms = []int{8, 16, 32, 64, 128, 256}, []string{"ordered", "ring", "doubling"}
	rule := stats.StopRule{RelativeCI: 0, MinSamples: 1 << 20, MaxSamples: 1 << 20, MaxTime: time.Hour}
	rep := onRanks(t, 3, Options{Rule: rule, Stop: stop, Writers: []*report.Writer{table}},
		func(ctx context.Context, r *Run) error {
			if err := r.Measure(ctx, p); err != nil {
				return err
			}
			if !r.Stopped() {
				return errors.New("the run does not know that it was stopped")
			}
			return nil
		})
	if rep.Complete || len(rep.Rows) == 0 {
		t.Errorf("complete %v, %d rows", rep.Complete, len(rep.Rows))
	}
	if !strings.Contains(out.String(), "interrupted: this is what was measured until then") ||
		!strings.Contains(out.String(), "allreduce") {
		t.Errorf("%s", out.String())
	}
}

// TestTask: rates are units per second of a rank's own time, without its wait for others.
func TestTask(t *testing.T) {
	var got []float64
	rep := onRanks(t, 2, Options{}, func(ctx context.Context, r *Run) error {
		if err := r.Columns("", []string{"op"}, nil); err != nil {
			return err
		}
		sleep := time.Duration(1+4*r.w.Rank()) * time.Millisecond // the second rank is slower
		call := func(context.Context, int) error { time.Sleep(sleep); return nil }
		return r.Task(ctx, Task{Op: "sleep", Call: call, Units: 10}, func(_ *report.Measurement, rates []float64) {
			if r.w.Rank() == 0 {
				got = rates
			}
		})
	})
	if len(rep.Rows) != 1 || rep.Rows[0].Min < 5000 {
		t.Errorf("a sample is the time of the slowest rank: %+v", rep.Rows)
	}
	if len(got) != 2 || got[0] <= got[1] || got[0] > 10/0.001 || got[1] > 10/0.005 {
		t.Errorf("rates %v, want one of each rank, at most 10000 and 2000", got)
	}
	sum := 0.0 // of the samples, each at least as long as the time of either rank
	for _, us := range rep.Rows[0].Samples {
		sum += us
	}
	if least := 10 * float64(len(rep.Rows[0].Samples)) / (sum * 1e-6); slices.Min(got) < 0.999*least {
		t.Errorf("rates %v, want at least %v, which the samples tell", got, least)
	}
}

// TestTraffic compares the formulas with values computed by hand.
func TestTraffic(t *testing.T) {
	if f := busFactor(spmd.AllReduce, 4); f != 1.5 {
		t.Errorf("bus factor of an allreduce on 4: %v", f)
	}
	if m := moved(spmd.AllReduce, 4, 100); m != 600 {
		t.Errorf("an allreduce of 100 bytes on 4 moves %v", m)
	}
	if m := moved(spmd.Gather, 4, 100); m != 75 {
		t.Errorf("a gather of 100 bytes on 4 moves %v", m)
	}
}

// TestMax: every member gets the largest values, for any number of members.
func TestMax(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: io.Discard},
			func(ctx context.Context, w *spmd.World) error {
				ends, err := w.NewComm(w.Ranks(), "team")
				if err != nil {
					return err
				}
				x := []float64{float64(w.Rank()), -float64(w.Rank())}
				if err := (&team{Comm: ends[0]}).max(ctx, x); err != nil {
					return err
				}
				if x[0] != float64(n-1) || x[1] != 0 {
					return errors.New("max is not the largest")
				}
				return nil
			})
		test.Check(t, err, "%d ranks", n)
	}
}

func TestCPUList(t *testing.T) {
	if got := cpusOf("0-3,8,x"); len(got) != 5 || got[4] != 8 {
		t.Errorf("0-3,8: %v", got)
	}
	for s, want := range map[string]int64{"32768K": 32 << 20, "2M": 2 << 20, "": 0, "x": 0} {
		test.Equal(t, parseSize(s), want, "%q", s)
	}
}

// TestAlgorithmsAreKnown: the algorithms that the cost formulas name exist.
func TestAlgorithmsAreKnown(t *testing.T) {
	known := strings.Join(collectives.Algorithms(), " ")
	for _, name := range []string{"ring", "ordered", "direct", "rabenseifner", "doubling", "tree"} {
		if !strings.Contains(known, name) {
			t.Errorf("no algorithm %q: there are %s", name, known)
		}
	}
}
