package watch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/loop"
)

// A State has everything that rlinf watch shows about a run.
type State struct {
	results.Standing
	Held    bool      // a job that lives holds the run's folder
	Now     time.Time // when the State is shown
	Started time.Time // the newest start of the run; zero if unknown
	Record  NewestMetrics
	Live    trace.Live // zero if unknown
	NoLive  string     // the reason why Live is zero; "" if Live is known
	Hosts   map[int]string
	Crowd   string // see runfolder.Provenance.Crowd
	Alert   Alert
	Problem string // why the state may be outdated; "" if it is current
}

// A NewestMetrics has the newest metrics of a run.
type NewestMetrics struct {
	Step   int64                    // step of the newest line
	At     time.Time                // time of the newest line
	Curves map[string]MetricHistory // the headline metrics
	Newest PhaseTimes
	Usual  PhaseTimes // of the newest iteration without an evaluation
}

// PhaseTimes has the time of each phase of an iteration on its slowest rank.
type PhaseTimes struct {
	Step    int64
	At      time.Time          // when they were written
	Seconds map[string]float64 // by the names of loop.Phases, and loop.Simulate
}

// evaluated reports whether the iteration had an evaluation.
func (t *PhaseTimes) evaluated() bool { return t.Seconds[loop.Phases[loop.Evaluating]] > 0 }

// times returns the times in the record that s shows: those of the newest iteration. After the end of the run they are
// those of the newest usual iteration, if there is one.
func (s *State) times() (t *PhaseTimes, usual bool) {
	if usual = s.Over() && s.Record.Newest.evaluated() && s.Record.Usual.Seconds != nil; usual {
		return &s.Record.Usual, true
	}
	return &s.Record.Newest, false
}

// An Alert is the newest warning or error in the logs of the ranks.
type Alert struct {
	Rank int
	Text string    // "" if there is no alert
	At   time.Time // when the log was last written
}

func (a Alert) source() string { return fmt.Sprintf("rank %d", a.Rank) }

// Over reports whether the run has ended. A job that holds the folder may be about to begin it, or to continue it.
func (s *State) Over() bool { return s.Status != runfolder.Running && !s.Held }

// Step returns the number of iterations made.
func (s *State) Step() int64 { return max(s.Standing.Step, s.Live.Step, s.Record.Step) }

// Left returns the remaining time. It returns 0 if the time is unknown, or if the run has ended.
func (s *State) Left() time.Duration {
	if s.SecondsLeft == nil || s.Over() || s.Standing.Step == 0 {
		return 0
	}
	todo := float64(s.Steps - s.Step())
	return time.Duration(*s.SecondsLeft * todo / float64(s.Steps-s.Standing.Step) * float64(time.Second))
}

// oldAfter is the minimum age that is shown.
const oldAfter = 10 * time.Second

// Age returns the age of a figure that was measured at t. When a run ends, its figures stop ageing. ok is false if the
// age is below oldAfter or unknown.
func (s *State) Age(t time.Time) (age time.Duration, ok bool) {
	now := s.Now
	if s.Over() {
		now = s.Updated
	}
	age = now.Sub(t)
	return age, !t.IsZero() && age >= oldAfter
}

// A PhaseTime is a phase of an iteration, with its time on the slowest rank.
type PhaseTime struct {
	Name    string
	Seconds float64
	At      time.Time
}

// Simulated returns the time of the simulators in the newest known iteration, in seconds. ok is false if it is unknown.
func (s *State) Simulated() (seconds float64, ok bool) {
	times, usual := s.times()
	if len(s.Live.Phases) > 0 && s.Live.Step >= times.Step && !usual {
		for _, t := range s.Live.Phases {
			if t.Phase == loop.Simulate {
				return t.Seconds, true
			}
		}
		return 0, false
	}
	seconds, ok = times.Seconds[loop.Simulate]
	return seconds, ok
}

