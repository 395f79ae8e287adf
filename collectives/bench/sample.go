package bench

import (
	"context"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// A team is the set of ranks that measure together. Other ranks also have a team value, but it has no Comm.
type team struct {
	spmd.Comm
	reqs  [2]spmd.Request
	lead  int     // the rank of its first member
	share float64 // the fraction of its process's processor time that is counted for this rank
}

// member reports whether this rank measures with the team.
func (t *team) member() bool { return t.Comm != nil }

// barrier returns when every member has called it.
func (t *team) barrier(ctx context.Context) error { return t.max(ctx, nil) }

// max replaces every x[i] by its maximum over the members. The messages are those of a dissemination barrier (Hensgen,
// Finkel, Manber 1988): after k rounds a member has the values of 2ᵏ members. If the number of members is not a power
// of two, some values arrive twice, which does not change a maximum.
func (t *team) max(ctx context.Context, x []float64) (err error) {
	me, n, in := t.Rank(), t.Size(), make([]float64, len(x))
	for hop := 1; hop < n; hop *= 2 {
		if t.reqs[0], err = t.Irecv(bytesOf(in), (me-hop+n)%n, 0); err != nil {
			return err
		}
		if t.reqs[1], err = t.Isend(bytesOf(x), (me+hop)%n, 0); err != nil {
			return err
		}
		if err := t.Wait(ctx, t.reqs[:]); err != nil {
			return err
		}
		for i := range x {
			x[i] = max(x[i], in[i])
		}
	}
	return nil
}

func bytesOf(x []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 8*len(x))
}

// An arm is one thing that a team measures. All its functions are collective over the team.
type arm struct {
	row report.Measurement
	// refill fills the buffers before every block. It may be nil.
	refill func()
	// call makes call number i of the arm. Calls of the warm-up count, too.
	call func(ctx context.Context, i int) error
	// loop takes len(ns) samples of batch calls each, and writes their nanoseconds to ns. If loop is nil, the samples
	// are taken with call.
	loop func(batch int, ns []float64) error
	// sync is the barrier before a sample. nil means the team's barrier.
	sync func(ctx context.Context) error
	// check makes one more call and returns the number of elements that are wrong on this rank. It is nil if there is
	// nothing to check.
	check func(ctx context.Context) (wrong int64, err error)

	parts  int  // a sample is the time of a call, divided by parts; 0 counts as 1
	hidden bool // the row is not reported, but figures of other rows need its samples

	calls    int           // number of calls so far
	perBlock int           // samples in a block
	blocks   int           // number of blocks so far
	used     time.Duration // time of the blocks so far
	skews    []float64     // for each sample, the slowest rank's time minus the fastest rank's
	timed    int           // number of calls in the samples
	cpu      float64       // processor seconds of this rank in the timed calls
	wrong    int64         // elements that were wrong on this rank
	spent    []float64     // seconds of each rank in the timed calls
}

// A block is so long that the exchange at its end hardly matters, and so short that an interrupt is handled at once. An
// arm has several blocks, because the machine's speed changes over time.
const (
	blockTime   = 30 * time.Millisecond
	maxPerBlock = 200
	minBlocks   = 5
	warmTime    = 100 * time.Millisecond
	maxWarmup   = 1000
)

// A schedule says how the arms of one measurement are sampled.
type schedule struct {
	rule   stats.StopRule
	warmup int           // calls before the first sample; if negative, prepare chooses the number
	step   time.Duration // smallest step of the clock; equal on all ranks
	stop   func() bool   // called once per block on every rank
}

// run samples the arms, one block of each in turn, until all have enough samples, and fills in their rows. If together
// is true, all arms continue until the last arm has enough samples, so that they meet the same conditions. If stopped
// is true, a rank was asked to stop, and the arms have the samples taken so far.
func (s *schedule) run(ctx context.Context, t *team, arms []*arm, together bool) (stopped bool, err error) {
	defer summarize(arms)
	least := maxPerBlock
	for _, a := range arms {
		if err := s.prepare(ctx, t, a); err != nil {
			return false, err
		}
		least = min(least, a.perBlock)
	}
	for enough := false; !enough && !stopped; {
		enough = true
		for _, a := range arms {
			left := s.rule.MaxSamples - len(a.row.Samples)
			if !together && s.done(a) || left <= 0 {
				continue
			}
			if together {
				a.perBlock = least
			}
			stop, err := s.block(ctx, t, a, min(a.perBlock, left))
			if err != nil {
				return false, err
			}
			stopped = stopped || stop
			enough = enough && s.done(a)
		}
	}
	return stopped, nil
}

// done reports whether a has enough samples.
func (s *schedule) done(a *arm) bool {
	return s.rule.Done(a.row.Samples, a.used) && (a.blocks >= minBlocks ||
		len(a.row.Samples) >= s.rule.MaxSamples || a.used >= s.rule.MaxTime)
}

