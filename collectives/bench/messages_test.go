package bench

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// TestP2P measures between two ranks that are not the first, and between all.
func TestP2P(t *testing.T) {
	for _, n := range []int{2, 5} {
		p := Suite{Bench: "p2p", Pair: [2]int{n - 1, n - 2}, Ops: PairOps(), Sizes: []int{0, 1, 5000}, Window: 7,
			Check: true}
		rep := onRanks(t, n, Options{}, func(ctx context.Context, r *Run) error { return r.Measure(ctx, p) })
		count := map[string]int{}
		for _, row := range rep.Rows {
			count[row.Op]++
			if row.Wrong != 0 || row.Size > 0 && row.Checked < 2 {
				t.Errorf("%s: %d wrong in %d checked", row.Key(), row.Wrong, row.Checked)
			}
			if want := map[bool]int{true: n / 2 * 2, false: 2}[row.Op == MessageRate]; row.Ranks != want {
				t.Errorf("%s on %d ranks, want %d", row.Op, row.Ranks, want)
			}
		}
		for _, op := range PairOps()[:4] {
			if count[op] != 3 {
				t.Errorf("%s: %d rows, want one for each size", op, count[op])
			}
		}
		if count[SignalWakeUp]+len(rep.Notes) != 1 {
			t.Errorf("signal: %d rows and notes %q, want either", count[SignalWakeUp], rep.Notes)
		}
	}
}

// TestRates compares the figures with values computed by hand, for a window of 10 messages of 1000 bytes in 100 µs.
func TestRates(t *testing.T) {
	for op, want := range map[string]float64{Latency: 0.01, Bandwidth: 0.1, BiBandwidth: 0.2, MessageRate: 0.3} {
		row := report.Measurement{Op: op, Size: 1000, Median: 100}
		rates(&row, 10, 3)
		if got := row.Figures["bw_gbs"]; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v GB/s, want %v", op, got, want)
		}
		if got := row.Figures["msgs_s"]; math.Abs(got-want*1e6) > 1e-6 {
			t.Errorf("%s: %v messages per second, want %v", op, got, want*1e6)
		}
	}
}

// TestP2PFindsWhatIsWrong: the check finds a byte that changes in transit.
func TestP2PFindsWhatIsWrong(t *testing.T) {
	rep := onRanks(t, 2, Options{}, func(ctx context.Context, r *Run) error {
		tm, err := r.newTeam([]int{0, 1}, "faulty")
		if err != nil {
			return err
		}
		var regions [2]region
		for i := range regions {
			if regions[i], err = newRegion(r.w.Alloc, 100); err != nil {
				return err
			}
		}
		m := &messages{window: 1, out: regions[0], in: regions[1], size: 100}
		a := m.arm(tm.Comm, Latency, true)
		honest := a.call
		a.call = func(ctx context.Context, i int) error {
			err := honest(ctx, i)
			if r.w.Rank() == 1 {
				m.in.whole[guard+50]++
			}
			return err
		}
		if err := r.Columns("", nil, nil); err != nil {
			return err
		}
		return r.measure(ctx, tm, false, func() ([]*arm, func(), error) { return []*arm{a}, func() {}, nil })
	})
	if row := rep.Rows[0]; row.Wrong != int64(row.Checked) || row.Checked == 0 {
		t.Errorf("%d wrong in %d checked, want one in each", row.Wrong, row.Checked)
	}
}

func TestChannel(t *testing.T) {
	p := Suite{Bench: "channel", Pair: [2]int{2, 1}, Sizes: []int{1, 4000}, Depth: 2, Window: 5,
		Consume: 20 * time.Microsecond, Check: true}
	rep := onRanks(t, 3, Options{}, func(ctx context.Context, r *Run) error { return r.Measure(ctx, p) })
	if len(rep.Rows) != 6 {
		t.Fatalf("%d rows, want three operations of two sizes", len(rep.Rows))
	}
	for _, row := range rep.Rows {
		if row.Wrong != 0 || row.Checked < 2 || !(row.Figures["items_s"] > 0) {
			t.Errorf("%s: %+v", row.Key(), row)
		}
		_, blocked := row.Figures["blocked_pct"]
		if blocked != (row.Op == BackPressure) {
			t.Errorf("%s: figures %v", row.Key(), row.Figures)
		}
	}
}

// TestWeights: readers get every version in all ways to distribute weights, also if the source is a reader.
func TestWeights(t *testing.T) {
	for _, readers := range [][]int{{0, 2}, {0, 1, 2}} {
		p := Suite{Bench: "weights", Source: 1, Readers: readers, Sizes: []int{4, 8 << 10}, Slots: []int{0, 1, 2},
			Wire: tensor.F32, Bucket: 1 << 10, Changed: 0.5, Check: true}
		rep := onRanks(t, 3, Options{}, func(ctx context.Context, r *Run) error { return r.Measure(ctx, p) })
		if len(rep.Rows) != 6 {
			t.Fatalf("readers %v: %d rows, want three of two sizes", readers, len(rep.Rows))
		}
		for _, row := range rep.Rows {
			if row.Wrong != 0 || row.Checked < 2 || !(row.Figures["forward_us"] > 0) {
				t.Errorf("readers %v: %s: %+v", readers, row.Key(), row)
			}
		}
	}
}

func TestOverlap(t *testing.T) {
	p := plan(2)
	p.Bench, p.Algorithms, p.Sizes = "overlap", []string{"auto", "ring"}, []int{4096}
	p.Kinds = []spmd.CollectiveKind{spmd.AllReduce, spmd.AllToAll}
	rep := onRanks(t, 2, Options{}, func(ctx context.Context, r *Run) error { return r.Measure(ctx, p) })
	if len(rep.Rows)+len(rep.Notes) < 4 {
		t.Fatalf("%d rows, notes %q", len(rep.Rows), rep.Notes)
	}
	for _, row := range rep.Rows {
		for _, name := range rep.Figures {
			if _, ok := row.Figures[name]; !ok {
				t.Errorf("%s has no %s", row.Key(), name)
			}
		}
		if row.Wrong != 0 || row.Checked == 0 {
			t.Errorf("%s: %d wrong in %d checked", row.Key(), row.Wrong, row.Checked)
		}
	}
	for _, c := range []struct{ overall, compute, pure, want float64 }{
		{200, 100, 100, 0}, {100, 100, 100, 100}, {120, 100, 100, 80}, {250, 100, 100, 0},
	} {
		if got := overlapPercent(c.overall, c.compute, c.pure); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestTune: the table has the fastest algorithms. Neighbouring sizes of one algorithm are one rule. Differences
// within the noise make no rule.
func TestTune(t *testing.T) {
	times := map[string][]float64{"ring": {10, 10, 10, 10}, "tree": {5, 6, 9.95, 20}, InC: {1, 1, 1, 1}}
	rep := onRanks(t, 1, Options{}, func(_ context.Context, r *Run) error {
		for name, medians := range times {
			for i, x := range medians {
				r.rep.Rows = append(r.rep.Rows, report.Measurement{Op: "allreduce", Algorithm: name, Ranks: 4,
					Size: int64(8 << i), Memory: "arena", Median: x})
			}
		}
		table := r.Tune()
		if len(table.Rules) != 2 || table.Rules[0].Algorithm != "tree" || table.Rules[0].Bytes != 32 ||
			table.Rules[1].Algorithm != "ring" || table.Rules[1].Bytes != 0 {
			t.Errorf("%+v", table.Rules)
		}
		return table.Write(t.TempDir() + "/table.json")
	})
	if len(rep.Rows) != 12 {
		t.Error("rows were lost")
	}
}
