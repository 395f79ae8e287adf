package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// counted is a transport that adds up the bytes that Alloc was asked for.
type counted struct {
	spmd.Transport
	spmd.SharedMaker
	asked *atomic.Int64
}

func (c *counted) Alloc(n int) ([]byte, error) {
	c.asked.Add(int64(n))
	return c.Transport.Alloc(n)
}

// sweepIn measures p on goroutine ranks, as if the machine had this cache and this much free memory. It returns how
// many bytes of communication memory the ranks asked for, and the notes.
func sweepIn(t *testing.T, ranks int, p Suite, cache, free int64) (asked int64, notes []string) {
	t.Helper()
	var sum atomic.Int64
	transports := local.New(ranks)
	for i, tr := range transports {
		transports[i] = &counted{tr, tr.(spmd.SharedMaker), &sum}
	}
	rule := stats.StopRule{RelativeCI: 1, MinSamples: 1, MaxSamples: 2, MaxTime: 1}
	opts := Options{Rule: rule, Warmup: 1, Stop: func() bool { return false }, Cache: cache, Free: free}
	err := spmd.Run(t.Context(), transports, spmd.Options{Log: io.Discard},
		func(ctx context.Context, w *spmd.World) error {
			r, err := Begin(ctx, w, opts)
			if err != nil {
				return err
			}
			if err := r.Measure(ctx, p); err != nil {
				return err
			}
			rep, err := r.End(true)
			if w.Rank() == 0 {
				notes = rep.Notes
				for _, row := range rep.Rows {
					if row.Wrong != 0 {
						t.Errorf("%s: %d wrong", row.Key(), row.Wrong)
					}
				}
			}
			return err
		})
	test.OK(t, err)
	return sum.Load(), notes
}

// others is how much communication memory a run may take besides its buffers: the memory of the groups.
const others = 48 << 20

// TestOffCacheMemory sweeps with a cache of 1 GiB, in a process of its own. That process must take less than 2 GB:
// all cases and ranks together use buffers of 1.5 GiB.
func TestOffCacheMemory(t *testing.T) {
	const inside = "RLINF_TEST_OFF_CACHE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOffCacheMemory$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if runtime.GOOS != "linux" {
			return // this system does not report the peak memory of a process
		}
		peak := regexp.MustCompile(`VmHWM:\s*([0-9]+) kB`).FindSubmatch(out)
		if peak == nil {
			t.Fatalf("no VmHWM in\n%s", out)
		}
		kib, err := strconv.Atoi(string(peak[1]))
		if err != nil || kib<<10 > 2e9 {
			t.Errorf("at its peak %d KiB were resident: want at most 2 GB", kib)
		}
		t.Logf("at its peak %.2f GB were resident", float64(kib)*1024/1e9)
		return
	}
	p := plan(2)
	p.Kinds, p.Sizes, p.OffCache, p.OutOfPlace = []spmd.CollectiveKind{spmd.AllReduce, spmd.Gather, spmd.SendReceive},
		[]int{1 << 20}, true, true
	asked, notes := sweepIn(t, 2, p, 1<<30, 0)
	if most := int64(mostBuffers/raceFactor + others); asked > most || asked < most-2*others {
		t.Errorf("the ranks asked for %d bytes: want %d at most, and nearly as many", asked, most)
	}
	// In a gather only the root uses its whole buffer. With the race detector, a third of 1.5 GiB fits into the
	// cache.
	want := map[bool]string{false: "at most here: gather",
		true: "at most here: allreduce, gather, sendrecv"}[raceFactor > 1]
	if !strings.HasSuffix(strings.Join(notes, "\n"), want) {
		t.Errorf("notes %q: want what is not out of the cache: %q", notes, want)
	}
	fmt.Println("VmHWM:", field("/proc/self/status", "VmHWM"))
}

// TestOffCacheReuse: more cases or more ranks need no more memory; each kind of memory is counted.
func TestOffCacheReuse(t *testing.T) {
	const cache = 24 << 20
	p := plan(2)
	p.Sizes, p.OffCache = []int{1 << 16}, true
	one, notes := sweepIn(t, 2, p, cache, 0)
	if one < 2*cache || one > 2*cache+others {
		t.Errorf("one case asked for %d bytes: want twice the cache", one)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, "2.00 times its last-level cache of 24MiB") ||
		strings.Contains(text, "NOT") {
		t.Errorf("notes %q", notes)
	}
	for name, change := range map[string]func(*Suite){
		"kinds": func(p *Suite) {
			p.Kinds = []spmd.CollectiveKind{spmd.AllReduce, spmd.Broadcast, spmd.AllGather, spmd.AllToAll}
		},
		"sizes":      func(p *Suite) { p.Sizes = []int{1 << 14, 1 << 15, 1 << 16} },
		"types":      func(p *Suite) { p.Types = []tensor.DType{tensor.F32, tensor.I64, tensor.U8} },
		"algorithms": func(p *Suite) { p.Algorithms = []string{"ring", "tree", "doubling"} },
		"places":     func(p *Suite) { p.OutOfPlace = true },
	} {
		q := p
		change(&q)
		if many, _ := sweepIn(t, 2, q, cache, 0); many > one+cache/2 {
			t.Errorf("with more %s the ranks asked for %d bytes, with one for %d", name, many, one)
		}
	}
	q := p
	q.Ranks = []int{4}
	if many, _ := sweepIn(t, 4, q, cache, 0); many > one+cache/2 {
		t.Errorf("4 ranks asked for %d bytes, 2 ranks for %d", many, one)
	}
	// A quarter of 64 MiB is less than the cache.
	less, notes := sweepIn(t, 2, p, cache, 64<<20)
	if less > 16<<20/raceFactor+others || !strings.Contains(strings.Join(notes, "\n"), "NOT out of the cache") {
		t.Errorf("with 64 MiB free the ranks asked for %d bytes; notes %q", less, notes)
	}
}

