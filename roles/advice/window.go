package advice

import (
	"math"

	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
)

// An Iteration has the times of a finished iteration, in seconds.
type Iteration struct {
	Phases [len(loop.Phases)]float64 // times of the slowest rank
	Spent  planner.Spent             // times of all ranks; zero if not recorded
}

// IterationOf returns the times of an iteration. phases has the times of the slowest rank. spent has the fields of
// planner.Spent in order. It is empty if they are not recorded.
func IterationOf(phases [len(loop.Phases)]float64, spent []float64) Iteration {
	it := Iteration{Phases: phases}
	if len(spent) == 3 {
		it.Spent = planner.Spent{Step: spent[0], Infer: spent[1], Play: spent[2]}
	}
	return it
}

// times has the times of an Iteration in one array: its phases, and then the fields of Spent. An unknown time is 0.
type times [len(loop.Phases) + 3]float64

func (it *Iteration) times() (t times) {
	n := copy(t[:], it.Phases[:])
	t[n], t[n+1], t[n+2] = it.Spent.Step, it.Spent.Infer, it.Spent.Play
	return t
}

func (t *times) iteration() (it Iteration) {
	n := copy(it.Phases[:], t[:])
	it.Spent = planner.Spent{Step: t[n], Infer: t[n+1], Play: t[n+2]}
	return it
}

// matters reports whether time i is more than a tenth of the iteration. A field of Spent matters if it is more than a
// tenth of the sum of all fields of Spent.
func (t *times) matters(i int) bool {
	n := len(loop.Phases)
	if i < n {
		return t[i] > t[loop.WholeStep]/10
	}
	return t[i] > (t[n]+t[n+1]+t[n+2])/10
}

// differs reports whether any time that matters differs between t and u by more than the fraction share.
func (t *times) differs(u *times, share float64) bool {
	for i := range t {
		if (t.matters(i) || u.matters(i)) && max(t[i], u[i]) > min(t[i], u[i])*(1+share) {
			return true
		}
	}
	return false
}

// A window has the times of all iterations since a time last changed, the newest last.
type window []times

const (
	widest = 32 // maximum number of iterations in a window
	fewest = 3  // minimum number of iterations for medians

	// See window.changed. Noise of 10 % gives a false alarm about once in ten thousand iterations. A time that doubles
	// gives an alarm after three iterations.
	drift, maxRatio, alarm = 0.1, 0.3, 0.5
)

// enough reports whether w has enough iterations for medians.
func (w window) enough() bool { return len(w) >= fewest }

// add adds an iteration. If a time has changed, it removes the iterations before the change, and changed is true.
func (w window) add(t times) (_ window, changed bool) {
	w = append(w, t)
	if w = w[max(0, len(w)-widest):]; len(w) <= fewest {
		return w, false
	}
	medians, before := w.medians(), 0
	for i := range medians {
		if medians.matters(i) {
			before = max(before, w.changed(i, medians[i], 1), w.changed(i, medians[i], -1))
		}
	}
	return w[before:], before > 0
}

// changed detects an increase of time i over its median. If sign is -1, it detects a decrease instead. It returns the
// number of iterations before the change, or 0 if there is no change. The test is a cumulative sum (Page 1954) of the
// log ratios, each reduced by drift. Log ratios are limited to ±maxRatio, so a single iteration never gives an alarm.
func (w window) changed(i int, median, sign float64) (before int) {
	sum := 0.0
	for n := range w {
		x := 0.0
		if w[n][i] > 0 {
			x = sign * math.Log(w[n][i]/median)
		}
		if sum += min(max(x, -maxRatio), maxRatio) - drift; sum <= 0 {
			sum, before = 0, n+1
		}
	}
	if sum < alarm {
		return 0
	}
	return before
}

// doubt returns the largest relative standard error of the medians that matter.
func (w window) doubt(medians *times) (largest float64) {
	n := float64(len(w))
	for i, median := range medians {
		if !medians.matters(i) {
			continue
		}
		sum := 0.0
		for k := range w {
			if w[k][i] > 0 {
				sum += min(math.Abs(math.Log(w[k][i]/median)), maxRatio)
			}
		}
		// For normally distributed times, the standard deviation is √(π/2) times the mean absolute difference. The
		// error of the median is √(π/2) times the error of the mean.
		largest = max(largest, math.Pi/2*sum/(n-1)/math.Sqrt(n))
	}
	return largest
}

// medians returns the median of each time. Iterations in which a time is unknown do not count.
func (w window) medians() (m times) {
	for i := range m {
		var known []float64
		for n := range w {
			if w[n][i] > 0 {
				known = append(known, w[n][i])
			}
		}
		m[i] = probe.Median(known)
	}
	return m
}