// summarize fills in the rows of the arms that have samples.
func summarize(arms []*arm) {
	for _, a := range arms {
		if len(a.row.Samples) > 0 {
			a.row.Summarize()
			a.row.Skew = stats.Median(a.skews)
		}
	}
}

// prepare checks the first result of an arm, warms up, and chooses the sizes of batches and blocks.
func (s *schedule) prepare(ctx context.Context, t *team, a *arm) error {
	a.spent = make([]float64, t.Size())
	if err := a.verify(ctx); err != nil {
		return err
	}
	if a.refill != nil {
		a.refill()
	}
	one, err := s.warm(ctx, t, a, 1)
	if err != nil {
		return err
	}
	n := s.warmup
	if n < 0 {
		// A tenth of MinSamples, or fewer if the calls are slow.
		n = max(1, min(max(10, min(s.rule.MinSamples/10, maxWarmup)),
			int(min(s.rule.MaxTime/10, warmTime)/max(one, 1))))
	}
	if n > 0 {
		if one, err = s.warm(ctx, t, a, n); err != nil {
			return err
		}
	}
	a.row.Batch = stats.Batch(one, s.step)
	// A block has at least two samples, so that not every sample needs an exchange.
	a.perBlock = max(2, min(maxPerBlock, int(blockTime/max(1, one*time.Duration(a.row.Batch)))))
	return nil
}

// verify calls the arm's check, if there is one.
func (a *arm) verify(ctx context.Context) error {
	if a.check == nil {
		return nil
	}
	wrong, err := a.check(ctx)
	if err == nil {
		a.wrong += wrong
		a.row.Checked++
	}
	return err
}

// warm makes n calls and returns the time per call, the same on all ranks.
func (s *schedule) warm(ctx context.Context, t *team, a *arm, n int) (time.Duration, error) {
	one := make([]float64, 1)
	if err := a.sample(ctx, t, n, one); err != nil {
		return 0, err
	}
	one[0] /= float64(n)
	err := t.max(ctx, one)
	return time.Duration(one[0]), err
}

// block takes k samples of an arm. If stop is true, a rank was asked to stop. All ranks get the same results.
func (s *schedule) block(ctx context.Context, t *team, a *arm, k int) (stop bool, err error) {
	if a.refill != nil {
		a.refill()
	}
	n, me := t.Size(), t.Rank()
	all := make([]float64, 2*k+2+3*n) // samples, negative samples, two numbers of the block, three of each rank
	times, negative, rest := all[:k], all[k:2*k], all[2*k:]
	cpus, wrongs, spent := rest[2:2+n], rest[2+n:2+2*n], rest[2+2*n:]
	start, cpu := time.Now(), cpuTime()
	if err := a.sample(ctx, t, a.row.Batch, times); err != nil {
		return false, err
	}
	a.cpu += (cpuTime() - cpu).Seconds() * t.share
	if err := a.verify(ctx); err != nil {
		return false, err
	}
	rest[0] = float64(time.Since(start))
	if s.stop() {
		rest[1] = 1
	}
	spent[me] = a.spent[me]
	for i, ns := range times {
		negative[i] = -ns
		spent[me] += ns / 1e9
	}
	cpus[me], wrongs[me] = a.cpu, float64(a.wrong)
	if err := t.max(ctx, all); err != nil {
		return false, err
	}
	batch := 1e3 * float64(a.row.Batch*max(1, a.parts))
	for i, ns := range times {
		a.row.Samples = append(a.row.Samples, ns/batch)
		a.skews = append(a.skews, (ns+negative[i])/batch)
	}
	a.blocks++
	a.used += time.Duration(rest[0])
	a.timed += k * a.row.Batch
	a.spent = spent
	a.row.CPU = 1e6 * sum(cpus) / float64(a.timed)
	a.row.Wrong = int64(sum(wrongs))
	return rest[1] != 0, nil
}

// sample takes len(ns) samples and writes their nanoseconds to ns. A sample is the time of batch calls after a barrier.
func (a *arm) sample(ctx context.Context, t *team, batch int, ns []float64) error {
	if a.loop != nil {
		return a.loop(batch, ns)
	}
	sync := a.sync
	if sync == nil {
		sync = t.barrier
	}
	for i := range ns {
		if err := sync(ctx); err != nil {
			return err
		}
		start := time.Now()
		for range batch {
			if err := a.call(ctx, a.calls); err != nil {
				return err
			}
			a.calls++
		}
		ns[i] = float64(time.Since(start))
	}
	return nil
}

// rates returns the units per second of each rank, measured in the rank's own time. units is the number of units in a
// call.
func (a *arm) rates(units float64) []float64 {
	rates := make([]float64, len(a.spent))
	for i, seconds := range a.spent {
		rates[i] = units * float64(a.timed) / seconds
	}
	return rates
}

func sum(x []float64) (total float64) {
	for _, v := range x {
		total += v
	}
	return total
}