// TestBudget compares the budget with values computed by hand.
func TestBudget(t *testing.T) {
	one, two := make([]int, 8), []int{0, 0, 0, 3, 3} // hosts of 8 ranks; of 3 and 2
	for _, c := range []struct {
		budget  budget
		buffers int
		beyond  int // bytes of each buffer of the roof
	}{
		{budget{hosts: one, cache: 32 << 20}, mostBuffers, 8 << 20},
		{budget{hosts: one, cache: 1 << 20}, mostBuffers, 4 << 20},
		{budget{hosts: one, cache: 4 << 30}, mostBuffers, 96 << 20},
		{budget{hosts: one[:1], cache: 1 << 30}, mostBuffers, 128 << 20},
		{budget{hosts: one, cache: 480 << 20, free: 1 << 30}, 256 << 20, 16 << 20},
		{budget{hosts: two, cache: 30 << 20}, mostBuffers, 20 << 20},
	} {
		if got := c.budget.buffers(); got != c.buffers {
			t.Errorf("%+v: buffers of %d bytes, want %d", c.budget, got, c.buffers)
		}
		if got := c.budget.beyondCaches(); got != c.beyond {
			t.Errorf("%+v: %d bytes for the roof, want %d", c.budget, got, c.beyond)
		}
	}
	const mib = 1 << 20
	r := budget{hosts: one, free: 4 * 1024 * mib * raceFactor} // 1 GiB of buffers, with and without the race detector
	if raceFactor > 1 {
		r.free = 4 * mostBuffers
	}
	total := r.buffers() / raceFactor
	for _, c := range []struct {
		hosts    []int
		n, kinds int
		want     int
	}{
		{one, 8, 1, total / 8},
		{one, 2, 2, total / 4},
		{two, 5, 1, total / 3}, // 3 ranks on one host, and 2 on the other
	} {
		r.hosts = c.hosts
		test.Equal(t, r.limit(c.n, c.kinds), c.want, "hosts %v, groups of %d, %d kinds: bytes", c.hosts, c.n, c.kinds)
	}
	if err := (&budget{hosts: one, free: 80 * mib * raceFactor}).check(8, 11*mib); err == nil ||
		!strings.Contains(err.Error(), "buffers of 11MiB on each of 8 ranks") {
		t.Errorf("88 MiB of 80: %v", err)
	}
	test.Check(t, (&budget{hosts: one, free: 80 * mib * raceFactor}).check(8, 10*mib))
	if got := (&budget{hosts: make([]int, 96)}).window(); got != mostBuffers/raceFactor/96 {
		t.Errorf("96 ranks: windows of %d bytes", got)
	}
}

// TestTouched: the bytes that a call touches are those of its buffers, without the guards.
func TestTouched(t *testing.T) {
	s := &sweep{plan: &Suite{}, run: &Run{budget: budget{hosts: make([]int, 4), cache: 1 << 20}}}
	for _, c := range []struct {
		kind spmd.CollectiveKind
		out  bool
		size int
		want int
	}{
		{spmd.AllReduce, false, 8, 4 * 64},
		{spmd.AllReduce, true, 1 << 12, 8 << 12},
		{spmd.Broadcast, true, 1 << 12, 5 << 12},
		{spmd.Gather, false, 1 << 12, 4<<10 + 3<<10},
		{spmd.Gather, true, 1 << 12, 4<<10 + 3<<10 + 4<<10},
		{spmd.Scatter, true, 1 << 12, 8<<10 + 3<<10},
		{spmd.AllToAll, false, 1 << 12, 4 << 12},
		{spmd.AllToAll, true, 1 << 12, 8 << 12},
		{spmd.SendReceive, false, 1 << 12, 8 << 12},
	} {
		if got := s.touched(point{ranks: 4, size: c.size, kind: c.kind, dtype: tensor.F32}, c.out); got != c.want {
			t.Errorf("%v of %d, out of place %v: %d bytes, want %d", c.kind, c.size, c.out, got, c.want)
		}
	}
}
