package trace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// A bench is a log with recorders, on a clock that the test moves.
type bench struct {
	t   *testing.T
	now int64
	o   Options
	log *Log
}

func newBench(t *testing.T, o Options) *bench {
	b := &bench{t: t, now: 1000}
	o.Run, o.Clock = t.TempDir(), func() int64 { return b.now }
	o.Attempt, o.Ranks, o.Host = 7, max(o.Ranks, 1), "node0"
	b.o, b.log = o, NewLog(o)
	return b
}

// write writes what is due.
func (b *bench) write() {
	b.t.Helper()
	if err := b.log.Write(); err != nil {
		b.t.Fatal(err)
	}
}

// read reads the trace, which must be complete.
func (b *bench) read() Attempt {
	b.t.Helper()
	t, err := Read(b.o.Run)
	if err != nil || len(t.Problems) > 0 || len(t.Attempts) != 1 {
		b.t.Fatalf("%v, problems %q, %d attempts", err, t.Problems, len(t.Attempts))
	}
	return t.Attempts[0]
}

var (
	simulate = Site{Op: Work, Name: "simulate", Cause: Working}
	act      = Site{Op: Get, Name: "act", Key: "0-3", Peer: "rollout", Cause: Action}
	obs      = Site{Op: Put, Name: "obs", Key: "0-3", Peer: "rollout"}
	interact = Site{Op: Call, Name: "interact", Cause: Other}
)