// shares returns the shares of all phases but the first, which is the whole step, and of the rest of the step. They are
// whole percents that add up to 100. Each phase has the time of its own slowest rank, so the phases may take longer
// than the step. Then they are shares of their sum. shares returns nil if a time is not known.
func shares(all []PhaseTime) (percents []int) {
	if len(all) == 0 {
		return nil
	}
	whole, sum, parts := all[0].Seconds, 0.0, make([]float64, 0, len(all))
	for _, p := range all[1:] {
		if !(p.Seconds >= 0) {
			return nil
		}
		parts, sum = append(parts, p.Seconds), sum+p.Seconds
	}
	if parts = append(parts, max(whole-sum, 0)); all[0].Name != loop.Phases[loop.WholeStep] {
		return nil
	}
	whole = max(whole, sum)
	if !(whole > 0) || math.IsInf(whole, 0) {
		return nil
	}
	percents, left := make([]int, len(parts)), 100
	for i, x := range parts {
		percents[i] = int(100 * x / whole)
		left -= percents[i]
	}
	lost := func(i int) float64 { return 100*parts[i]/whole - float64(percents[i]) }
	for range min(left, len(parts)) { // round up where rounding down has lost most
		most := 0
		for i := range parts {
			if lost(i) > lost(most) {
				most = i
			}
		}
		percents[most]++
	}
	return percents
}

// Phases returns the number of the newest known iteration, and its phases. The first phase is the whole step. After the
// end of a run whose last iteration had an evaluation, they are those of the newest iteration without one.
func (s *State) Phases() (step int64, phases []PhaseTime) {
	times, usual := s.times()
	if len(s.Live.Phases) > 0 && s.Live.Step >= times.Step && !usual {
		newest := slices.MaxFunc(s.Live.Phases, func(a, b trace.Timing) int { return a.At.Compare(b.At) }).At
		for _, name := range loop.Phases {
			for _, t := range s.Live.Phases {
				if t.Phase == name && t.At.Equal(newest) { // skip the times of earlier iterations
					phases = append(phases, PhaseTime{name, t.Seconds, t.At})
				}
			}
		}
		return s.Live.Step, phases
	}
	for _, name := range loop.Phases {
		if t, ok := times.Seconds[name]; ok {
			phases = append(phases, PhaseTime{name, t, times.At})
		}
	}
	return times.Step, phases
}

// A Waits has the fractions of time that the workers of a rank waited, by cause.
type Waits struct {
	Rank  int
	Share float64 // from 0 to 1
	By    []Wait  // by descending Share
	At    time.Time
}

// A Wait is a cause of waiting, with its fraction of time.
type Wait struct {
	Cause trace.Cause
	Share float64
}

// Waiting returns the waits of all ranks. The rank that waits most is the first. With only one rank Waiting returns
// nothing, because a rank waits only for others. It also returns nothing after a last iteration with an evaluation, in
// which some ranks have nothing to do.
func (s *State) Waiting() []Waits {
	if _, usual := s.times(); usual || len(s.Live.Ranks) < 2 {
		return nil
	}
	all := make([]Waits, 0, len(s.Live.Ranks))
	for _, r := range s.Live.Ranks {
		w := Waits{Rank: r.Rank, At: r.At}
		for cause, share := range r.Waits {
			if cause.IsWait() && share > 0 && !math.IsInf(share, 0) {
				w.Share += share
				w.By = append(w.By, Wait{cause, share})
			}
		}
		slices.SortFunc(w.By, func(a, b Wait) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Cause, b.Cause))
		})
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b Waits) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Rank, b.Rank))
	})
	return all
}

// causes returns the n largest causes in words.
func (w Waits) causes(n int) string {
	var words []string
	for _, x := range w.By[:min(n, len(w.By))] {
		name := string(x.Cause)
		if x.Cause == trace.Idling {
			name = "idle (not its turn)"
		}
		words = append(words, fmt.Sprintf("%s %s", name, figures.Percent(x.Share)))
	}
	return strings.Join(words, ", ")
}

// A MetricHistory has the values of a metric over steps.
type MetricHistory struct {
	Steps       []int64
	Values      []float64 // finite
	Least, Most float64   // the extremes of all values before averaging
}

// mostPoints is the maximum number of points of a MetricHistory. At this number, the MetricHistory replaces each pair
// of points by its mean.
const mostPoints = 1 << 15

// add appends a value.
func (c *MetricHistory) add(step int64, x float64) {
	if len(c.Values) == 0 {
		c.Least, c.Most = x, x
	}
	c.Least, c.Most = min(c.Least, x), max(c.Most, x)
	c.Steps, c.Values = append(c.Steps, step), append(c.Values, x)
	if len(c.Values) < mostPoints {
		return
	}
	steps, values := make([]int64, mostPoints/2, mostPoints), make([]float64, mostPoints/2, mostPoints)
	for i := range steps {
		steps[i], values[i] = c.Steps[2*i+1], c.Values[2*i]/2+c.Values[2*i+1]/2
	}
	c.Steps, c.Values = steps, values // copies of c keep the old slices
}
