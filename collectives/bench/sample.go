package bench

import (
	"context"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// A team is the set of ranks that measure together. Other ranks also have a team value, but without a
// control.
type team struct {
	*control
	lead  int     // the rank of its first member
	share float64 // of this rank in the processor time of its process
}

// member reports whether this rank measures with the team.
func (t *team) member() bool { return t.control != nil }

// An arm is one thing that a team measures. All its functions are collective over the team.
type arm struct {
	row report.Row
	// refill makes the buffers ready. It is called before every block. nil: nothing to do.
	refill func()
	// call makes call number i. The numbers run through all of the arm's calls.
	call func(ctx context.Context, i int) error
	// loop takes all samples of a block itself, each of batch calls, and writes their nanoseconds to
	// ns. nil: samples are taken by call.
	loop func(batch int, ns []float64) error
	// sync is the barrier before a sample. nil: the team's.
	sync func(ctx context.Context) error
	// check makes one more call and returns the number of elements that are wrong on this rank.
	// nil: nothing to check.
	check func(ctx context.Context) (wrong int64, err error)

	parts  int  // of a call: a sample is the time of one part; 0 counts as 1
	hidden bool // the arm has no row; figures of others follow from its samples

	calls int
	skews []float64
	timed int       // calls in the samples
	cpu   float64   // seconds of all ranks, in these calls
	spent []float64 // seconds of each rank, in these calls
}

// Blocks are so long that the exchange at their end hardly matters, and so short that an interrupt is
// served at once. Each arm has several blocks, because samples of one moment say little about the
// next.
const (
	blockTime   = 30 * time.Millisecond
	maxPerBlock = 200
	minBlocks   = 5
	warmTime    = 100 * time.Millisecond
	maxWarmup   = 1000
)

// exchange returns the largest number of values that a team of n ranks exchanges after a block.
func exchange(n int) int { return 2*maxPerBlock + 2 + 3*n }

// A schedule says how the arms of one measurement are sampled.
type schedule struct {
	rule   stats.Rule
	warmup int           // calls before the first sample; negative: 10, or a tenth of what is to come
	step   time.Duration // of the clock; equal on all ranks
	stop   func() bool   // asked once per block, on every rank
}

// run samples the arms in turns until each has enough, and fills in their rows. An arm that has enough
// samples rests. With together, all arms go on until the last one has enough, so that each meets the
// same conditions. run returns true if a rank was asked to stop. Then the arms have the samples taken
// before that.
func (s *schedule) run(ctx context.Context, t *team, arms []*arm, together bool) (stopped bool, err error) {
	defer summarize(arms)
	blocks := make([]int, len(arms))
	for i, a := range arms {
		if blocks[i], err = s.prepare(ctx, t, a); err != nil {
			return false, err
		}
	}
	if together {
		blocks = slices.Repeat([]int{slices.Min(blocks)}, len(arms))
	}
	used, taken := make([]time.Duration, len(arms)), make([]int, len(arms))
	done := func(i int) bool {
		n := len(arms[i].row.Samples)
		return s.rule.Done(arms[i].row.Samples, used[i]) && (taken[i] >= minBlocks || n >= s.rule.MaxSamples ||
			used[i] >= s.rule.MaxTime)
	}
	for enough := false; !enough && !stopped; {
		enough = true
		for i, a := range arms {
			if !together && done(i) || len(a.row.Samples) >= s.rule.MaxSamples {
				continue
			}
			stop, took, err := s.block(ctx, t, a, min(blocks[i], s.rule.MaxSamples-len(a.row.Samples)))
			if err != nil {
				return false, err
			}
			used[i] += took
			taken[i]++
			stopped = stopped || stop
			enough = enough && done(i)
		}
	}
	return stopped, nil
}

// summarize fills in the rows of the arms that have samples.
func summarize(arms []*arm) {
	for _, a := range arms {
		if len(a.row.Samples) > 0 {
			a.row.Summarize()
			a.row.Skew = stats.Median(a.skews)
			a.row.CPU = 1e6 * a.cpu / float64(max(1, a.timed))
		}
	}
}

// prepare checks a first result, warms up, and returns the number of samples in a block of a.
func (s *schedule) prepare(ctx context.Context, t *team, a *arm) (int, error) {
	a.spent = make([]float64, t.size())
	if a.check != nil {
		wrong, err := a.check(ctx)
		if err != nil {
			return 0, err
		}
		wrongs := make([]float64, t.size())
		wrongs[t.rank()] = float64(wrong)
		if err := t.max(ctx, wrongs); err != nil {
			return 0, err
		}
		a.count(wrongs)
	}
	if a.refill != nil {
		a.refill()
	}
	one, err := s.warm(ctx, t, a, 1)
	if err != nil {
		return 0, err
	}
	n := s.warmup
	if n < 0 {
		// A tenth of the fewest samples, if there is time.
		n = max(1, min(max(10, min(s.rule.MinSamples/10, maxWarmup)),
			int(min(s.rule.MaxTime/10, warmTime)/max(one, 1))))
	}
	if n > 0 {
		if one, err = s.warm(ctx, t, a, n); err != nil {
			return 0, err
		}
	}
	a.row.Batch = stats.Batch(one, s.step)
	// A block has at least two samples, so that one exchange serves more than one sample.
	return max(2, min(maxPerBlock, int(blockTime/max(1, one*time.Duration(a.row.Batch))))), nil
}

// warm makes n calls and returns the time of one, equal on all ranks.
func (s *schedule) warm(ctx context.Context, t *team, a *arm, n int) (time.Duration, error) {
	if err := t.barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	if a.loop != nil {
		if err := a.loop(n, make([]float64, 1)); err != nil {
			return 0, err
		}
	} else {
		for range n {
			if err := a.call(ctx, a.calls); err != nil {
				return 0, err
			}
			a.calls++
		}
	}
	one := []float64{float64(time.Since(start)) / float64(n)}
	if err := t.max(ctx, one); err != nil {
		return 0, err
	}
	return time.Duration(one[0]), nil
}

// block takes k samples of a. It returns how long that took and whether any rank was asked to stop.
// All ranks get the same results.
func (s *schedule) block(ctx context.Context, t *team, a *arm, k int) (stop bool, took time.Duration, err error) {
	if a.refill != nil {
		a.refill()
	}
	start, cpu := time.Now(), cpuTime()
	times := make([]float64, 2*k+2+3*t.size()) // the samples, the same negative; then the figures of the block
	if a.loop != nil {
		err = a.loop(a.row.Batch, times[:k])
	} else {
		err = s.samples(ctx, t, a, times[:k])
	}
	if err != nil {
		return false, 0, err
	}
	cpu = cpuTime() - cpu
	var wrong int64
	if a.check != nil {
		if wrong, err = a.check(ctx); err != nil {
			return false, 0, err
		}
	}
	rest := times[2*k:]
	rest[0] = float64(time.Since(start))
	if s.stop() {
		rest[1] = 1
	}
	n := t.size()
	cpus, wrongs, spent := rest[2:2+n], rest[2+n:2+2*n], rest[2+2*n:]
	cpus[t.rank()], wrongs[t.rank()] = cpu.Seconds()*t.share, float64(wrong)
	for i, ns := range times[:k] {
		times[k+i] = -ns
		spent[t.rank()] += ns / 1e9
	}
	if err := t.max(ctx, times); err != nil {
		return false, 0, err
	}
	batch := 1e3 * float64(a.row.Batch*max(1, a.parts))
	for i, ns := range times[:k] {
		a.row.Samples = append(a.row.Samples, ns/batch)
		a.skews = append(a.skews, (ns+times[k+i])/batch)
	}
	a.timed += k * a.row.Batch
	for i := range n {
		a.cpu += cpus[i]
		a.spent[i] += spent[i]
	}
	if a.check != nil {
		a.count(wrongs)
	}
	return rest[1] != 0, time.Duration(rest[0]), nil
}

// samples times a's calls. For each sample it enters a barrier and then makes the calls of a batch.
func (s *schedule) samples(ctx context.Context, t *team, a *arm, ns []float64) error {
	sync := a.sync
	if sync == nil {
		sync = t.barrier
	}
	for i := range ns {
		if err := sync(ctx); err != nil {
			return err
		}
		start := time.Now()
		for range a.row.Batch {
			if err := a.call(ctx, a.calls); err != nil {
				return err
			}
			a.calls++
		}
		ns[i] = float64(time.Since(start))
	}
	return nil
}

// count adds a checked call to the row, and the number of wrong elements on each rank.
func (a *arm) count(wrongs []float64) {
	a.row.Checked++
	for _, n := range wrongs {
		a.row.Wrong += int64(n)
	}
}

// rates returns how many units each rank did per second of its own time. units is the number per call.
func (a *arm) rates(units float64) []float64 {
	rates := make([]float64, len(a.spent))
	for i, seconds := range a.spent {
		rates[i] = units * float64(a.timed) / seconds
	}
	return rates
}