// TestRoundTrip: spans cover the iteration without gaps. A wait cuts the work around it in two, and the end of an
// iteration cuts a span. A wait of no length counts.
func TestRoundTrip(t *testing.T) {
	b := newBench(t, Options{Ranks: 9})
	var sent []Sent
	b.log.Count(func() []Sent { return sent })
	r := b.log.Recorder("env", 0)
	in, sim, get, put := r.Site(interact), r.Site(simulate), r.Site(act), r.Site(obs)
	b.log.Start()
	steps := []struct {
		after int64
		do    func()
	}{
		{5, func() { r.Begin(in) }}, {10, func() { r.Begin(sim) }}, {100, func() { r.Begin(get) }},
		{1000, func() { r.End(3, 0) }}, {20, func() { r.End(0, 0) }}, {1, func() { r.Mark(put, 2) }},
		{0, func() { r.Pass(get, 1, 7) }}, {4, func() { r.Begin(get) }}, {30, func() { b.log.Cut(1) }},
		{70, func() { r.End(-1, 0) }}, {10, func() { r.End(0, 0) }}, {100000, func() { b.log.Cut(2) }},
	}
	for _, s := range steps {
		b.now += s.after
		s.do()
		if s.after == 30 {
			sent = []Sent{{0, 0, 1, 0}, {0, 8, 3, 1 << 40}}
			b.write()
			sent = []Sent{{0, 0, 2, 0}, {0, 3, 1, 7}, {0, 8, 5, 1 << 41}}
		}
	}
	b.write()
	a := b.read()
	if len(a.Windows) != 2 || a.Windows[0].Why != First || len(a.Workers) != 1 || a.Hosts[0] != "node0" {
		t.Fatalf("got %+v", a)
	}
	if !slices.Equal(a.Sent, sent) {
		t.Errorf("sent %v, want %v", a.Sent, sent)
	}
	want := []string{ // site, start, end, argument, number
		"idle 0-5 0 0", "interact 5-15 0 0", "simulate 15-115 0 0", "act 115-1115 3 0", "simulate 1115-1135 0 0",
		"interact 1135-1136 0 0", "act 1136-1136 1 1", "interact 1136-1140 0 0", "act 1140-1170 0 2",
	}
	if got := tell(&a, 0); !slices.Equal(got, want) {
		t.Errorf("iteration 1:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s := a.Windows[0].Tracks[0].Spans[6]; s.Item != 7 {
		t.Errorf("got item %d of the producer, want 7", s.Item)
	}
	if m := a.Windows[0].Tracks[0].Marks; len(m) != 1 || m[0].At != 2136 || m[0].Arg != 2 || m[0].N != 0 {
		t.Errorf("marks %+v", m)
	}
	want = []string{"act 1170-1240 -1 2", "interact 1240-1250 0 0", "idle 1250-101250 0 0"}
	if got := tell(&a, 1); !slices.Equal(got, want) {
		t.Errorf("iteration 2:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantSums := []Sum{{1, 0, []int64{5, 15, 120, 1030, 0}}, {2, 0, []int64{100000, 10, 0, 70, 0}}}
	if !reflect.DeepEqual(a.Sums, wantSums) {
		t.Errorf("sums %v, want %v", a.Sums, wantSums)
	}
}

// tell describes the spans of the first track of a window. Times count from 1000.
func tell(a *Attempt, window int) (lines []string) {
	track := a.Windows[window].Tracks[0]
	for _, s := range track.Spans {
		lines = append(lines, fmt.Sprintf("%s %d-%d %d %d", a.Workers[track.Worker].Sites[s.Site].Name, s.Start-1000,
			s.End-1000, s.Arg, s.N))
	}
	return lines
}

// TestKeptIterations: the first three iterations, every 50th, the slowest of each 100, and the last three at an error.
func TestKeptIterations(t *testing.T) {
	b := newBench(t, Options{})
	r := b.log.Recorder("env", 0)
	sim := r.Site(simulate)
	b.log.Start() // a run that resumes after iteration 10
	for n := int64(11); n <= 230; n++ {
		r.Begin(sim)
		b.now += n
		r.End(0, 0)
		b.log.Cut(n)
		if n == 38 || n == 78 || n == 131 { // rank 0 learns of a slow iteration one iteration later
			b.log.Hold(n - 1)
		}
		b.write()
	}
	test.OK(t, b.log.Flush(true))
	a := b.read()
	var got []string
	for _, w := range a.Windows {
		got = append(got, fmt.Sprint(w.Iteration, " ", w.Why))
	}
	want := []string{"11 first", "12 first", "13 first", "50 regular", "77 slowest", "100 regular", "130 slowest",
		"150 regular", "200 regular", "229 last", "230 last", "231 last"}
	if !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if len(a.Sums) != 221 || a.Sums[0].Iteration != 11 || a.Sums[220].Iteration != 231 {
		t.Errorf("%d sums", len(a.Sums))
	}
	for _, s := range a.Sums[:220] {
		if s.Times[sim] != s.Iteration {
			t.Fatalf("iteration %d has %d ns", s.Iteration, s.Times[sim])
		}
	}
	if w := a.Windows[4].Tracks[0]; w.Spans[0].End-w.Spans[0].Start != 77 {
		t.Errorf("the held iteration has %+v", w.Spans)
	}
}

// TestHeldLately: an iteration that was held as the slowest until another was slower can still be one of the last
// iterations.
func TestHeldLately(t *testing.T) {
	b := newBench(t, Options{})
	b.log.Recorder("env", 0)
	b.log.Start()
	for n := int64(1); n <= 9; n++ {
		b.now += n
		b.log.Cut(n)
		b.write()
		if n == 9 {
			b.log.Hold(8)
			b.log.Hold(9)
		}
	}
	test.OK(t, b.log.Flush(true))
	var got []string
	for _, w := range b.read().Windows[3:] {
		got = append(got, fmt.Sprint(w.Iteration, " ", w.Why, " ", len(w.Tracks)))
	}
	if want := []string{"8 last 1", "9 slowest 1", "10 last 1"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}

// TestTooManyEvents: an iteration with too many events has spans that say where events are missing. Sums are complete,
// and counts are right.
func TestTooManyEvents(t *testing.T) {
	b := newBench(t, Options{All: true})
	r := b.log.Recorder("env", 0)
	get := r.Site(act)
	b.log.Start()
	const waits = 200_000
	for n := int64(1); n <= 6; n++ {
		for range waits {
			r.Begin(get)
			b.now += 3000
			r.End(n, 0)
		}
		b.now += 50
		b.log.Cut(n)
		b.write()
	}
	tr, err := Read(b.o.Run)
	if err != nil || len(tr.Problems) != 1 || !strings.Contains(tr.Problems[0], "env 0 on rank 0 had too many spans") {
		t.Fatalf("%v, %q", err, tr.Problems)
	}
	a := tr.Attempts[0]
	for i, w := range a.Windows {
		at, late, skipped := w.Tracks[0].Spans[0].Start, 0, 0
		for _, s := range w.Tracks[0].Spans {
			if s.Start != at {
				t.Fatalf("iteration %d: a gap at %d", w.Iteration, at)
			}
			at = s.End
			switch a.Workers[0].Sites[s.Site].Op {
			case Get:
				if first := int64(i) * waits; s.N != first+(s.Start-w.Tracks[0].Spans[0].Start)/3000 {
					t.Fatalf("iteration %d: wait %d at %d", w.Iteration, s.N, s.Start)
				}
				if s.N >= int64(i)*waits+waits*9/10 {
					late++
				}
			case Skipped:
				skipped++
			}
		}
		if at-w.Tracks[0].Spans[0].Start != waits*3000+50 || skipped == 0 {
			t.Errorf("iteration %d: %d ns, %d skips", w.Iteration, at-w.Tracks[0].Spans[0].Start, skipped)
		}
		if i == 5 && late == 0 {
			t.Errorf("nothing of the last tenth of the iteration was kept")
		}
	}
	for _, s := range a.Sums {
		if s.Times[get] != waits*3000 {
			t.Errorf("sum %d", s.Times[get])
		}
	}
}

// TestNoAllocation: recording allocates nothing.
func TestNoAllocation(t *testing.T) {
	b := newBench(t, Options{})
	r := b.log.Recorder("env", 0)
	get, put := r.Site(act), r.Site(obs)
	test.NoAllocs(t, 1000, func() {
		r.Begin(get)
		r.End(1, 0)
		r.Mark(put, 1)
		r.Pass(get, 2, 5)
	})
}

// TestUnwritable: if the folder cannot be written, there is one error, and later iterations need no memory.
func TestUnwritable(t *testing.T) {
	b := newBench(t, Options{})
	test.OK(t, os.WriteFile(filepath.Join(b.o.Run, Folder), nil, 0o666))
	r := b.log.Recorder("env", 0)
	b.log.Start()
	failed := 0
	for n := int64(1); n <= 1000; n++ {
		b.now += 10
		b.log.Cut(n)
		if b.log.Write() != nil {
			failed++
		}
	}
	if failed != 1 || len(r.sums) > 0 {
		t.Errorf("%d errors, %d sums are kept", failed, len(r.sums))
	}
}

// TestDamage: problems name what is damaged or cut off, and the other chunks are read.
func TestDamage(t *testing.T) {
	b := newBench(t, Options{All: true})
	r := b.log.Recorder("env", 0)
	get := r.Site(act)
	b.log.Start()
	var ends []int64
	file := filepath.Join(b.o.Run, Folder, "rank-0000.bin")
	for n := int64(1); n <= 4; n++ {
		r.Begin(get)
		b.now += 10
		r.End(0, 0)
		b.log.Cut(n)
		b.write()
		info := test.Must(os.Stat(file))(t)
		ends = append(ends, info.Size())
	}
	whole := test.Must(os.ReadFile(file))(t)
	for _, c := range []struct {
		name    string
		data    []byte
		windows int
		problem string
	}{
		{"cut in the last chunk", whole[:len(whole)-3], 3, "the last chunk is cut off"},
		{"cut in a frame", whole[:ends[2]+6], 3, "the last chunk is cut off"},
		{"a byte of the second chunk", flip(whole, int(ends[0])+30), 3, "is damaged"},
		{"the length of the second chunk", flip(whole, int(ends[0])+5), 3, "is"},
		{"rubbish before", append([]byte("rubbish"), whole...), 4, "7 bytes at byte 0 are damaged"},
		{"cut off, then another attempt", slices.Concat(whole[:ends[1]-4], whole[ends[1]:]), 3, "is"},
	} {
		tr := Parse([]string{"rank-0000.bin"}, [][]byte{c.data})
		if len(tr.Attempts) != 1 || len(tr.Attempts[0].Windows) != c.windows || len(tr.Problems) == 0 ||
			!strings.Contains(tr.Problems[0], c.problem) {
			t.Errorf("%s: %d windows, problems %q", c.name, len(tr.Attempts[0].Windows), tr.Problems)
		}
	}
	if tr, err := Read(t.TempDir()); err != nil || len(tr.Attempts)+len(tr.Problems) != 0 {
		t.Errorf("no trace: %v, %+v", err, tr)
	}
}

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0x55
	return b
}

// TestPhases: up to 64 ranks all times are kept; with more ranks only medians and the slowest ranks.
func TestPhases(t *testing.T) {
	for _, ranks := range []int{1, 64, 65, 512} {
		b := newBench(t, Options{Ranks: ranks})
		l := NewPhaseLog(b.o)
		all := make([][NumPhases]float32, ranks)
		for r := range all {
			for p := range all[r] {
				all[r][p] = float32((r*37)%ranks) + float32(p)/8
			}
		}
		test.OK(t, l.Write(3, all))
		test.OK(t, l.Close())
		p := b.read().Phases[0]
		if p.Iteration != 3 || ranks <= 64 && !slices.Equal(p.Ranks, all) {
			t.Errorf("%d ranks: %+v", ranks, p)
		}
		if ranks <= 64 {
			continue
		}
		if p.Least != [NumPhases]float32{0, .125, .25, .375, .5, .625} || p.Median[0] != float32(ranks/2) ||
			len(p.Slowest) != 3 {
			t.Errorf("%d ranks: %+v", ranks, p)
		}
		for i, s := range p.Slowest {
			if want := float32(ranks - 1 - i); s.Times[0] != want || all[s.Rank] != s.Times {
				t.Errorf("%d ranks: slowest %d is rank %d with %v", ranks, i, s.Rank, s.Times)
			}
		}
	}
}

// FuzzParse: no file makes the reader panic or use much memory.
func FuzzParse(f *testing.F) {
	var now int64
	tick := func() int64 { now += 13; return now }
	o := Options{Run: f.TempDir(), Attempt: 1, Ranks: 2, Host: "h", All: true, Clock: tick}
	log := NewLog(o)
	log.Count(func() []Sent { return []Sent{{0, 1, 3, 400}} })
	r := log.Recorder("env", 0)
	get, put := r.Site(act), r.Site(obs)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range int64(4) {
		for range 50 {
			switch rng.IntN(3) {
			case 0:
				r.Begin(get)
			case 1:
				r.End(2, 0)
			case 2:
				r.Mark(put, 1)
			}
		}
		log.Cut(n + 1)
		if err := log.Write(); err != nil {
			f.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(o.Run, Folder, "rank-0000.bin"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		Parse([]string{"a"}, [][]byte{data})
		if len(data) > 0 { // the payload is also tested behind a right checksum
			framed := finishChunk(append(append([]byte(magic), make([]byte, 8)...), data...))
			Parse([]string{"a"}, [][]byte{framed})
		}
	})
}

func BenchmarkBoundary(b *testing.B) {
	log := NewLog(Options{Run: b.TempDir(), Ranks: 1})
	r := log.Recorder("env", 0)
	get := r.Site(act)
	for i := range b.N {
		if i%10000 == 0 {
			log.Cut(int64(i))
		}
		r.Begin(get)
		r.End(1, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/boundary")
}

// TestOffsetOfClocks: pauses between two readings of the clocks do not change the result.
func TestOffsetOfClocks(t *testing.T) {
	const ahead = 1_000_000
	now, rest := int64(0), []int64{5000, 7_000_000, 0, 9_000_000, 0, 0, 100, 0}
	tick := func() int64 {
		now += 40
		if len(rest) > 0 {
			now, rest = now+rest[0], rest[1:]
		}
		return now
	}
	got := offset(tick, func() int64 { return tick() + ahead })
	if got < ahead-100 || got > ahead+100 {
		t.Errorf("got %d, want %d", got, ahead)
	}
}

// TestWorked: Worked returns the time of a component's work in the last iteration, by the name of the work.
func TestWorked(t *testing.T) {
	b := newBench(t, Options{})
	infer := Site{Op: Work, Name: "infer", Cause: Working}
	spend := func(r *Recorder, s Site, ns int64) {
		r.Begin(r.Site(s))
		b.now += ns
		r.End(0, 0)
	}
	env0, env1, rollout := b.log.Recorder("env", 0), b.log.Recorder("env", 1), b.log.Recorder("rollout", 0)
	b.log.Start()
	spend(env0, simulate, 5e9)
	b.log.Cut(1)
	spend(env0, simulate, 1e9)
	spend(env1, simulate, 2e9)
	spend(env1, act, 4e9)
	spend(rollout, infer, 8e9)
	b.log.Cut(2)
	worked := func(component, name string, want float64) {
		t.Helper()
		if got := b.log.Worked(component, name); got != want {
			t.Errorf("%s of %s: %v s, want %v", name, component, got, want)
		}
	}
	worked("env", "simulate", 3)
	worked("rollout", "infer", 8)
	worked("env", "infer", 0)
	spend(env0, simulate, 16e9)

	// Workers that work at the same time share it, also across the end of an iteration.
	rollout.Begin(rollout.Site(infer))
	spend(env0, simulate, 4e9)
	env1.Begin(env1.Site(simulate))
	spend(env0, simulate, 3e9)
	b.log.Cut(3)
	worked("env", "simulate", 16+2+2)
	worked("rollout", "infer", 2+1)
	spend(env1, act, 2e9) // this worker waits, and then goes on
	b.now += 2e9
	b.log.Cut(4)
	worked("env", "simulate", 1)
	worked("rollout", "infer", 2+1)
	if got := (*Log)(nil).Worked("env", "simulate"); got != 0 {
		t.Errorf("no record: %v s", got)
	}
}

// TestShares: a worker whose turn comes later does not wait, unless no worker of its rank has a turn.
func TestShares(t *testing.T) {
	b := newBench(t, Options{})
	env, actor := b.log.Recorder("env", 0), b.log.Recorder("actor", 0)
	b.log.Start()
	spend := func(r *Recorder, s Site, ns int64) {
		r.Begin(r.Site(s))
		b.now += ns
		r.End(0, 0)
	}
	share := func(c Cause) float64 { return b.log.Shares(nil)[slices.Index(Causes, c)] }
	spend(env, simulate, 6e9)
	spend(actor, Site{Op: Work, Name: "train", Cause: Working}, 4e9)
	b.log.Cut(1)
	if work, idle := share(Working), share(Idling); work != 1 || idle != 0 {
		t.Errorf("two workers in turns: work %v, idle %v", work, idle)
	}
	spend(env, simulate, 6e9)
	b.now += 2e9
	b.log.Cut(2)
	if work, idle := share(Working), share(Idling); work != 0.75 || idle != 0.25 {
		t.Errorf("a rank without work at the end: work %v, idle %v", work, idle)
	}
}
